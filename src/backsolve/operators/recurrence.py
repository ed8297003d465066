"""Recurrence and Cumsum: sums that run along an axis.

Recurrence(a) solves the bidiagonal system

    s_0 = t_0,    s_j = t_j + a_j s_{j−1}

which is `(I − L) s = t` once more. Its adjoint runs the other way:

    s_n = t_n,    s_j = t_j + a_{j+1} s_{j+1}

Cumsum is the case a = 1, kept apart because NumPy does it in one call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir import Type
from ..primitive import P
from .base import Cost, Operator, fitted, promoted
from .structure import facts


class Recurrence(Operator):
    """t ↦ s with s_0 = t_0, s_j = t_j + a_j s_{j−1} along an axis; backwards with `reverse`."""

    __slots__ = ("_type", "a", "axis", "reverse")

    def __init__(self, a: Any, axis: int, reverse: bool = False, type: Type | None = None):
        self.a = a
        self.axis = axis
        self.reverse = reverse
        self._type = type

    def apply(self, t: Any) -> Any:
        return P.recurrence(self.a, t, axis=self.axis, reverse=self.reverse)

    @property
    def T(self) -> Operator:
        return Recurrence(
            _shift(np.conjugate(self.a), self.axis, self.reverse),
            self.axis,
            not self.reverse,
            self._type,
        )

    @property
    def in_type(self) -> Type:
        return self._type or Type(self.a.shape, self.a.dtype)

    out_type = in_type

    def typed(self, in_type: Type, out_type: Type | None) -> Operator:
        mine = Recurrence(self.a, self.axis, self.reverse, promoted(in_type, self.a))
        return fitted(mine, in_type, out_type)

    @property
    def cost(self) -> Cost:
        n = self.in_type.size
        return Cost(n, n, 3 * n * self.in_type.dtype.itemsize)

    def __repr__(self) -> str:
        return f"Recurrence(axis={self.axis}{', reverse' if self.reverse else ''})"


def _shift(a: Any, axis: int, reverse: bool) -> Any:
    """a_{j+1} at place j (a_{j−1} when reversed); the entry that falls in is never read."""
    return np.roll(a, 1 if reverse else -1, axis=axis)


def sum_ahead(t: Any) -> Any:
    return np.add.accumulate(t)


def sum_back(t: Any) -> Any:
    out = np.empty(t.shape, t.dtype)
    np.add.accumulate(t[::-1], out=out[::-1])
    return out


# Running sums of vectors; primitives/scan.py puts ways here that are faster where many entries were seen.
RUNNING: dict[str, Callable[[Any], Any]] = {"ahead": sum_ahead, "reverse": sum_back}


class Cumsum(Operator):
    """t ↦ its running sums along an axis; from the end with `reverse`."""

    __slots__ = ("_type", "axis", "reverse")
    facts = facts()

    def __init__(self, type: Any, axis: int, reverse: bool = False):
        self._type = type
        self.axis = axis
        self.reverse = reverse

    def apply(self, t: Any) -> Any:
        if type(t) is np.ndarray and t.dtype.kind in "fc":
            if t.ndim == 1 and t.dtype.char in "fd":
                return RUNNING["reverse" if self.reverse else "ahead"](t)
            along = (slice(None),) * self.axis + (slice(None, None, -1 if self.reverse else 1),)
            out = np.empty(t.shape, t.dtype)
            np.add.accumulate(t[along], axis=self.axis, out=out[along])
            return out
        if not self.reverse:
            return np.cumsum(t, axis=self.axis)
        return np.flip(np.cumsum(np.flip(t, self.axis), axis=self.axis), self.axis)

    @property
    def T(self) -> Operator:
        return Cumsum(self._type, self.axis, not self.reverse)

    @property
    def in_type(self) -> Type:
        return Type(self._type.shape, self._type.dtype)

    out_type = in_type

    @property
    def cost(self) -> Cost:
        return Cost(
            additions=self.in_type.size, bytes=2 * self.in_type.size * self._type.dtype.itemsize
        )

    def __repr__(self) -> str:
        return f"Cumsum(axis={self.axis}{', reverse' if self.reverse else ''})"
