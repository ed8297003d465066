"""Counting into bins: the counts are constant, weights and edges are differentiated."""

from __future__ import annotations

import builtins
import operator
import warnings
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError
from ..primitive import FUNCTIONS, P
from ..tensor import Staged, Tensor
from ._register import array, dtype_of, function, known, ndim_of, shape_of, size_of
from .elementwise import astype
from .indexing import getitem
from .shapes import ravel, reshape


@function
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    value = known("bincount", array(x))
    value = value if np.size(value) else np.zeros(np.shape(value), int)
    counts = np.bincount(value, minlength=minlength)  # its errors, and how long it is
    if weights is None:
        return Tensor(counts)
    w = array(weights)
    if shape_of(w) != value.shape:
        raise ShapeError(f"`bincount` got weights of shape {shape_of(w)} for {value.shape}")
    if dtype_of(w).kind == "c":
        raise DTypeError("`bincount` takes real weights, got complex ones")
    return P.scatter_add(astype(w, float), value.astype(np.intp), shape=counts.shape)


def _outer(a: Any, range: Any) -> tuple[Any, Any]:
    """The first and the last edge: of the range that is given, or of the data."""
    if range is not None:
        first, last = range
        if not isinstance(first, Staged) and not isinstance(last, Staged):
            if first > last:
                raise ValueError(f"`histogram` needs a range that grows, got {range}")
            if not (np.isfinite(first) and np.isfinite(last)):
                raise ValueError(f"`histogram` needs a finite range, got {range}")
    elif not size_of(a):
        first, last = 0, 1
    else:
        first, last = FUNCTIONS["min"](a), FUNCTIONS["max"](a)
        if not isinstance(first, Staged) and not (np.isfinite(first) and np.isfinite(last)):
            raise ValueError("`histogram` needs finite entries, or range=")
    if isinstance(first, Staged) or isinstance(last, Staged):
        same = np.equal(first, last)
        return np.where(same, first - 0.5, first), np.where(same, last + 0.5, last)
    return (first - 0.5, last + 0.5) if first == last else (first, last)


def _rising(edges: Any) -> Any:
    edges = array(edges)
    if not isinstance(edges, Staged) and np.any(np.less(edges[1:], edges[:-1])):
        raise ValueError("`histogram` needs edges that grow monotonically")
    return edges


def _edges(a: Any, bins: Any, range: Any, weights: Any, promotes: bool = True) -> Any:
    """As a Tensor; `promotes` if edges between numbers that are given have the dtype of the entries."""
    edges = _plain_edges(a, bins, range, weights, promotes)
    return edges if isinstance(edges, Tensor) else Tensor(edges)


def _plain_edges(a: Any, bins: Any, range: Any, weights: Any, promotes: bool) -> Any:
    if isinstance(bins, str):
        if weights is not None:
            raise TypeError("`histogram` cannot choose the number of bins for weighted entries")
        bins = (
            len(np.histogram_bin_edges(known("histogram", a, "the number of bins"), bins, range))
            - 1
        )
    if ndim_of(bins) == 1:
        return _rising(bins)
    if ndim_of(bins) != 0:
        raise ValueError("`histogram` takes bins as a number, a name, or edges of rank 1")
    try:
        n = operator.index(bins)
    except TypeError:
        raise TypeError(f"`histogram` takes a whole number of bins, got {bins!r}") from None
    if n < 1:
        raise ValueError(f"`histogram` needs one bin or more, got {n}")
    first, last = _outer(a, range)
    if not promotes:
        return np.linspace(first, last, n + 1)
    kind = np.result_type(
        *[x.dtype if hasattr(x, "dtype") else x for x in (first, last)], dtype_of(a)
    )
    kind = np.result_type(kind, float) if kind.kind in "iu" else kind
    return np.linspace(first, last, n + 1, dtype=kind)


def _places(a: Any, edges: Any) -> Any:
    """For each entry its bin; what lies in none, in one behind the last."""
    n = shape_of(edges)[0] - 1
    place = FUNCTIONS["searchsorted"](edges, a, "right") - 1
    place = P.where(P.equal(a, edges[-1]), n - 1, place)
    return P.where(P.less(place, 0), n, place)


def _prepared(a: Any, weights: Any) -> tuple[Any, Any]:
    a = array(a)
    if dtype_of(a).kind == "b":
        warnings.warn("Converting input from bool to uint8 for compatibility.", RuntimeWarning, 3)
        a = astype(a, np.uint8)
    if weights is not None:
        weights = array(weights)
        if shape_of(weights) != shape_of(a):
            raise ShapeError(
                f"`histogram` got weights of shape {shape_of(weights)} for {shape_of(a)}"
            )
        weights = ravel(weights)
    return ravel(a), weights


@function
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    a, weights = _prepared(a, weights)
    return _edges(a, bins, range, weights)


@function
def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any]:
    a, w = _prepared(a, weights)
    edges = _edges(a, bins, range, w)
    w = np.ones(shape_of(a), np.intp) if w is None else w
    n = shape_of(edges)[0] - 1
    counts = getitem(P.scatter_add(w, _places(a, edges), shape=(n + 1,)), slice(0, n))
    if density:
        widths = astype(FUNCTIONS["diff"](edges), float)
        counts = counts / widths / FUNCTIONS["sum"](counts)
    return counts, edges


@function
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, list[Any]]:
    if ndim_of(sample) != 2 or isinstance(sample, list | tuple):
        sample = FUNCTIONS["transpose"](FUNCTIONS["atleast_2d"](array(sample)))
    count, dims = shape_of(sample)
    try:
        every = len(bins)
    except TypeError:
        bins, every = [bins] * dims, dims
    ranges = [None] * dims if range is None else range
    if every != dims or len(ranges) != dims:
        raise ValueError(f"`histogramdd` needs bins and ranges for each of {dims} dimensions")
    edges, places = [], []
    for k in builtins.range(dims):
        column, wish = getitem(sample, (slice(None), k)), bins[k]
        if ndim_of(wish) == 0:
            column = column if dtype_of(column).kind == "f" else astype(column, float)
        edges.append(_edges(column, wish, ranges[k], None, False))
        places.append(_places(column, edges[-1]))
    lengths = [shape_of(e)[0] - 1 for e in edges]
    w = np.ones(count) if weights is None else astype(array(weights), float)
    hist = P.scatter_add(w, *places, shape=tuple(n + 1 for n in lengths))
    hist = getitem(hist, tuple(slice(0, n) for n in lengths))
    if density:
        total = FUNCTIONS["sum"](hist)
        for k, e in enumerate(edges):
            widths = FUNCTIONS["diff"](e)
            hist = hist / reshape(widths, tuple(-1 if j == k else 1 for j in builtins.range(dims)))
        hist = hist / total
    return hist, edges


@function
def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
) -> tuple[Any, Any, Any]:
    if shape_of(x) != shape_of(y) or ndim_of(x) != 1:
        raise ShapeError(f"`histogram2d` needs two vectors alike, got {shape_of(x)}, {shape_of(y)}")
    if ndim_of(bins) and len(bins) != 2:
        bins = [bins, bins] if len(bins) > 1 else [bins[0], bins[0]]
    pair = FUNCTIONS["stack"]([x, y], axis=1)
    hist, edges = histogramdd(pair, bins, range, density, weights)
    return hist, edges[0], edges[1]
