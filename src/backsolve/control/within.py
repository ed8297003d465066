"""Loops on numbers inside `bs.checkpoint` with a budget: chains whose rounds are run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import StructureError
from ..ir import Program
from ..regions import Loop
from ..solve import loop_within
from ..solve.budget import Budget
from ..solve.reversal import row_of
from ..trace import evaluate


def loop(
    budget: Budget,
    body: Callable[[int, Any], Any],
    init: Any,
    count: int | None,
    goes_on: Callable[[Any], Any] | None = None,
    name: str = "loop",
) -> Any:
    """A loop over a state, without sequences."""
    leaves, structure = tree.flatten(init)

    def step(k: int, state: list[Any], entries: list[Any]) -> tuple[list[Any], list[Any]]:
        return _same(body(k, structure.unflatten(state)), structure, name), []

    ask = None if goes_on is None else (lambda s: bool(goes_on(structure.unflatten(s))))
    ends, _ = loop_within(budget, step, leaves, [], count, ask, name=name)
    return structure.unflatten(ends)


def scan(
    budget: Budget,
    body: Callable[[Any, Any], Any],
    init: Any,
    columns: list[Any],
    entries_form: Any,
    count: int,
    reverse: bool,
) -> tuple[Any, Any]:
    leaves, structure = tree.flatten(init)
    forms: list[Any] = []

    def step(k: int, state: list[Any], entries: list[Any]) -> tuple[list[Any], list[Any]]:
        result = body(structure.unflatten(state), entries_form.unflatten(entries))
        if not (isinstance(result, tuple | list) and len(result) == 2):
            raise StructureError("the body of a scan must return (carry, y)")
        ys, form = tree.flatten(result[1])
        forms[:] = [form]
        return _same(result[0], structure, "scan"), ys

    ends, made = loop_within(budget, step, leaves, columns, count, None, reverse, name="scan")
    return structure.unflatten(ends), forms[0].unflatten(made) if forms else None


def recorded(budget: Budget, loop: Loop, args: Sequence[Any]) -> list[Any] | None:
    """What a loop that was recorded gives, on numbers; None where there is nothing to keep."""
    limit, carried, fixed, sequences = loop.split(args)
    makes = len(loop.body.outputs) > loop.carried
    if limit == 0 or (loop.goes_on is not None and makes) or not any(map(row_of, args)):
        return None

    def step(k: int, state: list[Any], entries: list[Any]) -> tuple[list[Any], list[Any]]:
        at = count - 1 - k if loop.reverse and count is not None else k
        after = evaluate(loop.body, weakened([at, *state[1:], *fixed, *entries], loop.body))
        return [state[0] + 1, *after[: loop.carried]], after[loop.carried :]

    def goes_on(state: list[Any]) -> bool:
        assert loop.goes_on is not None
        return bool(evaluate(loop.goes_on, [*state, *fixed])[0])

    count = None if limit is None else int(limit)
    ask = None if loop.goes_on is None else goes_on
    start = [0, *carried]
    ends, made = loop_within(budget, step, start, sequences, count, ask, loop.reverse)
    return [*ends[1:], *made, ends[0]]


def weakened(args: Sequence[Any], program: Program) -> list[Any]:
    """Numbers that came out of an array, as the bare Python numbers that they were."""
    return [
        x.item() if v.type.weak and isinstance(x, np.generic | np.ndarray) else x
        for x, v in zip(args, program.inputs, strict=True)
    ]


def _same(state: Any, structure: Any, name: str) -> list[Any]:
    leaves, form = tree.flatten_like(state, structure)
    if form != structure:
        raise StructureError(
            f"the body of a {name} must return a state of the form that it is given"
        )
    return leaves
