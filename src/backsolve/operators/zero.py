"""Zero: t ↦ 0, by structure: 0 · ∞ is 0 here."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from .base import Between, Cost, Operator
from .structure import facts


class Zero(Between):
    """t ↦ 0, by structure: 0 · ∞ is 0 here."""

    __slots__ = ()
    facts = facts("zero")
    masks = adjoint_masks = True

    def __init__(self, in_type: Type | None = None, out_type: Type | None = None):
        self._in, self._out = in_type, out_type

    def apply(self, t: Any) -> Any:
        if self._out is None:
            return np.zeros(np.shape(t), getattr(t, "dtype", float))
        return np.zeros(self._out.shape, self._out.dtype)

    def support(self, mask: Any) -> Any:
        return None if self._out is None else np.zeros(self._out.shape, bool)

    @property
    def T(self) -> Operator:
        return Zero(self._out, self._in)

    def typed(self, in_type: Type, out_type: Type | None) -> Operator:
        return Zero(in_type, out_type or self._out or in_type)

    @property
    def cost(self) -> Cost:
        return Cost()

    def __repr__(self) -> str:
        return "Zero()"
