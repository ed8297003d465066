"""Sorting is reading in another order: the order is constant, the reading is differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..primitive import P, wrap
from ..tensor import Staged, Tensor
from ._register import (
    OWN,
    all_axes,
    array,
    dtype_of,
    function,
    integers,
    known,
    ndim_of,
    one_axis,
    own,
    reject,
    shape_of,
)
from .elementwise import astype
from .indexing import getitem, take_along_axis
from .shapes import flip, moveaxis, ravel, reshape


def _value(name: str, a: Any) -> Any:
    return np.asarray(known(name, a))


def _prepared(a: Any, axis: Any) -> tuple[Any, int]:
    a = array(a)
    return (ravel(a), 0) if axis is None else (a, one_axis(axis, ndim_of(a)))


@function
def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Any:
    """Always stable; `kind` is a wish about speed."""
    reject("argsort", order=order)
    if ndim_of(a) == 0 and axis in (0, -1):  # to NumPy, here, a row of one
        a = ravel(a)
    a, axis = _prepared(a, axis)
    return P.argsort(a, axis=axis)


@function
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    reject("sort", order=order)
    a, axis = _prepared(a, axis)
    if isinstance(a, Tensor) and a.row is None and not isinstance(a, Staged):
        return wrap(np.sort(a._v, axis), None)  # nobody asks where the entries came from
    order = P.argsort(a, axis=axis)
    return P.gather(a, order) if ndim_of(a) == 1 else take_along_axis(a, order, axis)


def ranked(a: Any, ranks: tuple[int, ...]) -> Any:
    """The entries of these ranks along the last axis: some of those that are sorted."""
    if isinstance(a, Tensor) and a.row is None and not isinstance(a, Staged):
        return wrap(np.take(np.partition(a._v, ranks, -1), ranks, -1), None)
    return take_along_axis(a, P.ranked(a, axis=ndim_of(a) - 1, ranks=ranks), -1)


@function
def argpartition(
    a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None
) -> Any:
    _check_places("argpartition", a, kth, axis)
    return argsort(a, axis, order=order)  # sorted is partitioned


@function
def partition(
    a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None
) -> Any:
    _check_places("partition", a, kth, axis)
    return sort(a, axis, order=order)


def _check_places(name: str, a: Any, kth: Any, axis: Any) -> None:
    a, axis = _prepared(a, axis)
    n = shape_of(a)[axis]
    for k in integers(kth) if n else ():
        if not -n <= k < n:
            raise ValueError(f"`{name}` got kth={k} along an axis of {n} entries")


@function
def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    a = array(a)
    if ndim_of(a) != 1:
        raise ShapeError(f"`searchsorted` needs a row to search in, got shape {shape_of(a)}")
    if sorter is not None:
        a = getitem(a, array(sorter))
    return P.searchsorted(a, array(v), side=side)


@function
def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    a = array(a)
    a = a if hasattr(a, "dtype") and dtype_of(a).kind in "fc" else astype(a, float)
    shape = shape_of(a)
    axes = all_axes(axis, len(shape))
    rest = [k for k in range(len(shape)) if k not in axes]
    flat = moveaxis(a, axes, range(len(rest), len(shape)))
    n = int(np.prod([shape[k] for k in axes]))
    middle = found = reshape(flat, (*[shape[k] for k in rest], n))
    if n:
        found = ranked(found, tuple(sorted({(n - 1) // 2, n // 2, n - 1})))
        middle = getitem(found, (Ellipsis, slice(2 - n % 2)))
    is_half = dtype_of(a) == np.float16  # whose sum may overflow: by float32, as NumPy
    middle = astype(middle, np.float32) if is_half else middle
    y = P.divide(P.sum(middle, axis=(ndim_of(middle) - 1,), keepdims=False), 2 - n % 2)
    y = astype(y, np.float16) if is_half else y
    if n:
        last = getitem(found, (Ellipsis, -1))  # where a NaN is, if there is one
        y = P.where(P.isnan(last), last, y)
    return reshape(y, tuple(1 if k in axes else s for k, s in enumerate(shape))) if keepdims else y


@function
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    a = array(a)
    if axis is None:
        a, axis = ravel(a), 0
    full = (slice(None),) * one_axis(axis, ndim_of(a))
    chosen = _value("compress", condition)
    if np.ndim(chosen) != 1:
        raise ShapeError(f"`compress` needs a condition of rank 1, got shape {np.shape(chosen)}")
    return getitem(a, (*full, np.flatnonzero(chosen)))


@function
def argwhere(a: Any) -> Any:
    return Tensor(np.argwhere(_value("argwhere", a)))


@function
def flatnonzero(a: Any) -> Any:
    return Tensor(np.flatnonzero(_value("flatnonzero", a)))


# ---- the array API standard's signatures, for the namespace


def _descending(name: str, up: Any) -> Any:
    def call(
        x: Any,
        /,
        axis: Any = -1,
        kind: Any = None,
        order: Any = None,
        *,
        descending: bool = False,
        stable: bool | None = True,
    ) -> Any:
        if not descending:
            return up(x, axis, kind=kind, order=order)
        x, axis = _prepared(x, axis)
        # Equal entries keep their order: those of the array turned round are sorted and turned back.
        places = flip(argsort(flip(x, axis), axis), axis)
        places = shape_of(x)[axis] - 1 - places
        return places if name == "argsort" else take_along_axis(x, places, axis)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`numpy.{name}`, always stable; from the largest down if `descending`."
    return call


OWN["sort"], OWN["argsort"] = _descending("sort", np.sort), _descending("argsort", np.argsort)


@own
def unique_values(x: Any, /) -> Any:
    """The distinct entries in rising order, which NumPy's own does not promise."""
    return np.unique(x, equal_nan=False)
