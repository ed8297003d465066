"""Gather and ScatterAdd: read entries by index arrays; add entries back where they were read.

The index arrays select along the first axes and have one common shape I:

    Gather:      y[i…, rest] = t[idx₁[i…], …, idx_k[i…], rest]
    ScatterAdd:  y[idx₁[i…], …, idx_k[i…], rest] += t[i…, rest]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..primitive import P
from .base import Cost, Operator, whole
from .structure import facts


class Gather(Operator):
    __slots__ = ("_in", "indices")
    moves_entries = True
    facts = facts("selection")
    adjoint_masks = True

    def __init__(self, in_type: Any, indices: tuple[Any, ...]):
        self._in = in_type
        self.indices = indices

    def apply(self, t: Any) -> Any:
        return P.gather(t, *self.indices)

    def support(self, mask: Any) -> Any:
        return None if mask is None else P.gather(whole(mask, self._in.shape), *self.indices)

    @property
    def T(self) -> Operator:
        return ScatterAdd(self._in, self.indices)

    @property
    def in_type(self) -> Type:
        return Type(self._in.shape, self._in.dtype)

    @property
    def out_type(self) -> Type:
        return Type(gathered_shape(self._in.shape, self.indices), self._in.dtype)

    @property
    def cost(self) -> Cost:
        return Cost(bytes=2 * self.out_type.size * self._in.dtype.itemsize)

    def __repr__(self) -> str:
        return f"Gather({self._in.shape} → {self.out_type.shape})"


class ScatterAdd(Operator):
    __slots__ = ("_out", "indices")
    moves_entries = True
    facts = facts("sparse")
    masks = True

    def __init__(self, out_type: Any, indices: tuple[Any, ...]):
        self._out = out_type
        self.indices = indices

    def apply(self, t: Any) -> Any:
        return P.scatter_add(t, *self.indices, shape=self._out.shape)

    def apply_add(self, y: Any, t: Any) -> Any:
        np.add.at(y, self.indices, t)
        return y

    def support(self, mask: Any) -> Any:
        part = np.ones(self.in_type.shape, bool) if mask is None else mask
        return P.scatter_add(part, *self.indices, shape=self._out.shape)

    @property
    def T(self) -> Operator:
        return Gather(self._out, self.indices)

    @property
    def in_type(self) -> Type:
        return Type(gathered_shape(self._out.shape, self.indices), self._out.dtype)

    @property
    def out_type(self) -> Type:
        return Type(self._out.shape, self._out.dtype)

    @property
    def cost(self) -> Cost:
        n = self.in_type.size
        return Cost(additions=n, bytes=2 * n * self._out.dtype.itemsize)

    def __repr__(self) -> str:
        return f"ScatterAdd({self.in_type.shape} → {self._out.shape})"


class EraseAt(Operator):
    """t with the indexed entries set to (structural) zero."""

    __slots__ = ("_type", "indices")
    moves_entries = True
    facts = facts("diagonal", "symmetric")
    masks = adjoint_masks = True

    def __init__(self, type: Any, indices: tuple[Any, ...]):
        self._type = type
        self.indices = indices

    def apply(self, t: Any) -> Any:
        return P.scatter_set(t, self._zeros(t.dtype), *self.indices)

    def _zeros(self, dtype: Any) -> Any:
        return np.zeros(gathered_shape(self._type.shape, self.indices), dtype)

    def support(self, mask: Any) -> Any:
        whole = np.ones(self._type.shape, bool) if mask is None else mask
        return P.scatter_set(whole, self._zeros(bool), *self.indices)

    @property
    def T(self) -> Operator:
        return self

    @property
    def in_type(self) -> Type:
        return Type(self._type.shape, self._type.dtype)

    out_type = in_type

    def __repr__(self) -> str:
        return f"EraseAt({gathered_shape(self._type.shape, self.indices)})"


def gathered_shape(shape: tuple[int, ...], indices: tuple[Any, ...]) -> tuple[int, ...]:
    return (*np.broadcast_shapes(*[np.shape(i) for i in indices]), *shape[len(indices) :])
