"""Batching: stage a function on one example, then run the Program on all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .ir import Equation, Program, Var
from .primitive import FUNCTIONS
from .primitives.batching import one_by_one, spread
from .tensor import is_stack
from .trace import standing_for


def evaluate_batched(
    program: Program, args: Sequence[Any], batched: Sequence[bool], size: int
) -> list[Any]:
    """Run a Program whose batched inputs carry a leading axis of `size`; so do all results."""
    return evaluate_batched_as(program, args, batched, size, [True] * len(program.outputs))


def evaluate_batched_as(
    program: Program,
    args: Sequence[Any],
    batched: Sequence[bool],
    size: int,
    wanted: Sequence[bool],
) -> list[Any]:
    """The same, with a leading axis on the `wanted` results (at least those that differ between examples)."""
    values: dict[Var, tuple[Any, bool]] = {
        var: (a, b) for var, a, b in zip(program.inputs, args, batched, strict=True)
    }
    values.update({var: (c, False) for var, c in program.constants})
    for e in program.equations:
        inputs = [values[a] if type(a) is Var else (a, False) for a in e.inputs]
        plain = [a for a, _ in inputs]
        flags = [b for _, b in inputs]
        with standing_for(e.where):
            _evaluate_one(e, plain, flags, size, values)
    outputs = [values[a] if type(a) is Var else (a, False) for a in program.outputs]
    return [
        spread_any(y, size) if want and not b else y
        for (y, b), want in zip(outputs, wanted, strict=True)
    ]


def _evaluate_one(
    e: Equation, plain: list[Any], flags: list[bool], size: int, values: dict[Var, tuple[Any, bool]]
) -> None:
    if e.primitive.holds_regions:
        rule = e.primitive.batch_rule
        assert rule is not None
        results, marks = (
            rule(e.primitive, size, plain, flags, e.params["region"])
            if any(flags)
            else (e.primitive(*plain, **e.params), [False] * len(e.outputs))
        )
        values.update(zip(e.outputs, zip(results, marks, strict=True), strict=True))
    elif any(flags):
        rule = e.primitive.batch_rule or one_by_one
        y = rule(e.primitive, size, plain, flags, e.params)
        if any(b and a.type.weak for a, b in zip(e.inputs, flags, strict=True)):
            # A bare number that differs between examples is an array, and no longer weak.
            y = y if y.dtype == e.outputs[0].dtype else FUNCTIONS["astype"](y, e.outputs[0].dtype)
        values[e.outputs[0]] = (y, True)
    else:
        values[e.outputs[0]] = (e.primitive(*plain, **e.params), False)


def spread_any(y: Any, size: int) -> Any:
    """The same value for each example."""
    if is_stack(y):
        return FUNCTIONS["spread_stack"](y, size)
    return spread(np.asarray(y) if isinstance(y, bool | int | float | complex) else y, size)
