"""All of NumPy's indexing, read and write, brought to `slice` and `gather`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DTypeError, IndexingError, InPlaceError, ShapeError
from ..operators.slice import key_of
from ..primitive import FUNCTIONS, P
from ..tensor import Tensor
from ._register import (
    array,
    dtype_of,
    function,
    known,
    named,
    ndim_of,
    one_axis,
    shape_of,
    size_of,
)
from .keys import FULL, Index, parts_of, plain_spec, spec_of


@named("getitem")
def getitem(x: Any, key: Any) -> Any:
    shape = shape_of(x)
    if type(key) is tuple and len(key) == 1:
        key = key[0]
    if type(key) is int and shape and -shape[0] <= key < shape[0]:
        return P.slice(x, spec=(key,))
    plain = plain_spec(key, shape)
    if plain:
        return P.slice(x, spec=plain)
    if type(key) is np.ndarray and key.dtype.kind in "iu" and key.ndim and shape:
        return _gather(x, [key])
    parts = parts_of(x, key)
    if any([type(p) is Index for p in parts]):
        for k, p in enumerate([p for p in parts if p is not None]):
            if (
                type(p) is Index and p.sliced
            ):  # one after the other: each keeps its axis in its place
                x = _read(x, [*[FULL] * k, Index(p.array)])
        parts = [FULL if type(p) is Index and p.sliced else p for p in parts]
        if any(type(p) is Index for p in parts):
            return _read(x, parts)
    spec = list(spec_of(parts))
    while spec and spec[-1] == FULL:
        spec.pop()
    return P.slice(x, spec=tuple(spec)) if spec or not isinstance(x, Tensor) else P.alias(x)


def _read(x: Any, parts: list[Any]) -> Any:
    """Slices first, then the index arrays along leading axes, then NumPy's order of axes."""
    # Beside an index array a plain int is an index array too.
    places = [i for i, p in enumerate(parts) if type(p) in (Index, int)]
    adjacent = places == list(range(places[0], places[-1] + 1))
    spec: list[Any] = []
    taken: list[int] = []  # axes, after slicing, that index arrays consume
    indices: list[Any] = []
    for p in parts:
        if type(p) is Index:
            taken.append(len(spec))
            indices.append(p.array)
            spec.append(None if p.fresh else FULL)
        elif type(p) is int:
            taken.append(len(spec))
            indices.append(np.asarray(p))
            spec.append(FULL)
        elif p is not Ellipsis:
            spec.append(p)
    shapes = [shape_of(i) for i in indices]
    try:
        width = len(np.broadcast_shapes(*shapes))
    except ValueError:
        raise IndexingError(f"index arrays of shapes {shapes} do not broadcast together") from None
    if any(e != FULL for e in spec):
        x = P.slice(x, spec=tuple(spec))
    others = [k for k in range(ndim_of(x)) if k not in taken]
    order = tuple(taken + others)
    if order != tuple(range(ndim_of(x))):
        x = P.permute(x, axes=order)
    y = _gather(x, indices)
    before = sum(k < taken[0] for k in others) if adjacent else 0
    if before and width:
        axes = [*range(width, width + before), *range(width), *range(width + before, ndim_of(y))]
        y = P.permute(y, axes=tuple(axes))
    return y


def _gather(x: Any, indices: list[Any]) -> Any:
    try:
        return P.gather(x, *indices)
    except IndexError as error:
        raise IndexingError(f"{error}, in a tensor of shape {shape_of(x)}") from None


@named("setitem")
def setitem(x: Any, key: Any, v: Any) -> Any:
    """A new tensor with x[key] replaced by v; of several writes to one place the last counts."""
    v = _cast(array(v), x.dtype)
    if isinstance(key, Tensor | np.ndarray) and key.dtype == bool and key.ndim and ndim_of(v) == 0:
        if key.shape != x.shape[: key.ndim]:
            raise IndexingError(f"a mask of shape {key.shape} on a tensor of shape {x.shape}")
        mask = P.reshape(key, shape=(*key.shape, *[1] * (x.ndim - key.ndim)))
        return P.where(mask, v, x)
    parts = parts_of(x, key)
    if not any(type(p) is Index for p in parts):
        spec = spec_of(parts)
        target = np.broadcast_to(np.empty(()), x.shape)
        return P.slice_update(x, _fit(v, shape_of(P.slice(target, spec=spec))), spec=spec)
    if all(p.sliced or not (shape_of(p.array) or p.fresh) for p in parts if type(p) is Index):
        return _write_at(x, parts, v)
    numbers = _places(x, parts)
    flat = P.reshape(numbers, shape=(size_of(numbers),))
    v = P.reshape(_fit(v, shape_of(numbers)), shape=shape_of(flat))
    written = P.scatter_set(P.reshape(x, shape=(size_of(x),)), v, flat)
    return P.reshape(written, shape=x.shape)


