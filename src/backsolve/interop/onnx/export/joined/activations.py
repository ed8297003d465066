"""Relu, Clip, LeakyRelu and PRelu, which are written as choices between pieces."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ir import Equation, type_of
from .base import Walk, both_ways, is_like, made_by, recogniser


@recogniser("where")
def rectified(walk: Walk, e: Equation) -> str | None:
    """where(x <= 0, 0, x)"""
    below = _piece(walk, e, "less_equal")
    if below is None or below[1] != 0 or e.inputs[2] is not below[0]:
        return None
    return str(walk.g.Relu(walk.value(below[0])))


@recogniser("where")
def clipped(walk: Walk, e: Equation) -> str | None:
    """where(x <= low, low, where(x >= high, high, x))"""
    below, inner = _piece(walk, e, "less_equal"), made_by(walk, e.inputs[2], "where")
    above = None if inner is None else _piece(walk, inner, "greater_equal")
    if inner is None or below is None or above is None:
        return None
    (x, low), (y, high) = below, above
    if x is not y or inner.inputs[2] is not x or not low <= high:
        return None
    dtype = e.outputs[0].type.dtype
    return str(walk.g.Clip(walk.value(x), walk.g.number(low, dtype), walk.g.number(high, dtype)))


def _piece(walk: Walk, e: Equation, row: str) -> tuple[Any, Any] | None:
    """x and c, of where(x compared with c, c, …)."""
    test, c, _ = e.inputs
    source, out = made_by(walk, test, row), e.outputs[0].type
    if source is None or out.dtype.kind != "f" or type_of(source.inputs[0]) != out:
        return None
    x, bound = source.inputs[0], walk.number(source.inputs[1])
    number = walk.number(c)
    same = bound is not None and number is not None and out.dtype.type(bound) == number
    return (x, number) if same and is_like(x, out.dtype) else None


@recogniser("multiply")
def leaking(walk: Walk, e: Equation) -> str | None:
    """x · where(x > 0, 1, slope); the operator has its slope in single precision."""
    out = e.outputs[0].type
    for x, factor in both_ways(e):
        source = made_by(walk, factor, "where")
        if source is None or out.dtype.kind != "f" or not _is_positive(walk, source.inputs[0], x):
            continue
        one, slope = (walk.number(a) for a in source.inputs[1:])
        if one != 1 or slope is None or type_of(x) != out:
            continue
        if out.dtype.type(np.float32(slope)) == out.dtype.type(slope):
            return str(walk.g.LeakyRelu(walk.value(x), alpha=float(slope)))
    return None


@recogniser("where")
def learnt(walk: Walk, e: Equation) -> str | None:
    """where(x > 0, x, slope · x), for an array of slopes"""
    test, x, otherwise = e.inputs
    out, product = e.outputs[0].type, made_by(walk, otherwise, "multiply")
    if product is None or out.dtype.kind != "f" or not _is_positive(walk, test, x):
        return None
    for a, slope in both_ways(product):
        if a is x and type_of(x) == out == type_of(otherwise) and is_like(slope, out.dtype):
            return str(walk.g.PRelu(walk.value(x), walk.value(slope)))
    return None


def _is_positive(walk: Walk, test: Any, x: Any) -> bool:
    source = made_by(walk, test, "greater")
    return source is not None and source.inputs[0] is x and walk.number(source.inputs[1]) == 0
