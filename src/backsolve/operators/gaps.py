"""OverGaps: t ↦ t / g, g the gaps between eigenvalues or singular values; where one is closed, t must be 0.

Eigenvectors of a repeated eigenvalue have no derivative, unless nobody asks for it: 0 over a gap of 0 is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type, type_of
from ..primitive import P
from .base import Cost, Operator, fitted, promoted, show
from .structure import facts


class OverGaps(Operator):
    __slots__ = ("_type", "gaps")

    def __init__(self, gaps: Any, type: Type | None = None):
        self.gaps = gaps
        self._type = type

    def apply(self, t: Any) -> Any:
        return P.over_gaps(t, self.gaps)

    def support(self, mask: Any) -> Any:
        return mask

    @property
    def T(self) -> Operator:
        real = type_of(self.gaps).dtype.kind != "c"
        return self if real else OverGaps(np.conjugate(self.gaps), self._type)

    @property
    def in_type(self) -> Type:
        return self._type or type_of(self.gaps)

    out_type = in_type

    @property
    def structure(self) -> frozenset[str]:
        real = type_of(self.gaps).dtype.kind != "c"
        return facts("diagonal", "symmetric") if real else facts("diagonal")

    @property
    def cost(self) -> Cost:
        n = self.in_type.size
        return Cost(multiplications=n, bytes=3 * n * self.in_type.dtype.itemsize)

    def typed(self, in_type: Type, out_type: Type | None) -> Operator:
        return fitted(OverGaps(self.gaps, promoted(in_type, self.gaps)), in_type, out_type)

    def __repr__(self) -> str:
        return f"OverGaps({show(self.gaps)})"
