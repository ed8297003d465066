"""Choosing among arrays, functions along axes, orders of several keys, windows, index arrays."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..errors import AxisError, DTypeError, ShapeError
from ..primitive import FUNCTIONS, P
from ..tensor import Staged, Tensor
from ._register import (
    Order,
    all_axes,
    array,
    dtype_of,
    function,
    integers,
    known,
    ndim_of,
    one_axis,
    shape_of,
)
from .elementwise import astype
from .indexing import getitem, setitem, take, take_along_axis
from .shapes import expand_dims, moveaxis, reshape


@function
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """From the arrays `choices`, at each place the one that `a` names."""
    a, parts = array(a), [array(c) for c in choices]
    if dtype_of(a).kind not in "iub" or not parts:
        raise TypeError(f"`choose` needs whole numbers and choices, got {dtype_of(a)}")
    a = astype(a, np.intp) if hasattr(a, "dtype") else np.intp(a)
    n = len(parts)
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"`choose` knows the modes 'raise', 'wrap' and 'clip', got {mode!r}")
    if mode != "raise":
        a = P.remainder(a, n) if mode == "wrap" else P.clip(a, 0, n - 1)
    elif not isinstance(a, Staged):
        value = known("choose", a)
        if np.any((value < 0) | (value >= n)):
            raise ValueError(f"`choose` got numbers beyond its {n} choices")
    spread = FUNCTIONS["broadcast_arrays"](a, *parts)
    kind = np.result_type(*[dtype_of(p) for p in parts])
    stacked = FUNCTIONS["stack"]([astype(p, kind) for p in spread[1:]])
    return getitem(take_along_axis(stacked, expand_dims(spread[0], 0), 0), 0)


@function
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Each function sees the entries of its condition; while staging, all of them."""
    x = array(x)
    single = not isinstance(condlist, list | tuple) and ndim_of(condlist) <= min(ndim_of(x), 1)
    if isinstance(condlist, list | tuple) and condlist and ndim_of(x):
        single = not ndim_of(condlist[0])
    conditions = [array(c) for c in ([condlist] if single else condlist)]
    conditions = [c if dtype_of(c).kind == "b" else P.not_equal(c, 0) for c in conditions]
    functions = list(funclist)
    if len(functions) == len(conditions) + 1:
        none: Any = P.logical_not(conditions[0])
        for c in conditions[1:]:
            none = P.logical_and(none, P.logical_not(c))
        conditions.append(none)
    if len(functions) != len(conditions):
        n = len(conditions)
        raise ValueError(f"`piecewise` with {n} conditions needs {n} or {n + 1} functions")
    y = Tensor(np.zeros(shape_of(x), dtype_of(x)))
    staged = isinstance(x, Staged) or any(isinstance(c, Staged) for c in conditions)
    for c, f in zip(conditions, functions, strict=True):
        if staged or not callable(f):
            v = f(x, *args, **kw) if callable(f) else f
            y = P.where(c, astype(array(v), dtype_of(x)), y)
            continue
        chosen = getitem(x, c)
        if chosen.size:
            y = setitem(y, c, f(chosen, *args, **kw))
    return y


@function
def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    arr = array(arr)
    axis = one_axis(axis, ndim_of(arr))
    rows = moveaxis(arr, axis, -1)
    lead = shape_of(rows)[:-1]
    if 0 in lead:
        raise ShapeError(f"`apply_along_axis` has nothing to apply to in shape {shape_of(arr)}")
    found = [array(func1d(getitem(rows, k), *args, **kwargs)) for k in np.ndindex(lead)]
    kind, shape = dtype_of(found[0]), shape_of(found[0])
    stacked = FUNCTIONS["stack"]([astype(y, kind) for y in found])
    y = reshape(stacked, (*lead, *shape))
    axes = range(len(lead), len(lead) + len(shape))
    return moveaxis(y, axes, range(axis, axis + len(shape)))


