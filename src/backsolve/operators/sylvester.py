"""Sylvester: C ↦ X with A X + X B = C, for stacks of matrices; the adjoint solves with Aᴴ and Bᴴ."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..primitive import P
from .base import Cost, Operator, fitted, promoted, show
from .solve import adjoint


class Sylvester(Operator):
    """C ↦ X with A X + X B = C, for stacks of matrices."""

    __slots__ = ("A", "B", "_type")

    def __init__(self, A: Any, B: Any, type: Any):
        self.A, self.B = A, B
        self._type = type

    def apply(self, t: Any) -> Any:
        return P.sylvester(self.A, self.B, t)

    @property
    def T(self) -> Operator:
        return Sylvester(adjoint(self.A), adjoint(self.B), self.in_type)

    @property
    def in_type(self) -> Type:
        return Type(tuple(self._type.shape), np.dtype(self._type.dtype))

    out_type = in_type

    @property
    def cost(self) -> Cost:
        """Two Schur forms, and four products around the triangular equation."""
        m, n = self.in_type.shape[-2:]
        work = 25 * (self.A.size * m + self.B.size * n) // 2 + 3 * self.in_type.size * (m + n)
        moved = self.A.size + self.B.size + 2 * self.in_type.size
        return Cost(work, work, moved * self.in_type.dtype.itemsize)

    def typed(self, in_type: Type, out_type: Type | None) -> Operator:
        wide = promoted(promoted(in_type, self.A), self.B)
        return fitted(Sylvester(self.A, self.B, wide), in_type, out_type)

    def __repr__(self) -> str:
        return f"Sylvester({show(self.A)}, {show(self.B)})"
