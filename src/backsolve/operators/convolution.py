"""Convolution of two vectors as a linear map of one of them, where the other is given.

    full:   y[i] = Σ_j a[i − j] v[j]              wherever an entry of each is there
    valid:  y[i] = Σ_j a[i + m − 1 − j] v[j]      where all of v meets a (a is the longer one)

The adjoint of the one is the other with v turned round: Σ_i ȳ[i] v[i − k] is a valid convolution of ȳ, and
the places that the valid one leaves out come back as the full one's borders. As a map of the shorter
factor v, the valid one turns ȳ and what comes out: v̄[m − 1 − p] = Σ_i ȳ[i] a[p + i].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..primitive import P
from .base import Cost, Operator
from .slice import Slice

TURNED = ((None, None, -1),)


def convolved(n: int, m: int, mode: str) -> int:
    """How many entries the convolution of n and m entries has."""
    return n + m - 1 if mode == "full" else n - m + 1


class Convolution(Operator):
    """t ↦ np.convolve(t, other, mode), or of (other, t) with `hole=1`."""

    __slots__ = ("_in", "hole", "mode", "other")

    def __init__(self, in_type: Any, other: Any, mode: str, hole: int = 0):
        self._in = in_type
        self.other = other
        self.mode = mode
        self.hole = hole  # which of (a, v) the argument is

    def apply(self, t: Any) -> Any:
        a, v = (self.other, t) if self.hole else (t, self.other)
        return P.convolve(a, v, mode=self.mode)

    @property
    def T(self) -> Operator:
        from .product import Product

        mine, out = self.in_type, self.out_type
        given = np.conjugate(self.other) if self.other.dtype.kind == "c" else self.other
        if self.mode == "valid" and self.hole:
            inside = Convolution(out, given, "valid", 1)
            return Product([Slice(mine, TURNED), inside, Slice(out, TURNED)])
        return Convolution(out, given[::-1], "valid" if self.mode == "full" else "full")

    @property
    def in_type(self) -> Type:
        return Type(self._in.shape, np.result_type(self._in.dtype, self.other.dtype))

    @property
    def out_type(self) -> Type:
        n, m = self._in.shape[0], self.other.shape[0]
        size = convolved(m, n, self.mode) if self.hole else convolved(n, m, self.mode)
        return Type((size,), self.in_type.dtype)

    @property
    def cost(self) -> Cost:
        work = min(self._in.shape[0], self.other.shape[0]) * self.out_type.size
        return Cost(work, work, (self._in.shape[0] + self.out_type.size) * self._in.dtype.itemsize)

    def __repr__(self) -> str:
        return f"Convolution({self.mode}, {self._in.shape} with {self.other.shape})"
