"""Broadcast and SumAxes: copying an entry and adding the copies are each other's adjoint."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..ir import Shape, Type
from .base import Cost, From, Into, Operator
from .structure import facts

_sum: Any = np.add.reduce
_ARRAYS = (np.ndarray, np.generic)


def spread_to(t: Any, shape: Shape) -> Any:
    """t copied along new or longer axes; a view when large, which for small arrays costs more."""
    if isinstance(t, _ARRAYS) and prod(shape) <= 4096:
        out = np.empty(shape, t.dtype)
        out[...] = t
        return out
    return np.broadcast_to(t, shape)


def sum_to(t: Any, shape: Shape) -> Any:
    """Adjoint of broadcasting from `shape`: add over the axes that were copied."""
    return _reduced_to(shape, t, np.add.reduce)


def any_to(mask: Any, shape: Shape, target: Shape) -> Any:
    """Where a sum to `target` can be non-zero, given a mask of what it adds, of shape `shape`."""
    return _reduced_to(target, np.broadcast_to(mask, shape), np.any)


def _reduced_to(shape: Shape, t: Any, reduce: Any) -> Any:
    extra = len(t.shape) - len(shape)
    if extra and t.shape[extra:] == shape:
        return reduce(t, axis=tuple(range(extra)))
    axes = tuple(range(extra)) + tuple(
        extra + k for k, s in enumerate(shape) if s == 1 and t.shape[extra + k] != 1
    )
    if axes:
        t = reduce(t, axis=axes, keepdims=True)
    return np.reshape(t, shape)


class Broadcast(From):
    """From `in_type` to `shape`, by NumPy's rules."""

    __slots__ = ("target",)
    moves_entries = True

    def __init__(self, in_type: Any, target: Shape):
        self._in = in_type
        self.target = target

    def apply(self, t: Any) -> Any:
        return spread_to(t, self.target)

    def support(self, mask: Any) -> Any:
        return None if mask is None else np.broadcast_to(mask, self.target)

    @property
    def T(self) -> Operator:
        return SumTo(Type(self.target, self._in.dtype), self._in.shape)

    @property
    def out_type(self) -> Type:
        return Type(self.target, self._in.dtype)

    @property
    def structure(self) -> frozenset[str]:
        return facts("identity") if self._in.shape == self.target else facts("selection")

    @property
    def cost(self) -> Cost:
        return Cost(bytes=self.out_type.size * self._in.dtype.itemsize)

    def __repr__(self) -> str:
        return f"Broadcast({self._in.shape} → {self.target})"


class SumTo(From):
    """Adjoint of Broadcast."""

    __slots__ = ("target",)
    moves_entries = True
    facts = facts("sparse")

    def __init__(self, in_type: Any, target: Shape):
        self._in = in_type
        self.target = target

    def apply(self, t: Any) -> Any:
        return sum_to(t, self.target)

    def support(self, mask: Any) -> Any:
        return None if mask is None else any_to(mask, self._in.shape, self.target)

    @property
    def T(self) -> Operator:
        return Broadcast(Type(self.target, self._in.dtype), self._in.shape)

    @property
    def out_type(self) -> Type:
        return Type(self.target, self._in.dtype)

    @property
    def cost(self) -> Cost:
        n = self.in_type.size
        return Cost(additions=max(n - self.out_type.size, 0), bytes=n * self._in.dtype.itemsize)

    def __repr__(self) -> str:
        return f"SumTo({self._in.shape} → {self.target})"


class SumAxes(From):
    """The sum over `axes` (kept as length 1 or dropped)."""

    __slots__ = ("axes", "keepdims")
    moves_entries = True
    facts = facts("sparse")

    def __init__(self, in_type: Any, axes: tuple[int, ...], keepdims: bool = False):
        self._in = in_type
        self.axes = axes
        self.keepdims = keepdims

    def apply(self, t: Any) -> Any:
        return _sum(t, axis=self.axes, keepdims=self.keepdims)

    def support(self, mask: Any) -> Any:
        """A sum is zero by structure where all that it adds is."""
        if mask is None:
            return None
        whole = np.broadcast_to(mask, self._in.shape)
        return np.any(whole, axis=self.axes, keepdims=self.keepdims)

    def pull(self, t: Any) -> Any:
        if t.shape == ():
            return spread_to(t, self._in.shape)
        return Spread(self._in, self.axes, self.keepdims).apply(t)

    @property
    def T(self) -> Operator:
        return Spread(self._in, self.axes, self.keepdims)

    @property
    def out_type(self) -> Type:
        return Type(reduced_shape(self._in.shape, self.axes, self.keepdims), self._in.dtype)

    @property
    def cost(self) -> Cost:
        n = self.in_type.size
        return Cost(additions=max(n - self.out_type.size, 0), bytes=n * self._in.dtype.itemsize)

    def __repr__(self) -> str:
        return f"SumAxes({self._in.shape}, {self.axes})"


class Spread(Into):
    """Adjoint of SumAxes: put the summed axes back and copy along them."""

    __slots__ = ("axes", "keepdims")
    moves_entries = True
    facts = facts("selection")

    def __init__(self, out_type: Any, axes: tuple[int, ...], keepdims: bool):
        self._out = out_type
        self.axes = axes
        self.keepdims = keepdims

    def apply(self, t: Any) -> Any:
        if not self.keepdims:
            t = np.reshape(t, reduced_shape(self._out.shape, self.axes, True))
        return spread_to(t, self._out.shape)

    def support(self, mask: Any) -> Any:
        return None if mask is None else self.apply(mask)

    @property
    def T(self) -> Operator:
        return SumAxes(self._out, self.axes, self.keepdims)

    @property
    def in_type(self) -> Type:
        return Type(reduced_shape(self._out.shape, self.axes, self.keepdims), self._out.dtype)

    def __repr__(self) -> str:
        return f"Spread({self._out.shape}, {self.axes})"


def reduced_shape(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    if keepdims:
        return tuple(1 if k in axes else s for k, s in enumerate(shape))
    return tuple(s for k, s in enumerate(shape) if k not in axes)
