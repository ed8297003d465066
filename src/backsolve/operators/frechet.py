"""Frechet: E ↦ the derivative of the matrix exponential at A in the direction E.

exp [A E; 0 A] = [exp A, Frechet(E); 0, exp A]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..primitive import P
from .base import Cost, Operator, fitted, promoted, show
from .solve import adjoint


class Frechet(Operator):
    """E ↦ the derivative of the matrix exponential at A in the direction E."""

    __slots__ = ("A", "_type")

    def __init__(self, A: Any, type: Type | None = None):
        self.A = A
        self._type = type

    def apply(self, t: Any) -> Any:
        n = self.A.shape[-1]
        upper = np.concatenate([self.A, t], axis=-1)
        lower = np.concatenate([np.zeros(t.shape, t.dtype), self.A], axis=-1)
        return P.expm(np.concatenate([upper, lower], axis=-2))[..., :n, n:]

    @property
    def T(self) -> Operator:
        return Frechet(adjoint(self.A), self._type)

    @property
    def in_type(self) -> Type:
        t = self._type if self._type is not None else self.A
        return Type(tuple(t.shape), np.dtype(t.dtype))

    out_type = in_type

    @property
    def cost(self) -> Cost:
        n, size = self.A.shape[-1], self.in_type.size
        products = 15 * 8 * size * n  # of matrices of twice the size
        return Cost(products, products, 8 * size * self.in_type.dtype.itemsize)

    def typed(self, in_type: Type, out_type: Type | None) -> Operator:
        return fitted(Frechet(self.A, promoted(in_type, self.A)), in_type, out_type)

    def __repr__(self) -> str:
        return f"Frechet({show(self.A)})"
