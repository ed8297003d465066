"""Joining, splitting and repeating: concatenation and slices."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..hooks import hooks
from ..primitive import FUNCTIONS, P, wrap
from ..row import NOTHING, Row
from ..tensor import Staged, Tensor
from ._register import array, function, integers, known, ndim_of, one_axis, shape_of, size_of
from .elementwise import astype
from .indexing import getitem, take
from .shapes import atleast_1d, atleast_2d, atleast_3d, ravel, reshape


@function
def concatenate(
    arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    if type(arrays) is not list and not isinstance(arrays, list | tuple):
        arrays = list(array(arrays))
    if dtype is None and axis.__class__ is int:
        joined = _joined_at_once(arrays, axis)
        if joined is not None:
            return joined
    if not arrays:
        raise ShapeError("`concatenate` needs at least one array")
    if axis is None:
        flat = [a if ndim_of(a) == 1 else ravel(a) for a in arrays]
        return concatenate(flat, 0, dtype=dtype)
    parts = [array(a) for a in arrays]
    shapes = [shape_of(a) for a in parts]
    first = shapes[0]
    if not first:
        raise ShapeError("`concatenate` cannot join arrays of rank 0; use np.stack")
    axis = one_axis(axis, len(first))
    if any(
        len(s) <= axis or s[:axis] != first[:axis] or s[axis + 1 :] != first[axis + 1 :]
        for s in shapes
    ):
        raise ShapeError(
            f"`concatenate` along axis {axis} needs equal shapes elsewhere, got {shapes}"
        )
    joined = P.concatenate(*parts, axis=axis, starts=_starts(shapes, axis))
    return joined if dtype is None else astype(joined, dtype)


def _starts(shapes: Any, axis: int) -> tuple[int, ...]:
    """Where each part begins, and the end."""
    starts = [end := 0]
    for s in shapes:
        starts.append(end := end + s[axis])
    return tuple(starts)


def _joined_at_once(arrays: Any, axis: int) -> Any:
    """The same for Tensors and arrays outside of staging, unrolled; None if there is more to it."""
    if hooks.observe is not None:
        return None
    values, rows = [], []
    boxed = varies = False
    for a in arrays:
        if a.__class__ is Tensor:
            row = a.row
            values.append(a._v)
            boxed = True
            if row is not None:
                if row.owner is not None:
                    return None
                varies = True
        elif a.__class__ is np.ndarray and a.dtype.kind in "biufc":
            row = None
            values.append(a)
        else:
            return None
        rows.append(row)
    if not varies and hooks.has_leaves:
        return None
    try:
        y = np.concatenate(values, axis)
    except ValueError:  # the other way says what is wrong
        return None
    if not varies:
        return wrap(y, None) if boxed else y
    axis %= y.ndim
    params = {"axis": axis, "starts": _starts([v.shape for v in values], axis)}
    return wrap(y, Row(P.concatenate, tuple(rows), NOTHING, params, y.shape, y.dtype, None))


FUNCTIONS["concat"] = concatenate


@function
def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    plain = _of_constants(np.stack, arrays, axis) if dtype is None else None
    if plain is not None:
        return plain
    parts = [a if a.__class__ is Tensor else array(a) for a in arrays]
    if not parts:
        raise ShapeError("`stack` needs at least one array")
    shapes = {shape_of(a) for a in parts}
    if len(shapes) > 1:
        raise ShapeError(f"`stack` needs equal shapes, got {sorted(shapes)}")
    (shape,) = shapes
    axis = one_axis(axis, len(shape) + 1)
    is_staged = any([isinstance(a, Staged) for a in parts]) and not hooks.as_written.value
    if axis < len(shape) and not is_staged:
        # One axis of all entries, cut into two: a row less for each part (compiled, shapes cost nothing).
        cut = (*shape[:axis], len(parts), *shape[axis:])
        return P.reshape(concatenate(parts, axis, dtype=dtype), shape=cut)
    shape = (*shape[:axis], 1, *shape[axis:])
    return concatenate([P.reshape(a, shape=shape) for a in parts], axis, dtype=dtype)


def _of_constants(plain: Any, arrays: Any, *args: Any) -> Any:
    """NumPy's own function where nothing varies, nothing may be computed anew and nobody looks; else None."""
    if hooks.has_leaves or hooks.observe is not None or arrays.__class__ not in (list, tuple):
        return None
    values = []
    for a in arrays:
        if a.__class__ is not Tensor or a.row is not None:
            return None
        values.append(a._v)
    try:
        return wrap(plain(values, *args), None)
    except (TypeError, ValueError):  # the other way says what is wrong
        return None


@function
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    plain = _of_constants(np.vstack, tup) if dtype is None else None
    if plain is not None:
        return plain
    parts = [array(a) for a in tup]
    if all([ndim_of(a) == 1 for a in parts]):
        return stack(parts, 0, dtype=dtype)
    return concatenate([a if ndim_of(a) > 1 else atleast_2d(a) for a in parts], 0, dtype=dtype)


@function
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    parts = [a if ndim_of(a) else atleast_1d(a) for a in tup]
    return concatenate(parts, 0 if parts and ndim_of(parts[0]) == 1 else 1, dtype=dtype)


@function
def dstack(tup: Any) -> Any:
    plain = _of_constants(np.dstack, tup)
    return concatenate([atleast_3d(a) for a in tup], 2) if plain is None else plain


@function
def column_stack(tup: Any) -> Any:
    plain = _of_constants(np.column_stack, tup)
    if plain is not None:
        return plain
    parts = [array(a) for a in tup]
    if all([ndim_of(a) == 1 for a in parts]):
        return stack(parts, 1)
    return concatenate([reshape(a, (-1, 1)) if ndim_of(a) < 2 else a for a in parts], 1)


