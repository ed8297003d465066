"""Reductions and running sums, with NumPy's arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..operators.broadcast import reduced_shape
from ..primitive import FUNCTIONS, P
from ..tensor import Tensor
from ._register import (
    all_axes,
    array,
    dtype_of,
    flag,
    function,
    given,
    ndim_of,
    one_axis,
    reject,
    shape_of,
    size_of,
)
from .elementwise import astype


def _prepared(a: Any, axis: Any, dtype: Any, of_one: bool = True) -> tuple[Any, tuple[int, ...]]:
    """`of_one`: whether a single number has the axes 0 and -1, as NumPy's ufuncs have it; `mean` has not."""
    if type(a) is Tensor and type(a._v) is np.ndarray and dtype is None and a._v.ndim:
        return a, all_axes(axis, a._v.ndim)
    a = array(a)
    if dtype is not None:
        a = astype(a, dtype)
    if not hasattr(a, "shape"):
        a = np.asarray(a)
    elif isinstance(a, Tensor) and type(a._v) in (float, complex):
        a = astype(a, a.dtype)  # a bare Python number under grad: reduced, it is NumPy's
    if of_one and ndim_of(a) == 0 and isinstance(axis, int | np.integer) and axis in (0, -1):
        return a, ()
    return a, all_axes(axis, ndim_of(a))


def _as(dtype: Any, y: Any) -> Any:
    """Sums of small integers are made as large ones, and are of the dtype that was asked for in the end."""
    return y if dtype is None or dtype_of(y) == dtype else astype(y, dtype)


@function
def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    if out is not None:
        reject("sum", out=out)
    if where is not None and given(where):
        a = P.where(where, array(a), 0)
    a, axes = _prepared(a, axis, dtype)
    y = P.sum(a, axis=axes, keepdims=flag(keepdims))
    if dtype is not None:
        y = _as(dtype, y)
    return P.add(y, initial) if initial is not None and given(initial) else y


@function
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    reject("prod", out=out)
    if given(where):
        a = P.where(where, array(a), 1)
    a, axes = _prepared(a, axis, dtype)
    y = _as(dtype, P.prod(a, axis=axes, keepdims=flag(keepdims)))
    return P.multiply(y, initial) if given(initial) else y


def _extremum(name: str, a: Any, axis: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    a, axes = _prepared(a, axis, None)
    pair, reduction = (P.maximum, P.max) if name == "max" else (P.minimum, P.min)
    if given(where):
        if not given(initial):
            raise ValueError(
                f"`{name}` with where= needs initial=, the answer where nothing is chosen"
            )
        a = P.where(where, a, initial)
    if not given(initial):
        if size_of(a) == 0 and not _count(a, axes):
            raise ShapeError(f"`{name}` of no entries: shape {shape_of(a)} over axis {axis}")
        return reduction(a, axis=axes, keepdims=flag(keepdims))
    if not _count(a, axes):
        shape = reduced_shape(shape_of(a), axes, flag(keepdims))
        start = astype(initial if isinstance(initial, Tensor) else Tensor(initial), dtype_of(a))
        return P.broadcast_to(start, shape=shape)
    return pair(reduction(a, axis=axes, keepdims=flag(keepdims)), initial)


@function
def max(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    reject("max", out=out)
    return _extremum("max", a, axis, keepdims, initial, where)


@function
def min(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    reject("min", out=out)
    return _extremum("min", a, axis, keepdims, initial, where)


FUNCTIONS["amax"], FUNCTIONS["amin"] = max, min


@function
def any(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = None
) -> Any:
    reject("any", out=out)
    a = P.where(where, P.not_equal(array(a), 0), False) if given(where) else a
    a, axes = _prepared(a, axis, None)
    return P.any(a, axis=axes, keepdims=flag(keepdims))


@function
def all(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = None
) -> Any:
    reject("all", out=out)
    a = P.where(where, P.not_equal(array(a), 0), True) if given(where) else a
    a, axes = _prepared(a, axis, None)
    return P.all(a, axis=axes, keepdims=flag(keepdims))


@function
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return sum(P.not_equal(array(a), 0), axis=axis, keepdims=keepdims)


def _count(a: Any, axes: tuple[int, ...]) -> int:
    n = 1
    for k in axes:
        n *= shape_of(a)[k]
    return n


@function
def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    *,
    where: Any = None,
) -> Any:
    plain = axis is dtype is out is where is None and not keepdims and isinstance(a, Tensor)
    if plain and a.dtype.char in "fdFD":
        total = P.sum(a, axis=tuple(range(a.ndim)), keepdims=False)
        return P.divide(total, a.size)
    reject("mean", out=out)
    a, axes = _prepared(a, axis, dtype, of_one=False)
    if dtype is None and dtype_of(a) == np.float16:  # whose sum may overflow: by float32, as NumPy
        return astype(mean(astype(a, np.float32), axis, keepdims=keepdims, where=where), np.float16)
    if dtype_of(a).kind not in "fc":
        a = astype(a, float)
    if given(where):
        chosen = P.broadcast_to(array(where), shape=shape_of(a))
        count = P.sum(chosen, axis=axes, keepdims=flag(keepdims))
        a = P.where(chosen, a, 0)
        return P.divide(P.sum(a, axis=axes, keepdims=flag(keepdims)), astype(count, dtype_of(a)))
    return P.divide(P.sum(a, axis=axes, keepdims=flag(keepdims)), _count(a, axes))


@function
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    a = array(a)
    if weights is None:
        y, total = mean(a, axis, keepdims=keepdims), _count(a, all_axes(axis, ndim_of(a)))
    else:
        w = array(weights)
        if shape_of(w) != shape_of(a):
            if axis is None:
                raise TypeError("`average` needs axis= when shapes of a and weights differ")
            axes = all_axes(axis, ndim_of(a))
            if shape_of(w) != tuple(shape_of(a)[k] for k in axes):
                raise ShapeError(
                    f"`average` got weights of shape {shape_of(w)} for axis {axis} of {shape_of(a)}"
                )
            w = FUNCTIONS["transpose"](w, np.argsort(axes))
            w = P.reshape(w, shape=tuple(s if k in axes else 1 for k, s in enumerate(shape_of(a))))
        total = sum(P.broadcast_to(w, shape=shape_of(a)), axis, keepdims=keepdims)
        y = P.divide(sum(P.multiply(a, w), axis, keepdims=keepdims), total)
    return (y, P.broadcast_to(array(total), shape=shape_of(y))) if returned else y


def _nan_as(fill: float, reduction: Any) -> Any:
    def call(a: Any, axis: Any = None, **options: Any) -> Any:
        a = array(a)
        if dtype_of(a).kind not in "fc":
            return reduction(a, axis, **options)
        missing = P.isnan(a)
        y = reduction(P.where(missing, fill, a), axis, **options)
        if reduction not in (max, min) or "initial" in options:
            return y
        return P.where(all(missing, axis, keepdims=options.get("keepdims", False)), np.nan, y)

    call.__name__ = f"nan{reduction.__name__}"
    call.__doc__ = f"`{reduction.__name__}` of the entries that are not NaN."
    FUNCTIONS[call.__name__] = call
    return call


nansum, nanprod, nanmax, nanmin = (
    _nan_as(0, sum),
    _nan_as(1, prod),
    _nan_as(-np.inf, max),
    _nan_as(np.inf, min),
)


@function
def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    *,
    where: Any = None,
) -> Any:
    a = array(a)
    present = P.logical_not(P.isnan(a))
    chosen = P.logical_and(present, array(where)) if given(where) else present
    return mean(a, axis, dtype, out, keepdims, where=chosen)


@function
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    return max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims)


