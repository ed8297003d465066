"""Places and running sums of the entries that are not NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitive import P
from ..tensor import Staged
from ._register import array, dtype_of, flag, function, reject
from .reductions import all, argmax, argmin, cumprod, cumsum


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
