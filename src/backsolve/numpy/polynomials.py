"""NumPy's polynomials: rows of coefficients, the highest power first.

Inside of compiled code a leading coefficient is taken to be other than 0: only values could tell.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..primitive import FUNCTIONS, P
from ..tensor import Staged, Tensor
from ._register import array, dtype_of, function, known, ndim_of, shape_of
from .calculus import convolve
from .elementwise import astype
from .indexing import getitem
from .joining import concatenate
from .products import matmul
from .shapes import atleast_1d, matrix_transpose
from .systems import floating


def _row(name: str, p: Any) -> Any:
    p = atleast_1d(array(p))
    if ndim_of(p) != 1:
        raise ShapeError(f"`{name}` needs coefficients of rank 1, got shape {shape_of(p)}")
    return p


def _joined(name: str, combine: Any, a1: Any, a2: Any) -> Any:
    a1, a2 = _row(name, a1), _row(name, a2)
    longest = max(shape_of(a1)[0], shape_of(a2)[0])
    filled = [
        concatenate([np.zeros(longest - shape_of(a)[0], dtype_of(a)), a])
        if shape_of(a)[0] < longest
        else a
        for a in (a1, a2)
    ]
    return combine(*filled)


@function
def polyadd(a1: Any, a2: Any) -> Any:
    return _joined("polyadd", P.add, a1, a2)


@function
def polysub(a1: Any, a2: Any) -> Any:
    return _joined("polysub", P.subtract, a1, a2)


def _first(p: Any) -> int:
    """Where the first coefficient stands that is not 0, or the last one."""
    if isinstance(p, Staged):
        return 0
    found = np.flatnonzero(known("polymul", p))
    return int(found[0]) if found.size else max(shape_of(p)[0] - 1, 0)


@function
def polymul(a1: Any, a2: Any) -> Any:
    a1, a2 = _row("polymul", a1), _row("polymul", a2)
    return convolve(getitem(a1, slice(_first(a1), None)), getitem(a2, slice(_first(a2), None)))


@function
def polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """Quotient and remainder, by long division."""
    u, v = _row("polydiv", u) + 0.0, _row("polydiv", v) + 0.0
    m, n = shape_of(u)[0] - 1, shape_of(v)[0] - 1
    if m < 0 or n < 0:
        raise ShapeError("`polydiv` needs coefficients, got none")
    kind = np.result_type(dtype_of(u), dtype_of(v))
    scale, rest = 1.0 / getitem(v, 0), astype(u, kind)
    quotient = []
    for k in range(m - n + 1):
        d = scale * getitem(rest, k)
        quotient.append(d)
        spec = ((k, k + n + 1, 1),)
        rest = rest - P.unslice(d * v, spec=spec, shape=(m + 1,))
    q = FUNCTIONS["stack"](quotient) if quotient else Tensor(np.zeros(1, kind))
    if isinstance(rest, Staged):
        gone = min(max(m - n + 1, 0), m)  # what was divided away
    else:
        large = ~np.isclose(known("polydiv", rest), 0, rtol=1e-14)
        gone = int(np.flatnonzero(large)[0]) if large.any() else m
    return q, getitem(rest, slice(gone, None))


@function
def polyder(p: Any, m: int = 1) -> Any:
    m, p = operator.index(m), array(p)
    if m < 0:
        raise ValueError(f"`polyder` needs an order of 0 or more, got m={m}; see polyint")
    if ndim_of(p) == 0:
        raise TypeError("`polyder` needs coefficients, got one number")
    for _ in range(min(m, shape_of(p)[0])):  # then nothing is left
        p = getitem(p, slice(None, -1)) * np.arange(shape_of(p)[0] - 1, 0, -1)
    return p


@function
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    m, p = operator.index(m), array(p)
    if m < 0:
        raise ValueError(f"`polyint` needs an order of 0 or more, got m={m}; see polyder")
    k = np.zeros(m) if k is None else atleast_1d(array(k))
    if shape_of(k)[0] == 1 and m > 1:
        k = getitem(k, 0) * np.ones(m)
    if shape_of(k)[0] < m:
        raise ValueError(f"`polyint` needs {m} constants of integration, got {shape_of(k)[0]}")
    if ndim_of(p) == 0:
        raise TypeError("`polyint` needs coefficients, got one number")
    for j in range(m):
        powers = np.arange(shape_of(p)[0], 0, -1)
        p = concatenate([P.divide(p, powers), getitem(k, slice(j, j + 1))])
    return p


@function
def poly(seq_of_zeros: Any) -> Any:
    """The polynomial with these zeros, or the characteristic polynomial of a matrix."""
    zeros = atleast_1d(array(seq_of_zeros))
    shape, is_real = shape_of(zeros), dtype_of(zeros).kind != "c"
    if len(shape) == 2 and shape[0] == shape[1] and shape[0]:
        zeros = FUNCTIONS["linalg.eigvals"](zeros)
    elif len(shape) != 1:
        raise ShapeError(f"`poly` needs zeros or a square matrix, got shape {shape}")
    else:
        is_real = False  # as they are given
        zeros = zeros if dtype_of(zeros).kind in "fc" else astype(zeros, float)
    if not shape_of(zeros)[0]:
        return 1.0
    p = np.ones(1, dtype_of(zeros))
    for k in range(shape_of(zeros)[0]):  # times (x − zero)
        longer, shifted = ((0, k + 1, 1),), ((1, k + 2, 1),)
        moved = P.unslice(p * getitem(zeros, k), spec=shifted, shape=(k + 2,))
        p = P.unslice(p, spec=longer, shape=(k + 2,)) - moved
    if dtype_of(p).kind == "c" and not is_real and not isinstance(zeros, Staged):
        value = known("poly", zeros)
        is_real = bool(np.all(np.sort(value) == np.sort(value.conj())))
    return P.real(p) if dtype_of(p).kind == "c" and is_real else p


@function
def roots(p: Any) -> Any:
    """Eigenvalues of the companion matrix; their derivative exists where no root is repeated."""
    p = _row("roots", p)
    n = shape_of(p)[0]
    if isinstance(p, Staged):
        start, stop = 0, n
    else:
        found = np.flatnonzero(known("roots", p))
        if not found.size:
            return Tensor(np.zeros(0))
        start, stop = int(found[0]), int(found[-1]) + 1
    p = floating(getitem(p, slice(start, stop)))
    kind = dtype_of(p)
    if stop - start < 2:
        return Tensor(np.zeros(n - stop))
    first = getitem(p, slice(1, None)) / -getitem(p, 0)
    below = np.eye(stop - start - 1, dtype=kind)[:-1]
    companion = concatenate([getitem(first, (None, slice(None))), below])
    w = P.eigvals(companion)
    if kind.kind != "c" and not isinstance(w, Staged) and not np.any(np.imag(known("roots", w))):
        w = P.real(w)  # NumPy's, too, are real if all of them are
    return concatenate([w, np.zeros(n - stop, dtype_of(w))]) if n > stop else w


@function
def polyfit(
    x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """By least squares, of columns scaled to length 1."""
    order = operator.index(deg) + 1
    x, y = array(x) + 0.0, array(y) + 0.0
    if order < 1:
        raise ValueError(f"`polyfit` needs a degree of 0 or more, got {deg}")
    if ndim_of(x) != 1 or not shape_of(x)[0]:
        raise TypeError(f"`polyfit` needs points x of rank 1, at least one; got {shape_of(x)}")
    if ndim_of(y) not in (1, 2) or shape_of(y)[0] != shape_of(x)[0]:
        raise TypeError(f"`polyfit` got {shape_of(y)} for y at {shape_of(x)[0]} points")
    n = shape_of(x)[0]
    rcond = n * float(np.finfo(dtype_of(x)).eps) if rcond is None else rcond
    A, b = FUNCTIONS["vander"](x, order), y
    if w is not None:
        w = array(w) + 0.0
        if shape_of(w) != (n,):
            raise TypeError(f"`polyfit` needs {n} weights, got shape {shape_of(w)}")
        column = getitem(w, (slice(None), None))
        A, b = A * column, b * (column if ndim_of(b) == 2 else w)
    scale = P.sqrt(P.sum(A * A, axis=(0,), keepdims=False))
    A = A / scale
    c, residuals, rank, s = FUNCTIONS["linalg.lstsq"](A, b, rcond)
    scale = scale if ndim_of(c) == 1 else getitem(scale, (slice(None), None))
    c = c / scale
    if not full and not isinstance(rank, Staged) and int(rank) != order:
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=2)
    if full:
        return c, residuals, rank, s, rcond
    if not cov:
        return c
    scale = scale if ndim_of(scale) == 1 else getitem(scale, (slice(None), 0))
    V = P.inv(matmul(matrix_transpose(A), A)) / P.multiply(
        getitem(scale, (slice(None), None)), scale
    )
    if cov != "unscaled":
        if n <= order:
            raise ValueError(f"`polyfit` needs more than {order} points to scale the covariance")
        factor = residuals / (n - order)
        V = V * factor if ndim_of(y) == 1 else getitem(V, (Ellipsis, None)) * factor
    elif ndim_of(y) == 2:
        V = getitem(V, (Ellipsis, None)) * 1
    return c, V
