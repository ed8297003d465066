"""All of NumPy's indexing, read and write, brought to `slice` and `gather`."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..ir import Var
from ..primitive import FUNCTIONS, P
from ..tensor import Tensor
from ._register import array, dtype_of, function, named, ndim_of, one_axis, shape_of

FULL = (None, None, None)


def _entry(k: Any) -> Any:
    """One part of a key: None, Ellipsis, an int, a slice triple, or an index array."""
    if k is None or k is Ellipsis:
        return k
    if type(k) is int or (isinstance(k, np.integer)):
        return int(k)
    if isinstance(k, slice):
        return tuple(None if p is None else operator.index(p) for p in (k.start, k.stop, k.step))
    if isinstance(k, Tensor):
        if type(k._v) is Var:
            return k
        k = k._plain("using it as an index")
    a = np.asarray(k)
    if a.size == 0 and not hasattr(k, "dtype"):
        a = a.astype(np.intp)
    if a.dtype.kind not in "iub":
        raise IndexError(f"arrays used as indices must be of integer or boolean type, got {a.dtype}")
    if a.ndim == 0 and a.dtype.kind in "iu" and not isinstance(k, np.ndarray):
        return int(a)
    return a


def _entries(key: Any, ndim: int) -> list[Any]:
    """The key with booleans turned into index arrays and the ellipsis written out."""
    parts: list[Any] = []
    for k in map(_entry, key if isinstance(key, tuple) else (key,)):
        if isinstance(k, np.ndarray) and k.dtype == bool:
            if k.ndim == 0:
                parts.extend([None, np.zeros(int(k), np.intp)])  # an axis of length 1, taken or not
                parts[-2] = _NewAxis
            else:
                parts.extend(k.nonzero())
        else:
            parts.append(k)
    used = sum(p is not None and p is not Ellipsis and p is not _NewAxis for p in parts)
    used -= sum(p is _NewAxis for p in parts)
    ellipses = sum(p is Ellipsis for p in parts)
    if ellipses > 1 or used > ndim:
        raise IndexError(f"too many indices: {key!r} for a tensor of rank {ndim}")
    if not ellipses:
        parts.append(Ellipsis)
    at = next(i for i, p in enumerate(parts) if p is Ellipsis)
    return [*parts[:at], *[FULL] * (ndim - used), *parts[at + 1 :]]


_NewAxis = object()  # a new axis that the index array behind it consumes


def _is_array(p: Any) -> bool:
    return isinstance(p, np.ndarray | Tensor)


@named("getitem")
def getitem(x: Any, key: Any) -> Any:
    if type(key) is int:
        return P.slice(x, spec=(key,))
    parts = _entries(key, ndim_of(x))
    if not any(_is_array(p) for p in parts):
        while parts and parts[-1] == FULL:
            parts.pop()
        return P.slice(x, spec=tuple(parts))
    return _read(x, parts)


def _read(x: Any, parts: list[Any]) -> Any:
    """Slices first, then the index arrays along leading axes, then NumPy's order of axes."""
    # Beside an index array a plain int is an index array too.
    arrays = [i for i, p in enumerate(parts) if _is_array(p) or type(p) is int]
    adjacent = arrays == list(range(arrays[0], arrays[-1] + 1)) or _only_new_between(parts, arrays)
    spec: list[Any] = []
    taken: list[int] = []  # axes, after slicing, that index arrays consume
    indices: list[Any] = []
    for p in parts:
        if p is _NewAxis:
            continue
        if _is_array(p) or type(p) is int:
            taken.append(len(spec))
            indices.append(p if _is_array(p) else np.asarray(p))
            made_new = len(spec) < len(parts) and _follows_new(parts, p)
            spec.append(None if made_new else FULL)
        else:
            spec.append(p)
    if any(e != FULL for e in spec):
        x = P.slice(x, spec=tuple(spec))
    others = [k for k in range(ndim_of(x)) if k not in taken]
    order = tuple(taken + others)
    if order != tuple(range(ndim_of(x))):
        x = P.permute(x, axes=order)
    y = P.gather(x, *indices)
    width = len(np.broadcast_shapes(*[shape_of(i) for i in indices]))
    before = sum(k < taken[0] for k in others) if adjacent else 0
    if before and width:
        axes = [*range(width, width + before), *range(width), *range(width + before, ndim_of(y))]
        y = P.permute(y, axes=tuple(axes))
    return y


def _follows_new(parts: list[Any], p: Any) -> bool:
    at = next(i for i, q in enumerate(parts) if q is p)
    return at > 0 and parts[at - 1] is _NewAxis


def _only_new_between(parts: list[Any], arrays: list[int]) -> bool:
    return all(i in arrays or parts[i] is _NewAxis for i in range(arrays[0], arrays[-1] + 1))


@named("setitem")
def setitem(x: Any, key: Any, v: Any) -> Any:
    """A new tensor with x[key] replaced by v."""
    v = array(v)
    if dtype_of(v) != x.dtype:
        if not np.can_cast(dtype_of(v), x.dtype, "same_kind") and not np.isscalar(v):
            v = FUNCTIONS["astype"](v, x.dtype) if dtype_of(v).kind != "c" else v
        v = FUNCTIONS["astype"](v, x.dtype) if hasattr(v, "dtype") else np.asarray(v).astype(x.dtype)[()]
    parts = _entries(key, ndim_of(x))
    if not any(_is_array(p) for p in parts):
        spec = tuple(parts)
        target = shape_of(P.slice(np.broadcast_to(np.empty(()), x.shape), spec=spec))
        v = _fit(v, target)
        return P.slice_update(x if isinstance(x, Tensor) else np.asarray(x), v, spec=spec)
    # Any other key: number the entries, ask the key which numbers it reads, and write there.
    size = int(np.prod(x.shape))
    numbers = _read(np.arange(size).reshape(x.shape), parts)
    v = P.reshape(_fit(v, shape_of(numbers)), shape=(int(np.prod(shape_of(numbers))),))
    flat = P.reshape(numbers, shape=(int(np.prod(shape_of(numbers))),))
    return P.reshape(P.scatter_set(P.reshape(x, shape=(size,)), v, flat), shape=x.shape)


def _fit(v: Any, shape: tuple[int, ...]) -> Any:
    """v broadcast to the place it is written to; NumPy also drops leading ones."""
    got = shape_of(v)
    while len(got) > len(shape) and got[0] == 1:
        v, got = P.reshape(v, shape=got[1:]), got[1:]
    return v if got == shape else P.broadcast_to(v, shape=shape)


@function
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    if axis is None:
        a, axis = FUNCTIONS["ravel"](a), 0
    if mode != "raise":
        n = shape_of(a)[axis]
        indices = np.clip(indices, 0, n - 1) if mode == "clip" else np.asarray(indices) % n
    full = (slice(None),) * one_axis(axis, ndim_of(a))
    return getitem(a, (*full, np.asarray(indices) if not isinstance(indices, Tensor) else indices))


@function
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    if axis is None:
        arr, axis = FUNCTIONS["ravel"](arr), 0
    axis = one_axis(axis, ndim_of(arr))
    shape = shape_of(arr)
    key: list[Any] = []
    for k, n in enumerate(shape):
        grid = [1] * len(shape)
        grid[k] = n
        key.append(indices if k == axis else np.arange(n).reshape(grid))
    return getitem(arr, tuple(key))


@function
def nonzero(a: Any) -> Any:
    return np.nonzero(a._known("its non-zero places") if isinstance(a, Tensor) else a)


@function
def extract(condition: Any, arr: Any) -> Any:
    return getitem(arr, np.asarray(condition).astype(bool))
