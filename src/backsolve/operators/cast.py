"""Cast, Conjugate, RealPart: the maps between real and complex numbers, all real-linear.

Under ⟨u, v⟩ = Re Σ ū v the adjoint of embedding the reals in ℂ is taking the real part, and
conjugation is its own adjoint: ⟨ū, v⟩ = Re Σ u v = ⟨u, v̄⟩.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from .base import Between, Operator
from .structure import facts


def convert(t: Any, dtype: np.dtype[Any]) -> Any:
    """t in another dtype; a complex t becomes real by its real part."""
    if t.dtype.kind == "c" and dtype.kind != "c":
        t = np.real(t)
    return t.astype(dtype) if t.dtype != dtype else t


class Cast(Between):
    """t ↦ t in another dtype."""

    __slots__ = ()
    facts = facts("identity")  # up to rounding

    def __init__(self, in_type: Type, dtype: Any):
        self._in = Type(in_type.shape, in_type.dtype)
        self._out = Type(in_type.shape, np.dtype(dtype))

    def apply(self, t: Any) -> Any:
        return convert(t, self._out.dtype)

    def support(self, mask: Any) -> Any:
        return mask

    @property
    def T(self) -> Operator:
        return Cast(self._out, self._in.dtype)

    @property
    def structure(self) -> frozenset[str]:
        same_field = (self._in.dtype.kind == "c") == (self._out.dtype.kind == "c")
        return self.facts if same_field else frozenset()

    def __repr__(self) -> str:
        return f"Cast({self._in.dtype.name} → {self._out.dtype.name})"


class Conjugate(Operator):
    """t ↦ t̄, linear over the reals."""

    __slots__ = ("_type",)

    def __init__(self, type: Type):
        self._type = Type(type.shape, type.dtype)

    def apply(self, t: Any) -> Any:
        return np.conjugate(t)

    def support(self, mask: Any) -> Any:
        return mask

    @property
    def T(self) -> Operator:
        return self

    @property
    def in_type(self) -> Type:
        return self._type

    out_type = in_type

    def __repr__(self) -> str:
        return "Conjugate()"


class RealPart(Operator):
    """ℂ → ℝ; `RealPart(t).T` embeds."""

    __slots__ = ("_in",)

    def __init__(self, in_type: Type):
        self._in = Type(in_type.shape, in_type.dtype)

    def apply(self, t: Any) -> Any:
        return np.real(t)

    def support(self, mask: Any) -> Any:
        return mask

    @property
    def T(self) -> Operator:
        return Cast(self.out_type, self._in.dtype)

    @property
    def in_type(self) -> Type:
        return self._in

    @property
    def out_type(self) -> Type:
        return Type(self._in.shape, np.empty(0, self._in.dtype).real.dtype)

    def __repr__(self) -> str:
        return "RealPart()"
