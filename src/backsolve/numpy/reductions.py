"""Reductions and running sums, with NumPy's arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitive import FUNCTIONS, P
from ._register import all_axes, array, dtype_of, function, named, ndim_of, one_axis, reject, shape_of
from .elementwise import astype


def _prepared(a: Any, axis: Any, dtype: Any) -> tuple[Any, tuple[int, ...]]:
    a = array(a)
    if dtype is not None:
        a = astype(a, dtype)
    if not hasattr(a, "shape"):
        a = np.asarray(a)
    return a, all_axes(axis, ndim_of(a))


@function
def sum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None) -> Any:
    reject("sum", out=out, initial=initial)
    if where is not None and where is not np._NoValue:
        a = P.where(where, array(a), 0)
    a, axes = _prepared(a, axis, dtype)
    return P.sum(a, axis=axes, keepdims=bool(keepdims))


@function
def prod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None) -> Any:
    reject("prod", out=out, initial=initial, where=where)
    a, axes = _prepared(a, axis, dtype)
    return P.prod(a, axis=axes, keepdims=bool(keepdims))


@function
def max(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None) -> Any:
    reject("max", out=out, initial=initial, where=where)
    a, axes = _prepared(a, axis, None)
    return P.max(a, axis=axes, keepdims=bool(keepdims))


@function
def min(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None) -> Any:
    reject("min", out=out, initial=initial, where=where)
    a, axes = _prepared(a, axis, None)
    return P.min(a, axis=axes, keepdims=bool(keepdims))


FUNCTIONS["amax"], FUNCTIONS["amin"] = max, min


@function
def any(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = None) -> Any:
    reject("any", out=out, where=where)
    a, axes = _prepared(a, axis, None)
    return P.any(a, axis=axes, keepdims=bool(keepdims))


@function
def all(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = None) -> Any:
    reject("all", out=out, where=where)
    a, axes = _prepared(a, axis, None)
    return P.all(a, axis=axes, keepdims=bool(keepdims))


@function
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return sum(P.not_equal(array(a), 0), axis=axis, keepdims=keepdims)


def _count(a: Any, axes: tuple[int, ...]) -> int:
    n = 1
    for k in axes:
        n *= shape_of(a)[k]
    return n


@function
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = None) -> Any:
    reject("mean", out=out, where=where)
    a, axes = _prepared(a, axis, dtype)
    if dtype_of(a).kind not in "fc":
        a = astype(a, float)
    return P.divide(P.sum(a, axis=axes, keepdims=bool(keepdims)), _count(a, axes))


def _centred(a: Any, axes: tuple[int, ...]) -> Any:
    return a - P.divide(P.sum(a, axis=axes, keepdims=True), _count(a, axes))


@function
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *, where: Any = None, mean: Any = None, correction: Any = None) -> Any:
    reject("var", out=out, where=where, mean=mean)
    a, axes = _prepared(a, axis, dtype)
    if dtype_of(a).kind not in "fc":
        a = astype(a, float)
    dof = _count(a, axes) - _ddof(ddof, correction)
    centred = _centred(a, axes)
    square = P.square(P.absolute(centred)) if dtype_of(a).kind == "c" else P.square(centred)
    return P.divide(P.sum(square, axis=axes, keepdims=bool(keepdims)), dof)


@function
def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *, where: Any = None, mean: Any = None, correction: Any = None) -> Any:
    """The 2-norm of the deviations over √n: its derivative is 0 where all entries agree."""
    reject("std", out=out, where=where, mean=mean)
    a, axes = _prepared(a, axis, dtype)
    if dtype_of(a).kind not in "fc":
        a = astype(a, float)
    dof = _count(a, axes) - _ddof(ddof, correction)
    return P.divide(P.norm(_centred(a, axes), axis=axes, keepdims=bool(keepdims)), float(np.sqrt(dof)))


def _ddof(ddof: float, correction: Any) -> float:
    return ddof if correction is None or correction is np._NoValue else correction


@function
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    return max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims)


def _arg(prim: Any, a: Any, axis: Any, keepdims: Any) -> Any:
    a = array(a)
    shape = shape_of(a)
    if axis is None:
        found = prim(P.reshape(a, shape=(int(np.prod(shape)),)), axis=0)
        return P.reshape(found, shape=(1,) * len(shape)) if keepdims else found
    axis = one_axis(axis, len(shape))
    found = prim(a, axis=axis)
    return P.reshape(found, shape=(*shape[:axis], 1, *shape[axis + 1 :])) if keepdims else found


@function
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    reject("argmax", out=out)
    return _arg(P.argmax, a, axis, keepdims is True)


@function
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    reject("argmin", out=out)
    return _arg(P.argmin, a, axis, keepdims is True)


def _running(prim: Any, a: Any, axis: Any, dtype: Any) -> Any:
    a = array(a)
    if dtype is not None:
        a = astype(a, dtype)
    if axis is None:
        a = P.reshape(a, shape=(int(np.prod(shape_of(a))),))
        axis = 0
    return prim(a, axis=one_axis(axis, ndim_of(a)))


@function
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    reject("cumsum", out=out)
    return _running(P.cumsum, a, axis, dtype)


@function
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    reject("cumprod", out=out)
    return _running(P.cumprod, a, axis, dtype)


@function
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False) -> Any:
    """log Σ exp(a), without overflow; `b` are weights, as in SciPy."""
    a, axes = _prepared(a, axis, None)
    if dtype_of(a).kind not in "fc":
        a = astype(a, float)
    if b is not None:
        a = a + P.log(array(b))
    return P.logsumexp(a, axis=axes, keepdims=bool(keepdims))


@named("linalg.norm")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Vector norms of every order and the Frobenius norm; derivative 0 at 0."""
    x, axes = _prepared(x, axis, None)
    if dtype_of(x).kind not in "fc":
        x = astype(x, float)
    matrix = len(axes) == 2 and not (axis is None and ord is None)
    if ord is None or (ord == "fro" and len(axes) == 2) or (ord == 2 and not matrix):
        return P.norm(x, axis=axes, keepdims=keepdims)
    if matrix or len(axes) != 1:
        reject("norm", ord=ord)
    size = P.absolute(x)
    if ord == np.inf:
        return P.max(size, axis=axes, keepdims=keepdims)
    if ord == -np.inf:
        return P.min(size, axis=axes, keepdims=keepdims)
    if ord == 0:
        return P.sum(astype(P.not_equal(x, 0), dtype_of(size)), axis=axes, keepdims=keepdims)
    if ord == 1:
        return P.sum(size, axis=axes, keepdims=keepdims)
    return P.power(P.sum(P.power(size, float(ord)), axis=axes, keepdims=keepdims), 1.0 / ord)
