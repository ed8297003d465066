"""Mask: keep the entries where the mask is true, structural zeros elsewhere.

A Mask selects, it does not multiply: an entry that is masked out stays zero whatever infinity it
meets later. This is what makes `where(x > 0, sqrt(x), 0)` have the gradient 0 at 0 and not NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..hooks import hooks
from ..ir import Type
from .base import Cost, Operator, fitted
from .structure import facts


class Mask(Operator):
    """Keeps the entries where the mask is true; the others are zero, whatever infinity they meet."""

    __slots__ = ("_type", "mask")
    moves_entries = True
    facts = facts("diagonal", "symmetric")
    masks = adjoint_masks = True

    def __init__(self, mask: Any, type: Type | None = None):
        self.mask = mask
        self._type = type

    def apply(self, t: Any) -> Any:
        return hooks.where(self.mask, t, 0)

    def support(self, mask: Any) -> Any:
        return self.mask if mask is None else np.logical_and(self.mask, mask)

    @property
    def T(self) -> Operator:
        return self

    @property
    def in_type(self) -> Type:
        return self._type or Type(np.shape(self.mask), np.dtype(float))

    out_type = in_type

    @property
    def cost(self) -> Cost:
        return Cost(bytes=2 * self.in_type.nbytes)

    def typed(self, in_type: Type, out_type: Type | None) -> Operator:
        return fitted(Mask(self.mask, Type(in_type.shape, in_type.dtype)), in_type, out_type)

    def __repr__(self) -> str:
        kept = np.asarray(self.mask)
        return f"Mask({int(kept.sum())} of {kept.size})"
