"""Deviations, places and running sums of the entries that are not NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitive import P
from ..tensor import Staged
from ._register import array, dtype_of, flag, function, reject
from .elementwise import astype
from .reductions import _ddof, _prepared, all, argmax, argmin, cumprod, cumsum, std, var


def _deviations(a: Any, axis: Any, dtype: Any, ddof: Any) -> tuple[Any, Any, Any]:
    """Entries less their mean (0 for NaN), the axes, and the degrees of freedom."""
    a, axes = _prepared(a, axis, dtype)
    present = P.logical_not(P.isnan(a))
    count = P.sum(present, axis=axes, keepdims=True)
    total = P.sum(P.where(present, a, 0), axis=axes, keepdims=True)
    some = P.maximum(count, 1)  # where there is none, the answer is NaN by its degrees of freedom
    centre = P.divide(total, astype(some, dtype_of(a)))
    centred = P.where(present, a - centre, 0)
    freedom = astype(count, P.real(np.zeros((), dtype_of(a))).dtype) - ddof
    return centred, axes, freedom


@function
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = np._NoValue,
    *,
    where: Any = np._NoValue,
    mean: Any = np._NoValue,
    correction: Any = np._NoValue,
) -> Any:
    return _spread("nanvar", a, axis, dtype, ddof, keepdims, correction, out, where, mean)


@function
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = np._NoValue,
    *,
    where: Any = np._NoValue,
    mean: Any = np._NoValue,
    correction: Any = np._NoValue,
) -> Any:
    """As `std`: its derivative is 0 where all entries agree."""
    return _spread("nanstd", a, axis, dtype, ddof, keepdims, correction, out, where, mean)


def _spread(
    name: str,
    a: Any,
    axis: Any,
    dtype: Any,
    ddof: Any,
    keepdims: Any,
    correction: Any,
    out: Any,
    where: Any,
    mean: Any,
) -> Any:
    reject(name, out=out, where=where, mean=mean)
    kept = flag(keepdims)
    a, ddof = array(a), _ddof(ddof, correction)
    if dtype_of(a).kind not in "fc":
        return (std if name == "nanstd" else var)(a, axis, dtype, ddof=ddof, keepdims=kept)
    centred, axes, freedom = _deviations(a, axis, dtype, ddof)
    freedom = P.sum(freedom, axis=axes, keepdims=kept)  # of one entry: only its shape changes
    good = P.greater(freedom, 0)
    safe = P.where(good, freedom, 1)
    if name == "nanstd":
        y = P.divide(P.norm(centred, axis=axes, keepdims=kept), P.sqrt(safe))
    else:
        square = P.square(P.absolute(centred) if dtype_of(a).kind == "c" else centred)
        y = P.divide(P.sum(square, axis=axes, keepdims=kept), safe)
    return P.where(good, y, np.nan)


def _place(name: str, find: Any, fill: float, a: Any, axis: Any, keepdims: Any) -> Any:
    kept = flag(keepdims)
    a = array(a)
    if dtype_of(a).kind not in "fc":
        return find(a, axis, keepdims=kept)
    missing = P.isnan(a)
    none = all(missing, axis)
    if not isinstance(none, Staged) and np.any(none):
        raise ValueError(f"`{name}` met a slice with nothing but NaN")
    return find(P.where(missing, fill, a), axis, keepdims=kept)


@function
def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = np._NoValue) -> Any:
    reject("nanargmax", out=out)
    return _place("nanargmax", argmax, -np.inf, a, axis, keepdims)


@function
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = np._NoValue) -> Any:
    reject("nanargmin", out=out)
    return _place("nanargmin", argmin, np.inf, a, axis, keepdims)


def _without(a: Any, fill: float) -> Any:
    a = array(a)
    return P.where(P.isnan(a), fill, a) if dtype_of(a).kind in "fc" else a


@function
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    reject("nancumsum", out=out)
    return cumsum(_without(a, 0), axis, dtype)


@function
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    reject("nancumprod", out=out)
    return cumprod(_without(a, 1), axis, dtype)
