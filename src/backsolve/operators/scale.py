"""Scale: t ↦ c t with one number c."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from .base import Cost, Operator, fitted, promoted, show
from .diagonal import repeated
from .structure import facts


class Scale(Operator):
    """t ↦ c t, with one number c."""

    __slots__ = ("_type", "factor")

    def __init__(self, factor: Any, type: Any = None):
        self.factor = factor
        self._type = type

    def apply(self, t: Any) -> Any:
        if isinstance(t, tuple):
            return tuple(None if x is None else x * self.factor for x in t)
        if t.__class__ is np.ndarray and t.size > 4096 and 0 in t.strides:
            return repeated(t, self.factor)
        return t * self.factor

    def support(self, mask: Any) -> Any:
        return mask

    @property
    def T(self) -> Operator:
        if not np.iscomplexobj(self.factor):
            return self  # np.conjugate would make a strong NumPy scalar of a weak Python number
        return Scale(self.factor.conjugate(), self._type)

    @property
    def in_type(self) -> Any:
        return self._type

    out_type = in_type

    @property
    def structure(self) -> frozenset[str]:
        return facts("diagonal") if np.iscomplexobj(self.factor) else facts("diagonal", "symmetric")

    @property
    def cost(self) -> Cost:
        n = self._type.size if isinstance(self._type, Type) else 1
        return Cost(multiplications=0 if self.is_sign else n)

    @property
    def is_sign(self) -> bool:
        """±1: a sign, not a multiplication."""
        return self.is_exactly(1) or self.is_exactly(-1)

    def is_exactly(self, value: int) -> bool:
        """By a number written down; not by one that was computed, and may vary."""
        return type(self.factor) in (int, float) and self.factor == value

    def typed(self, in_type: Type, out_type: Type | None) -> Operator:
        return fitted(Scale(self.factor, promoted(in_type, self.factor)), in_type, out_type)

    def __repr__(self) -> str:
        return f"Scale({show(self.factor)})"
