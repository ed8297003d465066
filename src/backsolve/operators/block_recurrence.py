"""BlockRecurrence: Recurrence with matrices for factors.

    s_0 = t_0,    s_j = t_j + A_j s_{j−1}

`A` is (…, steps, n, n), the vectors are (…, steps, n). The adjoint runs the other way with A_{j+1}ᴴ.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..primitive import P
from .base import Cost, Operator, fitted, promoted
from .solve import adjoint


class BlockRecurrence(Operator):
    """t ↦ s with s_0 = t_0, s_j = t_j + A_j s_{j−1}, for matrices A_j; backwards with `reverse`."""

    __slots__ = ("A", "_type", "reverse")

    def __init__(self, A: Any, reverse: bool = False, type: Type | None = None):
        self.A = A
        self.reverse = reverse
        self._type = type

    def apply(self, t: Any) -> Any:
        return P.block_recurrence(self.A, t, reverse=self.reverse)

    @property
    def T(self) -> Operator:
        turned = np.roll(adjoint(self.A), 1 if self.reverse else -1, axis=-3)
        return BlockRecurrence(turned, not self.reverse, self.in_type)

    @property
    def in_type(self) -> Type:
        return self._type or Type(tuple(self.A.shape[:-1]), np.dtype(self.A.dtype))

    out_type = in_type

    def typed(self, in_type: Type, out_type: Type | None) -> Operator:
        mine = BlockRecurrence(self.A, self.reverse, promoted(in_type, self.A))
        return fitted(mine, in_type, out_type)

    @property
    def cost(self) -> Cost:
        n = self.A.size
        moved = (n + 2 * self.in_type.size) * self.in_type.dtype.itemsize
        return Cost(n, n, moved)

    def __repr__(self) -> str:
        steps, n = self.A.shape[-3], self.A.shape[-1]
        return f"BlockRecurrence({steps} steps of {n}{', reverse' if self.reverse else ''})"