def _write_at(x: Any, parts: list[Any], v: Any) -> Any:
    """Write where index arrays are single numbers: the axes of slices stay in order, each walked by its own."""
    parts = [p for p in parts if p is not Ellipsis]
    while parts and parts[-1] == FULL:
        parts.pop()
    if None in parts:
        shown = [p for p in parts if type(p) is not int and not _is_one(p)]  # each an axis of v
        v = _fit(v, _written_shape(x, parts))
        v = np.squeeze(v, axis=tuple(k for k, p in enumerate(shown) if p is None))
        parts = [p for p in parts if p is not None]
    walked = [_walk(x.shape[k], p) for k, p in enumerate(parts)]
    axes = [w for w in walked if len(shape_of(w))]
    indices = []
    for w in walked:
        behind = len(axes) - 1 - next((k for k, u in enumerate(axes) if u is w), len(axes) - 1)
        indices.append(np.reshape(w, (-1, *[1] * behind)) if len(shape_of(w)) else w)
    shape = (*[shape_of(w)[0] for w in axes], *x.shape[len(parts) :])
    return P.scatter_set(x, _fit(v, shape), *indices)


def _walk(size: int, p: Any) -> Any:
    """The places along one axis that a part of a key stands for."""
    if type(p) is Index:
        return p.array
    return np.int64(p) if type(p) is int else np.arange(size)[key_of((p,))[0]]


def _is_one(p: Any) -> bool:
    return type(p) is Index and not p.sliced


def _written_shape(x: Any, parts: list[Any]) -> tuple[int, ...]:
    out: list[int] = []
    axis = 0
    for p in parts:
        if p is None:
            out.append(1)
            continue
        out.extend(shape_of(_walk(x.shape[axis], p)))
        axis += 1
    return (*out, *x.shape[axis:])


def places(x: Any, key: Any) -> Any:
    """Which entries, numbered in C order, a key reads: one more way to say what it means."""
    return _places(x, parts_of(x, key))


def _places(x: Any, parts: list[Any]) -> Any:
    numbers = np.arange(size_of(x)).reshape(shape_of(x))
    if any(type(p) is Index for p in parts):
        return _read(numbers, parts)
    return P.slice(numbers, spec=spec_of(parts))


def _cast(v: Any, dtype: np.dtype[Any]) -> Any:
    given = dtype_of(v)
    if given == dtype:
        return v
    if given.kind == "c" and dtype.kind != "c":
        raise DTypeError(
            f"writing {given} into {dtype} would drop the imaginary part; write v.real"
        )
    if dtype.kind not in "fc" and isinstance(v, Tensor) and v.row is not None:
        raise InPlaceError(
            f"writing {given} into a tensor of {dtype} would drop its derivative; "
            "make it a tensor of floats first: x = x.astype(float)"
        )
    return FUNCTIONS["astype"](v, dtype)


def _fit(v: Any, shape: tuple[int, ...]) -> Any:
    """v broadcast to the place it is written to; NumPy also drops leading ones."""
    got = shape_of(v)
    while len(got) > len(shape) and got[0] == 1:
        v, got = P.reshape(v, shape=got[1:]), got[1:]
    return v if got == shape else P.broadcast_to(v, shape=shape)


def check_mode(name: str, mode: Any) -> None:
    if mode not in ("raise", "clip", "wrap"):
        raise ValueError(f"`{name}` knows the modes 'raise', 'clip' and 'wrap', got mode={mode!r}")


@function
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    if axis is None:
        a, axis = FUNCTIONS["ravel"](a), 0
    a = array(a)
    axis = one_axis(axis, ndim_of(a))
    if not isinstance(indices, Tensor):
        indices = np.asarray(indices)
        indices = indices.astype(np.intp) if indices.size == 0 else indices
    check_mode("take", mode)
    if mode != "raise":
        n = shape_of(a)[axis]
        indices = P.clip(indices, 0, n - 1) if mode == "clip" else P.remainder(indices, n)
    return getitem(a, (*(slice(None),) * axis, indices))


@function
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    if axis is None:
        arr, axis = FUNCTIONS["ravel"](arr), 0
    return getitem(array(arr), _key_along("take_along_axis", arr, indices, axis))


def _key_along(name: str, arr: Any, indices: Any, axis: Any) -> tuple[Any, ...]:
    """The key that reads `indices` along one axis, and every other axis in place."""
    axis, shape = one_axis(axis, ndim_of(arr)), shape_of(arr)
    if dtype_of(array(indices)).kind not in "iu":
        raise IndexingError(f"`{name}` needs integers as indices, got {dtype_of(indices)}")
    if ndim_of(indices) != len(shape):
        raise ShapeError(
            f"`{name}` needs indices of the rank of the array, got {shape_of(indices)} for {shape}"
        )
    key: list[Any] = []
    for k, n in enumerate(shape):
        grid = [1] * len(shape)
        grid[k] = n
        key.append(indices if k == axis else np.arange(n).reshape(grid))
    return tuple(key)


@function
def nonzero(a: Any) -> Any:
    found = np.nonzero(known("nonzero", a))
    return tuple(Tensor(i) for i in found) if isinstance(a, Tensor) else found


@function
def extract(condition: Any, arr: Any) -> Any:
    chosen = np.ravel(known("extract", condition))
    return getitem(FUNCTIONS["ravel"](arr), np.flatnonzero(chosen))
