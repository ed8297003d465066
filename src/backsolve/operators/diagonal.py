"""Diagonal: t ↦ d ⊙ t, the Hadamard product with d; the block of every element-wise function."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type, type_of, without_repeats
from .base import Cost, Operator, fitted, promoted, show
from .structure import facts


def repeated(t: Any, d: Any) -> Any:
    """t · d with a t that broadcasting made (the adjoint of a sum, the tangent of a row that all rows of an
    array meet): computed once where both repeat."""
    shape = np.shape(d)
    if type(d) not in (float, int, np.ndarray, np.float64, np.float32) or len(shape) > t.ndim:
        return t * d
    if type(d) is np.ndarray:
        if shape == t.shape and not any(t.strides) and 0 not in d.strides:  # one number times d
            return t[(0,) * t.ndim] * d
        d = np.broadcast_to(d, (1,) * (t.ndim - len(shape)) + shape)
        once = [
            s == 0 and (n == 1 or r == 0)
            for s, n, r in zip(t.strides, d.shape, d.strides, strict=True)
        ]
        if any(n not in (1, m) for n, m in zip(d.shape, t.shape, strict=True)):
            return t * d
        part = tuple([slice(0, 1) if o else slice(None) for o in once])
        return np.broadcast_to(t[part] * d[part], t.shape)
    return np.broadcast_to(without_repeats(t) * d, t.shape)


class Entrywise(Operator):
    """What meets every entry of t with one of d, and nothing else."""

    __slots__ = ("_type", "d")

    def __init__(self, d: Any, type: Type | None = None):
        self.d = d
        self._type = type

    def support(self, mask: Any) -> Any:
        return mask

    @property
    def in_type(self) -> Type:
        return self._type or type_of(self.d)

    out_type = in_type

    @property
    def structure(self) -> frozenset[str]:
        real = type_of(self.d).dtype.kind != "c"
        return facts("diagonal", "symmetric") if real else facts("diagonal")

    @property
    def cost(self) -> Cost:
        n = self.in_type.size
        return Cost(multiplications=n, bytes=3 * n * self.in_type.dtype.itemsize)

    def typed(self, in_type: Type, out_type: Type | None) -> Operator:
        wide = type(self)(self.d, promoted(in_type, self.d))
        return fitted(wide, in_type, out_type)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({show(self.d)})"


class Diagonal(Entrywise):
    """t ↦ d ⊙ t: the block of every element-wise function.

    >>> import numpy as np
    >>> Diagonal(np.array([2.0, 3.0])).apply(np.ones(2))
    array([2., 3.])
    """

    __slots__ = ()

    def apply(self, t: Any) -> Any:
        if t.__class__ is np.ndarray and t.size > 4096 and 0 in t.strides:
            return repeated(t, self.d)
        return t * self.d

    def pull(self, t: Any) -> Any:
        return self.apply(t) if t.dtype.kind != "c" else self.T.apply(t)

    @property
    def T(self) -> Operator:
        d = self.d
        try:
            if d.dtype.kind == "c":
                return Diagonal(np.conjugate(d), self._type)
        except AttributeError:  # a bare Python number
            if type(d) is complex:
                return Diagonal(d.conjugate(), self._type)
        return self

    def dense(self) -> Any:
        d = np.asarray(self.d, self.in_type.dtype)
        return np.diag(np.broadcast_to(d, self.in_type.shape).reshape(-1))


Hadamard = Diagonal
