"""Quantiles by all of NumPy's methods: readings in the sorted array, differentiated in its entries and in q."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError
from ..ir import Var
from ..primitive import FUNCTIONS, P
from ..tensor import Staged, Tensor
from ._register import (
    all_axes,
    array,
    dtype_of,
    flag,
    function,
    ndim_of,
    reject,
    shape_of,
    size_of,
)
from .elementwise import astype
from .indexing import getitem, take_along_axis
from .reductions import mean, nanmean
from .shapes import moveaxis, reshape
from .sorting import ranked

# Hyndman and Fan's continuous methods: entry n q + (α + q (1 − α − β)) − 1 of the sorted array.
_CONTINUOUS = {
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (0.5, 0.5),
    "weibull": (0, 0),
    "median_unbiased": (1 / 3.0, 1 / 3.0),
    "normal_unbiased": (3 / 8.0, 3 / 8.0),
}
_READING = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
_MANY = 16  # ranks from which on all entries are sorted
_METHODS = (*_READING, *_CONTINUOUS, "averaged_inverted_cdf", "linear", "midpoint")


def _whole(method: str, n: Any, q: Any) -> Any:
    """The place of the one entry that a discrete method reads, as a float."""
    if method in ("lower", "higher", "nearest"):
        at = (n - 1) * q
        return {"lower": np.floor, "higher": np.ceil, "nearest": np.rint}[method](at)
    at = n * q - 1 - (0.5 if method == "closest_observation" else 0)
    below = np.floor(at)
    stays = np.equal(at, below)
    if method == "closest_observation":
        stays = stays & np.equal(below % 2, 1)
    return np.where(stays, below, below + 1)


def _between(method: str, n: Any, q: Any) -> tuple[Any, Any]:
    """The entry below, and how far it is to the next."""
    if method in _CONTINUOUS:
        alpha, beta = _CONTINUOUS[method]
        at = n * q + (alpha + q * (1 - alpha - beta)) - 1
    elif method == "averaged_inverted_cdf":
        at = n * q - 1
    else:
        at = (n - 1) * q
    below = np.floor(at)
    if method == "averaged_inverted_cdf":
        return below, np.where(np.equal(at, below), 0.5, 1.0)
    if method == "midpoint":
        return below, np.where(np.equal(at, below), 0.0, 0.5)
    return below, at - below


def _is_weak(q: Any) -> bool:
    """A bare Python number, which leaves the dtype of the array as it is."""
    v = q._v if isinstance(q, Tensor) else q
    return v.type.weak if type(v) is Var else type(v) in (int, float)


def _levels(name: str, q: Any, most: float) -> Any:
    """q between 0 and 1, as an array."""
    q = array(q)
    q = q if hasattr(q, "dtype") else np.asarray(q)
    if dtype_of(q).kind == "c":
        raise DTypeError(f"`{name}` needs real levels q, got {dtype_of(q)}")
    if most != 1:
        q = np.true_divide(q, most)
    if ndim_of(q) > 2:
        raise ShapeError(f"`{name}` takes q of rank 0, 1 or 2, got shape {shape_of(q)}")
    if not isinstance(q, Staged):
        v = np.asarray(q._v if isinstance(q, Tensor) else q)
        if not np.all((v >= 0) & (v <= 1)):
            raise ValueError(f"`{name}` takes levels q from 0 to {most}, got {v * most}")
    return q


def _rows(x: Any, axes: tuple[int, ...]) -> Any:
    """All axes that are reduced as one, at the end."""
    rest = [k for k in range(ndim_of(x)) if k not in axes]
    shape = shape_of(x)
    x = moveaxis(x, axes, range(len(rest), len(shape)))
    return reshape(x, (*[shape[k] for k in rest], prod(shape[k] for k in axes)))


def _weights(name: str, w: Any, a: Any, axis: Any, method: str) -> Any:
    if method != "inverted_cdf":
        raise ValueError(f"`{name}` with weights needs method='inverted_cdf', got {method!r}")
    w = array(w)
    if shape_of(w) != shape_of(a):
        if axis is None:
            raise TypeError(f"`{name}` needs axis= when shapes of a and weights differ")
        axes = all_axes(axis, ndim_of(a))
        if shape_of(w) != tuple(shape_of(a)[k] for k in axes):
            raise ShapeError(
                f"`{name}` got weights of shape {shape_of(w)} for axis {axis} of {shape_of(a)}"
            )
        w = FUNCTIONS["transpose"](w, np.argsort(axes))
        w = reshape(w, tuple(s if k in axes else 1 for k, s in enumerate(shape_of(a))))
    if not isinstance(w, Staged) and np.any(np.less(w, 0)):
        raise ValueError(f"`{name}` needs weights that are not negative")
    return P.broadcast_to(w, shape=shape_of(a))


def _pick(ordered: Any, place: Any, rank: int) -> Any:
    """Entries of the rows, at places (levels…) or (levels…, rows…); `rank` is that of the levels."""
    place = astype(place, np.intp)
    if ndim_of(place) == rank:  # the same places in all rows
        y = getitem(ordered, (Ellipsis, place))
        return moveaxis(y, range(ndim_of(y) - rank, ndim_of(y)), range(rank))
    levels, rows = shape_of(place)[:rank], shape_of(ordered)[:-1]
    flat = moveaxis(reshape(place, (prod(levels), *rows)), 0, -1)
    return reshape(moveaxis(take_along_axis(ordered, flat, -1), -1, 0), (*levels, *rows))


def _selected(rows: Any, places: list[Any]) -> tuple[Any, list[Any]]:
    """The entries of known ranks and the last, in their order, and where each of them stands there."""
    known = [np.asarray(p._v if isinstance(p, Tensor) else p).astype(np.intp) for p in places]
    n = shape_of(rows)[-1]
    ranks = np.unique(np.concatenate([*(p.ravel() for p in known), [n - 1]]))
    if len(ranks) > _MANY:
        return FUNCTIONS["sort"](rows, -1), places
    few = ranked(rows, tuple(int(r) for r in ranks))
    return few, [np.searchsorted(ranks, p) for p in known]


def _quantile(
    name: str,
    a: Any,
    q: Any,
    most: float,
    axis: Any,
    method: Any,
    keepdims: Any,
    weights: Any,
    skips: bool,
) -> Any:
    a = array(a)
    a = a if hasattr(a, "dtype") else np.asarray(a)
    if dtype_of(a).kind == "c":
        raise DTypeError(f"`{name}` needs real numbers, got {dtype_of(a)}")
    if method not in _METHODS:
        raise ValueError(f"`{name}` knows the methods {', '.join(_METHODS)}; got {method!r}")
    weak = _is_weak(q)
    q = _levels(name, q, most)
    shape, axes = shape_of(a), all_axes(axis, ndim_of(a))
    keepdims = flag(keepdims)
    skips = skips and dtype_of(a).kind == "f"
    if skips and not size_of(a):
        return nanmean(a, axis, keepdims=keepdims)
    n = prod(shape[k] for k in axes)
    if not n:
        raise IndexError(f"`{name}` of no entries: shape {shape} over axis {axis}")
    rows = _rows(a, axes)
    selects = weights is None and not skips and not isinstance(q, Staged)
    if not selects:
        order = P.argsort(rows, axis=ndim_of(rows) - 1)
        ordered = take_along_axis(rows, order, -1)
    levels = reshape(q, (*shape_of(q), *[1] * (ndim_of(rows) - 1))) if skips else q
    if dtype_of(levels).kind != "f" and method != "linear":
        levels = astype(levels, float)
    count: Any = n
    if skips:
        count = np.sum(~np.isnan(ordered), axis=-1)
        count = astype(count, dtype_of(levels))
    last = np.maximum(count - 1, 0)
    if weights is not None:
        w = _rows(_weights(name, weights, a, axis, method), axes)
        place = _by_weight(take_along_axis(w, order, -1), ordered, q, skips)
        y = _pick(ordered, np.minimum(place, last), ndim_of(q))
    elif method in _READING or dtype_of(levels).kind != "f":
        place = (n - 1) * levels if method == "linear" else _whole(method, count, levels)
        places = [np.clip(place, 0, last)]
        if selects:
            ordered, places = _selected(rows, places)
        y = _pick(ordered, places[0], ndim_of(q))
    else:
        below, part = _between(method, count, levels)
        places = [np.clip(below, 0, last), np.clip(below + 1, 0, last)]
        if selects:
            ordered, places = _selected(rows, places)
        low, high = (_pick(ordered, place, ndim_of(q)) for place in places)
        part = astype(part, dtype_of(levels))
        if ndim_of(part) == ndim_of(q) and not skips:
            part = reshape(part, (*shape_of(part), *[1] * (ndim_of(rows) - 1)))
        if weak and dtype_of(a).kind == "f":
            part = astype(part, dtype_of(a))
        gap = P.subtract(high, low)
        y = np.where(part >= 0.5, high - gap * (1 - part), low + gap * part)
    if dtype_of(a).kind == "f" and not skips:
        end = getitem(ordered, (Ellipsis, -1))  # where a NaN is, if there is one
        y = np.where(np.isnan(end), astype(end, dtype_of(y)), y)
    kept = tuple(1 if k in axes else s for k, s in enumerate(shape))
    return reshape(y, (*shape_of(q), *kept)) if keepdims else y


def _by_weight(w: Any, ordered: Any, q: Any, skips: bool) -> Any:
    """How many entries of each row lie before the share q of all weight: (levels…, rows…)."""
    w = astype(w, float)
    if skips:
        w = np.where(np.isnan(ordered), 0.0, w)
    total = np.cumsum(w, axis=-1)
    share = total / total[..., -1:]
    share = share if dtype_of(q).kind != "f" else astype(share, dtype_of(q))
    if not isinstance(share, Staged) and np.any(np.isnan(share)):
        raise ValueError("weights with NaN, infinities, or nothing but zeros have no quantiles")
    share = np.where(np.equal(share, 0), -1, share)
    levels = reshape(q, (*shape_of(q), *[1] * ndim_of(share)))
    return np.sum(share < levels, axis=-1)


@function
def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Any:
    reject("quantile", out=out)
    return _quantile("quantile", a, q, 1, axis, method, keepdims, weights, False)


@function
def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Any:
    reject("percentile", out=out)
    return _quantile("percentile", a, q, 100, axis, method, keepdims, weights, False)


@function
def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: Any = np._NoValue,
    *,
    weights: Any = None,
) -> Any:
    reject("nanquantile", out=out)
    return _quantile("nanquantile", a, q, 1, axis, method, keepdims, weights, True)


@function
def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: Any = np._NoValue,
    *,
    weights: Any = None,
) -> Any:
    reject("nanpercentile", out=out)
    return _quantile("nanpercentile", a, q, 100, axis, method, keepdims, weights, True)


@function
def nanmedian(
    a: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    keepdims: Any = np._NoValue,
) -> Any:
    reject("nanmedian", out=out)
    a = array(a)
    kept = flag(keepdims)
    if not size_of(a):
        return mean(a, axis, keepdims=kept)
    if dtype_of(a).kind != "f":
        return FUNCTIONS["median"](a, axis, keepdims=kept)
    return _quantile("nanmedian", a, 0.5, 1, axis, "linear", kept, None, True)
