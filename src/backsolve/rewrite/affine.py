"""Indices: those that move evenly with the rounds of a loop, and known ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Equation, Var


def affine(a: Any, k: Var, makers: dict[Var, Equation]) -> tuple[int, int] | None:
    """(offset, sign) of an index that is k + offset or offset − k."""
    if type(a) is not Var:
        return None
    if a is k:
        return 0, 1
    e = makers.get(a)
    if e is None:
        return None
    name = e.primitive.name
    if name in ("cast_discrete", "alias") or (name == "reshape" and e.outputs[0].shape == ()):
        return affine(e.inputs[0], k, makers)
    if name not in ("add", "subtract"):
        return None
    x, y = e.inputs
    if type(y) is int:
        inner = affine(x, k, makers)
        if inner is not None:
            return inner[0] + (y if name == "add" else -y), inner[1]
    elif type(x) is int:
        inner = affine(y, k, makers)
        if inner is not None:
            return (x + inner[0], inner[1]) if name == "add" else (x - inner[0], -inner[1])
    return None


def whole_number(a: Any) -> int:
    """A known index; −1 for one that is not."""
    value = getattr(a, "_v", a)
    known = type(value) is int or isinstance(value, np.ndarray | np.integer)
    return int(value) if known and np.ndim(value) == 0 else -1
