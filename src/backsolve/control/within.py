"""Loops on numbers inside `bs.checkpoint` with a budget: chains whose rounds are run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import tree
from ..errors import StructureError
from ..solve import loop_within
from ..solve.budget import Budget


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


def _same(state: Any, structure: Any, name: str) -> list[Any]:
    leaves, form = tree.flatten_like(state, structure)
    if form != structure:
        raise StructureError(
            f"the body of a {name} must return a state of the form that it is given"
        )
    return leaves
