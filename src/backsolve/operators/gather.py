"""Gather and ScatterAdd: read entries by index arrays; add entries back where they were read.

The index arrays select along the first axes and have one common shape I:

    Gather:      y[i…, rest] = t[idx₁[i…], …, idx_k[i…], rest]
    ScatterAdd:  y[idx₁[i…], …, idx_k[i…], rest] += t[i…, rest]
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir import Type
from ..primitive import P
from .base import Cost, From, Into, Operator, whole
from .structure import facts


class Gather(From):
    """t ↦ t[indices]: reads entries, some perhaps several times."""

    __slots__ = ("indices",)
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
    def out_type(self) -> Type:
        return Type(gathered_shape(self._in.shape, self.indices), self._in.dtype)

    @property
    def cost(self) -> Cost:
        return Cost(bytes=2 * self.out_type.size * self._in.dtype.itemsize)

    def __repr__(self) -> str:
        return f"Gather({self._in.shape} → {self.out_type.shape})"


class ScatterAdd(Into):
    """t ↦ zeros to which t is added at the indices: the adjoint of Gather."""

    __slots__ = ("indices",)
    moves_entries = True
    facts = facts("sparse")
    masks = True

    def __init__(self, out_type: Any, indices: tuple[Any, ...]):
        self._out = out_type
        self.indices = indices

    def apply(self, t: Any) -> Any:
        return P.scatter_add(t, *self.indices, shape=self._out.shape)

    def apply_add(self, y: Any, t: Any) -> Any:
        add_at(y, self.indices, t)
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
    def cost(self) -> Cost:
        n = self.in_type.size
        return Cost(additions=n, bytes=2 * n * self._out.dtype.itemsize)

    def __repr__(self) -> str:
        return f"ScatterAdd({self.in_type.shape} → {self._out.shape})"


def line_axis(known: Sequence[Any], shapes: Sequence[Any], shape: Any) -> int | None:
    """The axis along whose lines an array of `shape` has one indexed entry each: 1 of x[arange(n), labels].

    `known` has the values of indices, None for one that is not known; `shapes` has the shapes of all.
    """
    unknown = [k for k, values in enumerate(known) if values is None]
    if len(unknown) > 1 or len(known) != len(shape):
        return None
    for axis in unknown or range(len(known)):
        lines = shape[:axis] + shape[axis + 1 :]
        others = [values for k, values in enumerate(known) if k != axis]
        if np.broadcast_shapes(*shapes) == lines and all(
            _counts_along(values, k, lines) for k, values in enumerate(others)
        ):
            return axis
    return None


def _counts_along(values: Any, axis: int, shape: tuple[int, ...]) -> bool:
    """Whether values, where they are spread over `shape`, are their own places along an axis."""
    numbers = np.arange(shape[axis]).reshape([-1 if n == axis else 1 for n in range(len(shape))])
    return np.array_equal(np.broadcast_to(values, shape), np.broadcast_to(numbers, shape))


def gathered_shape(shape: tuple[int, ...], indices: tuple[Any, ...]) -> tuple[int, ...]:
    return (*np.broadcast_shapes(*[np.shape(i) for i in indices]), *shape[len(indices) :])


_MANY = 1 << 14  # numbers from which on a product pays


def add_at(y: Any, indices: tuple[Any, ...], t: Any) -> None:
    """y[indices] += t in place, where an index may come several times.

    Many whole rows, as the gradient of an embedding adds, are a product with the sparse matrix that has a 1 for
    each of them: some 15 times as fast as np.add.at.
    """
    if not _are_many_rows(y, indices, t):
        np.add.at(y, indices, t)
        return
    sparse = importlib.import_module("scipy.sparse")
    count, at = len(y), indices[0].ravel()
    at = np.where(at < 0, at + count, at)
    ones = np.ones(len(at), y.dtype)
    places = sparse.csr_array((ones, (at, np.arange(len(at)))), shape=(count, len(at)))
    y += (places @ t.reshape(len(at), -1)).reshape(y.shape)


def _are_many_rows(y: Any, indices: tuple[Any, ...], t: Any) -> bool:
    if len(indices) != 1 or not all(type(a) is np.ndarray for a in (y, t, indices[0])):
        return False
    (at,) = indices
    if t.size < _MANY or t.size < 16 * at.size or 4 * t.size < y.size:
        return False
    same = y.dtype == t.dtype and t.shape == at.shape + y.shape[1:]
    return bool(
        same
        and y.dtype.char in "fdFD"
        and at.dtype.kind in "iu"
        and at.min() >= -len(y)
        and at.max() < len(y)
    )