@function
def block(arrays: Any) -> Any:
    """Nested lists: the innermost are joined along the last axis, the outermost along the first."""
    levels = _depth(arrays)
    return _block(arrays, levels, max(levels, _rank(arrays)))


def _depth(x: Any) -> int:
    return 1 + _depth(x[0]) if isinstance(x, list) else 0


def _rank(x: Any) -> int:
    return max(_rank(e) for e in x) if isinstance(x, list) else ndim_of(x)


def _block(x: Any, level: int, rank: int) -> Any:
    if isinstance(x, list):
        return concatenate([_block(e, level - 1, rank) for e in x], -level)
    return reshape(x, (1,) * (rank - ndim_of(x)) + shape_of(x))


@function
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    return concatenate([arr, values], axis)


@function
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """`obj` a place, a slice, or places in the old array before which to insert."""
    a, v = array(arr), array(values)
    if axis is None:
        a, axis = ravel(a), 0
    axis = one_axis(axis, ndim_of(a))
    n = shape_of(a)[axis]
    obj = known("insert", obj)
    if not isinstance(obj, slice) and np.size(obj) == 1 and np.asarray(obj).dtype.kind != "b":
        # One place takes a whole run of values; a bare number reads their first axis as the run.
        v = atleast_nd(v, ndim_of(a))
        if np.ndim(obj) == 0:
            v = FUNCTIONS["moveaxis"](v, 0, axis)
        obj = np.full(shape_of(v)[axis], np.reshape(obj, ()))
    order = np.insert(np.arange(n), obj, -1)
    new = np.flatnonzero(order == -1)
    target = tuple(len(new) if k == axis else s for k, s in enumerate(shape_of(a)))
    v = astype(P.broadcast_to(v, shape=target), a.dtype)
    order[new] = n + np.arange(len(new))
    return take(concatenate([a, v], axis), order, axis=axis)


def atleast_nd(v: Any, n: int) -> Any:
    return reshape(v, (1,) * (n - ndim_of(v)) + shape_of(v))


@function
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    a = array(arr)
    if axis is None:
        a, axis = ravel(a), 0
    axis = one_axis(axis, ndim_of(a))
    n = shape_of(a)[axis]
    if isinstance(obj, Staged) and obj.dtype.kind in "iu" and obj.shape == ():
        left = np.arange(n - 1)  # all places from the one that goes move up
        place = np.where(obj < 0, obj + n, obj)
        return take(a, left + (left >= place), axis=axis)
    return take(a, np.delete(np.arange(n), known("delete", obj)), axis=axis)


@function
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    ary = array(ary)
    axis = one_axis(axis, ndim_of(ary))
    n = shape_of(ary)[axis]
    if np.ndim(indices_or_sections) == 0:
        fraction = isinstance(indices_or_sections, float | np.floating)
        k = int(indices_or_sections) if fraction else operator.index(indices_or_sections)
        if k <= 0:
            raise ShapeError(f"`array_split` needs one part or more, got {k}")
        sizes = [n // k + 1] * (n % k) + [n // k] * (k - n % k)
        stops = np.cumsum([0, *sizes]).tolist()
    else:
        stops = [0, *integers(indices_or_sections), n]
    full = (slice(None),) * axis
    return [getitem(ary, (*full, slice(i, j))) for i, j in zip(stops, stops[1:], strict=False)]


@function
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    n = shape_of(ary)[one_axis(axis, ndim_of(ary))]
    if np.ndim(indices_or_sections) == 0 and n % indices_or_sections:
        raise ShapeError(
            f"`split` needs equal parts: {n} entries into {indices_or_sections}; try array_split"
        )
    return array_split(ary, indices_or_sections, axis)


@function
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    _at_least_rank("vsplit", ary, 2)
    return split(ary, indices_or_sections, 0)


@function
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    _at_least_rank("hsplit", ary, 1)
    return split(ary, indices_or_sections, 1 if ndim_of(ary) > 1 else 0)


@function
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    _at_least_rank("dsplit", ary, 3)
    return split(ary, indices_or_sections, 2)


def _at_least_rank(name: str, a: Any, n: int) -> None:
    if ndim_of(a) < n:
        raise ShapeError(f"`{name}` needs rank {n} or more, got shape {shape_of(a)}")


@function
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    axis = one_axis(axis, ndim_of(x))
    full = (slice(None),) * axis
    return tuple(getitem(x, (*full, k)) for k in range(shape_of(x)[axis]))


@function
def tile(A: Any, reps: Any) -> Any:
    reps = tuple(integers(reps))
    shape = (1,) * (len(reps) - ndim_of(A)) + shape_of(A)
    reps = (1,) * (len(shape) - len(reps)) + reps
    paired = tuple(x for r, s in zip(reps, shape, strict=True) for x in (r, s))
    ones = tuple(x for s in shape for x in (1, s))
    spread = P.broadcast_to(reshape(A, ones), shape=paired)
    return P.reshape(spread, shape=tuple(r * s for r, s in zip(reps, shape, strict=True)))


@function
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    a = array(a)
    if axis is None:
        a, axis = ravel(a), 0
    axis = one_axis(axis, ndim_of(a))
    return take(a, np.repeat(np.arange(shape_of(a)[axis]), repeats), axis=axis)


@function
def resize(a: Any, new_shape: Any) -> Any:
    shape = tuple(integers(new_shape))
    size = int(np.prod(shape))
    if not size_of(a):
        return np.zeros(shape, array(a).dtype)
    return reshape(take(ravel(a), np.arange(size) % size_of(a)), shape)