def _flat(a: Any) -> Any:
    """One axis; a vector as it is."""
    return a if ndim_of(a) == 1 else P.reshape(a, shape=(size_of(a),))


def _arg(prim: Any, a: Any, axis: Any, keepdims: Any) -> Any:
    a = array(a)
    shape = shape_of(a)
    over = range(len(shape)) if axis is None else (one_axis(axis, len(shape)),)
    if 0 in [shape[k] for k in over]:
        raise ShapeError(f"`{prim.name}` of no entries: shape {shape} over axis {axis}")
    if axis is None:
        found = prim(_flat(a), axis=0)
        return P.reshape(found, shape=(1,) * len(shape)) if keepdims else found
    axis = one_axis(axis, len(shape))
    found = prim(a, axis=axis)
    return P.reshape(found, shape=(*shape[:axis], 1, *shape[axis + 1 :])) if keepdims else found


@function
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    reject("argmax", out=out)
    return _arg(P.argmax, a, axis, flag(keepdims))


@function
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    reject("argmin", out=out)
    return _arg(P.argmin, a, axis, flag(keepdims))


def _running(prim: Any, a: Any, axis: Any, dtype: Any) -> Any:
    a = array(a)
    if dtype is not None:
        a = astype(a, dtype)
    if axis is None:
        a, axis = _flat(a), 0
    return _as(dtype, prim(a, axis=one_axis(axis, ndim_of(a))))


@function
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    reject("cumsum", out=out)
    return _running(P.cumsum, a, axis, dtype)


@function
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    reject("cumprod", out=out)
    return _running(P.cumprod, a, axis, dtype)


def _cumulative(name: str, running: Any, start: float) -> None:
    def call(
        x: Any,
        /,
        *,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        include_initial: bool = False,
    ) -> Any:
        x = array(x)
        if axis is None and ndim_of(x) > 1:
            raise ValueError(f"`{name}` needs axis= for an array of rank {ndim_of(x)}")
        x = FUNCTIONS["reshape"](x, (1,)) if ndim_of(x) == 0 else x
        axis = one_axis(axis or 0, ndim_of(x))
        y = running(x, axis, dtype, out)
        if not include_initial:
            return y
        edge = tuple(1 if k == axis else s for k, s in enumerate(shape_of(y)))
        return FUNCTIONS["concatenate"]([np.full(edge, start, dtype_of(y)), y], axis)

    call.__name__ = name
    call.__doc__ = f"`numpy.{name}`: running sums or products, with or without their start."
    FUNCTIONS[name] = call


_cumulative("cumulative_sum", cumsum, 0)
_cumulative("cumulative_prod", cumprod, 1)


@function
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False) -> Any:
    """log Σ exp(a), without overflow; `b` are weights, as in SciPy."""
    a, axes = _prepared(a, axis, None)
    if dtype_of(a).kind not in "fc":
        a = astype(a, float)
    if b is not None:
        a = a + P.log(array(b))
    return P.logsumexp(a, axis=axes, keepdims=flag(keepdims))
