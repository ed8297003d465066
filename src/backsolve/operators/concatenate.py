"""Concatenate and Split: several arrays and one, along an axis. Their differentials are tuples."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from .base import Operator
from .structure import facts


class Concatenate(Operator):
    """(t_1, t_2, …) ↦ one array, one behind the other along an axis."""

    __slots__ = ("_parts", "axis")
    facts = facts("permutation")

    def __init__(self, parts: tuple[Type, ...], axis: int = 0):
        self._parts = tuple(parts)
        self.axis = axis

    def apply(self, t: Any) -> Any:
        return np.concatenate(t, axis=self.axis)

    @property
    def T(self) -> Operator:
        return Split(self._parts, self.axis)

    @property
    def in_type(self) -> tuple[Type, ...]:
        return self._parts

    @property
    def out_type(self) -> Type:
        first = self._parts[0]
        length = sum(p.shape[self.axis] for p in self._parts)
        shape = (*first.shape[: self.axis], length, *first.shape[self.axis + 1 :])
        return Type(shape, first.dtype)

    def __repr__(self) -> str:
        return f"Concatenate({len(self._parts)} parts, axis={self.axis})"


class Split(Operator):
    """One array ↦ its parts along an axis: the adjoint of Concatenate."""

    __slots__ = ("_parts", "axis")
    facts = facts("permutation")

    def __init__(self, parts: tuple[Type, ...], axis: int = 0):
        self._parts = tuple(parts)
        self.axis = axis

    def apply(self, t: Any) -> Any:
        stops = np.cumsum([p.shape[self.axis] for p in self._parts])[:-1]
        return tuple(np.split(t, stops, axis=self.axis))

    @property
    def T(self) -> Operator:
        return Concatenate(self._parts, self.axis)

    @property
    def in_type(self) -> Type:
        return Concatenate(self._parts, self.axis).out_type

    @property
    def out_type(self) -> tuple[Type, ...]:
        return self._parts

    def __repr__(self) -> str:
        return f"Split({len(self._parts)} parts, axis={self.axis})"