@function
def apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    y = array(a)
    rank = ndim_of(y)
    for axis in integers(axes):
        axis = one_axis(axis, rank)
        found = func(y, axis)
        found = found if ndim_of(found) == rank else expand_dims(found, axis)
        if ndim_of(found) != rank:
            raise ShapeError("`apply_over_axes` needs a function that keeps or drops one axis")
        y = found
    return y


@function
def lexsort(keys: Any, axis: int = -1) -> Any:
    """By the last key, then by the one before it …: one stable sort after the other."""
    keys = [array(k) for k in keys]
    if not keys:
        raise TypeError("`lexsort` needs one key or more")
    if any(shape_of(k) != shape_of(keys[0]) for k in keys):
        raise ShapeError(f"`lexsort` needs keys of one shape, got {[shape_of(k) for k in keys]}")
    if not ndim_of(keys[0]):
        if operator.index(axis) not in (0, -1):
            raise AxisError(f"`lexsort` got axis={axis!r} of single numbers")
        return np.zeros((), np.intp)[()]
    axis = one_axis(axis, ndim_of(keys[0]))
    order = P.argsort(keys[0], axis=axis)
    for key in keys[1:]:
        again = P.argsort(take_along_axis(key, order, axis), axis=axis)
        order = take_along_axis(order, again, axis)
    return order


@function
def sort_complex(a: Any) -> Any:
    y = FUNCTIONS["sort"](array(a))
    if dtype_of(y).kind == "c":
        return y
    return astype(y, np.complex64 if dtype_of(y).char in "bhBH" else np.complex128)


@function
def top_k(x: Any, k: int, /, *, axis: int = -1, mode: str = "largest") -> tuple[Any, Any]:
    """The k largest (or smallest) entries along an axis, in order, and their places."""
    x = array(x)
    x = x if hasattr(x, "dtype") else np.asarray(x)
    axis, (k,) = one_axis(axis, ndim_of(x)), integers(k)
    n = shape_of(x)[axis]
    if not 0 <= k <= n:
        raise ValueError(f"`top_k` needs k from 0 to {n}, got {k}")
    if mode not in ("largest", "smallest"):
        raise ValueError(f"`top_k` knows the modes 'largest' and 'smallest', got {mode!r}")
    flip = FUNCTIONS["flip"]
    if mode == "smallest":
        order = P.argsort(x, axis=axis)
    else:  # turned round twice: of equal entries the first comes first
        order = n - 1 - flip(P.argsort(flip(x, axis), axis=axis), axis)
    places = getitem(order, (*[slice(None)] * axis, slice(0, k)))
    return take_along_axis(x, places, axis), places


@function
def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    """Of a tensor the windows themselves, not a view."""
    x, lengths = array(x), integers(window_shape)
    axes = list(range(ndim_of(x))) if axis is None else integers(axis)
    if any(w < 0 for w in lengths):
        raise ValueError(f"`sliding_window_view` needs windows of 0 or more, got {window_shape}")
    if len(axes) != len(lengths):
        raise ShapeError(f"`sliding_window_view` got {len(lengths)} windows for {len(axes)} axes")
    for k, w in zip([one_axis(k, ndim_of(x)) for k in axes], lengths, strict=True):
        n = shape_of(x)[k]
        if w > n:
            raise ValueError(f"`sliding_window_view`: a window of {w} is longer than axis {k}: {n}")
        x = moveaxis(take(x, np.arange(n - w + 1)[:, None] + np.arange(w), axis=k), k + 1, -1)
    return x


@function
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    filt = array(filt)
    if not isinstance(trim, str) or trim.lower() not in ("fb", "bf", "f", "b"):
        raise ValueError(f"`trim_zeros` takes trim of 'f' and 'b', got {trim!r}")
    axes = all_axes(axis, ndim_of(filt))
    found = np.argwhere(known("trim_zeros", filt))
    if not found.size:
        return getitem(
            filt, tuple(slice(0, 0 if k in axes else None) for k in range(ndim_of(filt)))
        )
    start, stop = found.min(0), found.max(0) + 1
    key = [
        slice(int(i) if "f" in trim.lower() else None, int(j) if "b" in trim.lower() else None)
        if k in axes
        else slice(None)
        for k, (i, j) in enumerate(zip(start, stop, strict=True))
    ]
    return getitem(filt, tuple(key))


