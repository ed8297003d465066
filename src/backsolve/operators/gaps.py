"""OverGaps: t ↦ t / g, g the gaps between eigenvalues or singular values; where one is closed, t must be 0.

Eigenvectors of a repeated eigenvalue have no derivative, unless nobody asks for it: 0 over a gap of 0 is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import type_of
from ..primitive import P
from .base import Operator
from .diagonal import Entrywise


class OverGaps(Entrywise):
    """t ↦ t / g with the gaps g between eigenvalues; where one is closed t must be 0, and stays it."""

    __slots__ = ()

    def apply(self, t: Any) -> Any:
        return P.over_gaps(t, self.d)

    @property
    def T(self) -> Operator:
        real = type_of(self.d).dtype.kind != "c"
        return self if real else OverGaps(np.conjugate(self.d), self._type)
