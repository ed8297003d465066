"""How far entries lie from their mean: variances and covariances."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError
from ..primitive import FUNCTIONS, P
from ._register import array, dtype_of, flag, function, given, ndim_of, reject, shape_of
from .elementwise import astype
from .indexing import getitem
from .joining import concatenate
from .products import matmul
from .reductions import _count, _prepared, sum
from .shapes import moveaxis


@function
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    return _spread("var", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


@function
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    """The 2-norm of the deviations over √n: its derivative is 0 where all entries agree."""
    return _spread("std", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


@function
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    return _spread("nanvar", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


@function
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    """As `std`: its derivative is 0 where all entries agree."""
    return _spread("nanstd", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


def _spread(
    name: str,
    a: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    ddof: Any,
    keepdims: Any,
    where: Any,
    mean: Any,
    correction: Any,
) -> Any:
    reject(name, out=out)
    if given(correction):
        if ddof != 0:
            raise ValueError(f"`{name}` takes ddof= or correction=, not both")
        ddof = correction
    kept = flag(keepdims)
    skips_nan = name.startswith("nan") and dtype_of(array(a)).kind in "fc"
    a, axes = _prepared(a, axis, dtype, of_one=False)
    if dtype_of(a).kind not in "fc":
        a = astype(a, float)
    chosen = P.broadcast_to(array(where), shape=shape_of(a)) if given(where) else None
    if skips_nan:
        present = P.logical_not(P.isnan(a))
        chosen = present if chosen is None else P.logical_and(chosen, present)
    if chosen is None:
        count: Any = _count(a, axes)
        centre = array(mean) if given(mean) else P.divide(P.sum(a, axis=axes, keepdims=True), count)
        freedom: Any = max(count - ddof, 0)
        centred = a - centre
    else:
        count = P.sum(chosen, axis=axes, keepdims=True)
        total = P.sum(P.where(chosen, a, 0), axis=axes, keepdims=True)
        some = astype(P.maximum(count, 1), dtype_of(a))  # of none, freedom says that there is none
        centre = array(mean) if given(mean) else P.divide(total, some)
        freedom = astype(
            P.sum(count, axis=axes, keepdims=kept), P.real(np.zeros((), dtype_of(a))).dtype
        )
        freedom = P.maximum(freedom - ddof, 0)
        centred = P.where(chosen, a - centre, 0)
    y = _sized(name.removeprefix("nan"), centred, axes, kept, freedom)
    if not skips_nan:
        return y
    return P.where(P.greater(freedom, 0), y, np.nan)


def _sized(name: str, centred: Any, axes: tuple[int, ...], kept: bool, freedom: Any) -> Any:
    if not hasattr(freedom, "dtype"):
        if name == "std":
            return P.divide(P.norm(centred, axis=axes, keepdims=kept), float(np.sqrt(freedom)))
        return P.divide(P.sum(_squared(centred), axis=axes, keepdims=kept), freedom)
    safe = P.where(P.greater(freedom, 0), freedom, 1)  # lest 0/0 warn and be differentiated
    if name == "std":
        y = P.divide(P.norm(centred, axis=axes, keepdims=kept), P.sqrt(safe))
    else:
        y = P.divide(P.sum(_squared(centred), axis=axes, keepdims=kept), safe)
    return P.where(P.greater(freedom, 0), y, np.nan)


def _squared(x: Any) -> Any:
    return P.square(P.absolute(x) if dtype_of(x).kind == "c" else x)


# ---- between rows


@function
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """Differentiable in the observations and in `aweights`; `fweights` are whole numbers."""
    m = FUNCTIONS["atleast_2d"](array(m))
    m = m if rowvar or shape_of(m)[0] == 1 else FUNCTIONS["transpose"](m)
    if y is not None:
        y = FUNCTIONS["atleast_2d"](array(y))
        m = concatenate([m, y if rowvar or shape_of(y)[0] == 1 else FUNCTIONS["transpose"](y)], 0)
    m = astype(m, dtype or np.result_type(dtype_of(m), float))
    ddof = (0 if bias else 1) if ddof is None else ddof
    n = shape_of(m)[1]
    w, total, freedom = _weighed(n, ddof, fweights, aweights)
    weighted = m if w is None else m * w
    centred = m - P.divide(sum(weighted, axis=1, keepdims=True), total)
    other = moveaxis(centred if w is None else centred * w, 0, 1)
    other = P.conjugate(other) if dtype_of(m).kind == "c" else other
    return FUNCTIONS["squeeze"](P.divide(matmul(centred, other), freedom))


def _weighed(n: int, ddof: Any, fweights: Any, aweights: Any) -> tuple[Any, Any, Any]:
    """The weights of n observations (None: equal ones), their sum, and by what products are divided."""
    if fweights is None and aweights is None:
        return None, n, n - ddof
    for name, given_ in (("fweights", fweights), ("aweights", aweights)):
        if given_ is not None and shape_of(array(given_)) != (n,):
            raise ShapeError(
                f"`cov` needs one of {name} for each of {n} observations, got {shape_of(array(given_))}"
            )
    w: Any = None
    if fweights is not None:
        w = array(fweights)
        if dtype_of(w).kind not in "iub":
            raise DTypeError(f"`cov` needs whole numbers as fweights, got {dtype_of(w)}")
        w = astype(w, float)
    if aweights is None:
        total = sum(w)
        return w, total, total - ddof
    a = array(aweights)
    w = a if w is None else w * a
    total = sum(w)
    return w, total, total - ddof * sum(w * a) / total if ddof else total


@function
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    c = cov(x, y, rowvar, dtype=dtype)
    if ndim_of(c) == 0:
        return c / c
    d = P.sqrt(P.real(FUNCTIONS["diagonal"](c)))
    return c / getitem(d, (slice(None), None)) / d
