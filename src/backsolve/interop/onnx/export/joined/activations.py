"""Relu, written as where(x <= 0, 0, x)."""

from __future__ import annotations

from .....ir import Equation, type_of
from .base import Walk, made_by, recogniser


@recogniser("where")
def rectified(walk: Walk, e: Equation) -> str | None:
    test, zero, x = e.inputs
    source, out = made_by(walk, test, "less_equal"), e.outputs[0].type
    if source is None or out.dtype.kind != "f":
        return None
    left, right = source.inputs
    if left is not x or type_of(x) != out:
        return None
    if any(type(a) not in (int, float) or a != 0 for a in (right, zero)):
        return None
    return str(walk.g.Relu(walk.value(x)))