@function
def ix_(*args: Any) -> tuple[Any, ...]:
    found = []
    for k, x in enumerate(args):
        x = array(x)
        if ndim_of(x) != 1:
            raise ShapeError(f"`ix_` needs sequences, got shape {shape_of(x)}")
        if dtype_of(x).kind == "b":
            x = np.flatnonzero(known("ix_", x))
        elif not shape_of(x)[0]:
            x = astype(x, np.intp)
        found.append(reshape(x, tuple(-1 if j == k else 1 for j in range(len(args)))))
    return tuple(found)


@function
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: Order = "C") -> Any:
    index, dims = [array(i) for i in multi_index], integers(dims)
    if not any(isinstance(i, Staged) for i in index):
        values = tuple(known("ravel_multi_index", i) for i in index)
        return Tensor(np.ravel_multi_index(values, dims, mode=mode, order=order))
    if len(index) != len(dims) or any(dtype_of(i).kind not in "iu" for i in index):
        raise ShapeError(f"`ravel_multi_index` needs {len(dims)} arrays of whole numbers")
    modes = [mode] * len(dims) if isinstance(mode, str) else list(mode)
    number: Any = 0
    for i, n, how in sorted_by(order, zip(index, dims, modes, strict=True)):
        if how != "raise":
            i = P.remainder(i, n) if how == "wrap" else P.clip(i, 0, n - 1)
        number = number * n + i
    return astype(number, np.intp)


def sorted_by(order: str, axes: Any) -> list[Any]:
    """Axes from the slowest to the fastest."""
    if order not in ("C", "F"):
        raise ValueError(f"only 'C' or 'F' order is permitted, got {order!r}")
    return list(axes) if order == "C" else list(axes)[::-1]


@function
def unravel_index(indices: Any, shape: Any, order: Order = "C") -> tuple[Any, ...]:
    indices, dims = array(indices), tuple(integers(shape))
    if not isinstance(indices, Staged):
        found = np.unravel_index(known("unravel_index", indices), dims, order=order)
        return tuple(Tensor(i) for i in found)
    if dtype_of(indices).kind not in "iu":
        raise DTypeError(f"`unravel_index` needs whole numbers, got {dtype_of(indices)}")
    parts = []
    for n in reversed(sorted_by(order, dims)):
        parts.append(astype(P.remainder(indices, n), np.intp))
        indices = P.floor_divide(indices, n)
    return tuple(sorted_by(order, parts[::-1]))


def _of_shape(name: str, make: Any) -> None:
    def call(arr: Any, k: int = 0) -> Any:
        if ndim_of(arr) < 2:
            raise ShapeError(f"`{name}` needs rank 2 or more, got shape {shape_of(arr)}")
        return make(shape_of(arr), k)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`numpy.{name}`: index arrays, by the shape alone."
    function(call)


def _diagonal(shape: tuple[int, ...], k: int) -> Any:
    if len(set(shape)) != 1:
        raise ShapeError(f"`diag_indices_from` needs axes of one length, got {shape}")
    return np.diag_indices(shape[0], len(shape))


def _triangle(find: Any) -> Any:
    def make(shape: tuple[int, ...], k: int) -> Any:
        if len(shape) != 2:
            raise ShapeError(f"indices of triangles need a matrix, got shape {shape}")
        return find(shape[0], k=k, m=shape[1])

    return make


_of_shape("diag_indices_from", _diagonal)
_of_shape("tril_indices_from", _triangle(np.tril_indices))
_of_shape("triu_indices_from", _triangle(np.triu_indices))
