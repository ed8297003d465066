"""Reshape and Transpose: the entries stay, their places change."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Shape, Type
from .base import Cost, From, Operator, whole
from .structure import facts


class Reshape(From):
    """t ↦ the same entries in another shape."""

    __slots__ = ("target",)
    moves_entries = True
    facts = facts("permutation")

    def __init__(self, in_type: Any, target: Shape):
        self._in = in_type
        self.target = target

    def apply(self, t: Any) -> Any:
        return np.reshape(t, self.target)

    def support(self, mask: Any) -> Any:
        return None if mask is None else np.reshape(whole(mask, self._in.shape), self.target)

    @property
    def T(self) -> Operator:
        return Reshape(self.out_type, self._in.shape)

    @property
    def out_type(self) -> Type:
        return Type(self.target, self._in.dtype)

    @property
    def cost(self) -> Cost:
        return Cost()

    def __repr__(self) -> str:
        return f"Reshape({self._in.shape} → {self.target})"


class Transpose(From):
    """A permutation of the axes."""

    __slots__ = ("axes",)
    moves_entries = True
    facts = facts("permutation")

    def __init__(self, in_type: Any, axes: tuple[int, ...]):
        self._in = in_type
        self.axes = axes

    def apply(self, t: Any) -> Any:
        return np.transpose(t, self.axes)

    def support(self, mask: Any) -> Any:
        return None if mask is None else np.transpose(whole(mask, self._in.shape), self.axes)

    @property
    def T(self) -> Operator:
        back = tuple(sorted(range(len(self.axes)), key=self.axes.__getitem__))
        return Transpose(self.out_type, back)

    @property
    def out_type(self) -> Type:
        return Type(tuple(self._in.shape[k] for k in self.axes), self._in.dtype)

    def __repr__(self) -> str:
        return f"Transpose({self.axes})"


Permutation = Transpose
