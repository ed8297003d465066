"""Diagonal: t ↦ d ⊙ t, the Hadamard product with d; the block of every element-wise function."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type, type_of
from .base import Cost, Operator, fitted, promoted, show
from .structure import facts


class Diagonal(Operator):
    __slots__ = ("_type", "d")

    def __init__(self, d: Any, type: Type | None = None):
        self.d = d
        self._type = type

    def apply(self, t: Any) -> Any:
        return t * self.d

    def pull(self, t: Any) -> Any:
        return t * self.d if t.dtype.kind != "c" else self.T.apply(t)

    def support(self, mask: Any) -> Any:
        return mask

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
        return fitted(Diagonal(self.d, promoted(in_type, self.d)), in_type, out_type)

    def dense(self) -> Any:
        d = np.asarray(self.d, self.in_type.dtype)
        return np.diag(np.broadcast_to(d, self.in_type.shape).reshape(-1))

    def __repr__(self) -> str:
        return f"Diagonal({show(self.d)})"


Hadamard = Diagonal
