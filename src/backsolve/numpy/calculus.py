"""Differences, sums of areas, interpolation, convolution, polynomials, statistics."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError
from ..primitive import FUNCTIONS, P
from ..tensor import Staged
from ._register import (
    all_axes,
    array,
    dtype_of,
    function,
    ndim_of,
    one_axis,
    shape_of,
    size_of,
)
from .elementwise import astype
from .indexing import getitem, take
from .joining import concatenate
from .reductions import sum
from .shapes import flip, ravel, reshape


def _along(axis: int, start: Any, stop: Any) -> tuple[Any, ...]:
    return (*(slice(None),) * axis, slice(start, stop))


@function
def diff(
    a: Any, n: int = 1, axis: int = -1, prepend: Any = np._NoValue, append: Any = np._NoValue
) -> Any:
    a, n = array(a), operator.index(n)
    if n < 0:
        raise ValueError(f"`diff` needs a non-negative order, got n={n}")
    if n == 0:
        return a
    if ndim_of(a) == 0:
        raise ShapeError("`diff` needs rank 1 or more, got a scalar")
    axis = one_axis(axis, ndim_of(a))
    edge = tuple(1 if k == axis else s for k, s in enumerate(shape_of(a)))
    ends = [None if e is np._NoValue else array(e) for e in (prepend, append)]
    ends = [P.broadcast_to(e, shape=edge) if e is not None and not ndim_of(e) else e for e in ends]
    parts = [e for e in (ends[0], a, ends[1]) if e is not None]
    a = concatenate(parts, axis) if len(parts) > 1 else a
    minus = P.not_equal if dtype_of(a).kind == "b" else P.subtract
    for _ in range(min(n, shape_of(a)[axis])):  # then nothing is left
        a = minus(getitem(a, _along(axis, 1, None)), getitem(a, _along(axis, None, -1)))
    return a


@function
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    ary = array(ary)
    if dtype_of(ary).kind == "b":
        raise DTypeError("`ediff1d` has no differences of booleans; cast them first")
    parts = [to_begin, diff(ravel(ary)), to_end]
    return concatenate([astype(ravel(p), dtype_of(parts[1])) for p in parts if p is not None])


@function
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences inside, one-sided at the ends; spacings by a number or coordinates."""
    f = array(f)
    if dtype_of(f).kind == "b":
        raise DTypeError("`gradient` has no differences of booleans; cast them first")
    f = f if dtype_of(f).kind in "fc" else astype(f, float)
    axes = all_axes(axis, ndim_of(f))
    spacings = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    if len(spacings) != len(axes):
        raise TypeError(f"`gradient` got {len(varargs)} spacings for {len(axes)} axes")
    found = [_gradient_along(f, k, h, edge_order) for k, h in zip(axes, spacings, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _gradient_along(f: Any, k: int, h: Any, edge_order: int) -> Any:
    n = shape_of(f)[k]
    if n <= edge_order:
        raise ShapeError(
            f"`gradient` needs more than {edge_order} entries along axis {k} of {shape_of(f)}"
        )
    steps = diff(h) if ndim_of(h) else h * np.ones(n - 1)
    steps = reshape(steps, tuple(-1 if j == k else 1 for j in range(ndim_of(f))))
    slopes = diff(f, axis=k) / steps
    left, right = getitem(steps, _along(k, None, -1)), getitem(steps, _along(k, 1, None))
    before, after = getitem(slopes, _along(k, None, -1)), getitem(slopes, _along(k, 1, None))
    if ndim_of(h):
        inside = (right * before + left * after) / (left + right)
    else:
        inside = (getitem(f, _along(k, 2, None)) - getitem(f, _along(k, None, -2))) / (2 * h)
    first, last = getitem(slopes, _along(k, 0, 1)), getitem(slopes, _along(k, -1, None))
    if edge_order == 2:  # linear extrapolation of the slopes to the ends
        h0, h1 = (getitem(steps, _along(k, i, i + 1)) for i in (0, 1))
        g1, g0 = (getitem(steps, _along(k, n - 1 - i, n - i)) for i in (2, 1))
        s1, t1 = getitem(slopes, _along(k, 1, 2)), getitem(slopes, _along(k, n - 3, n - 2))
        first, last = first + (first - s1) * h0 / (h0 + h1), last + (last - t1) * g0 / (g0 + g1)
    return astype(concatenate([first, inside, last], k), dtype_of(f))


@function
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    y = array(y)
    axis = one_axis(axis, ndim_of(y))
    if x is not None:
        dx = diff(array(x), axis=-1 if ndim_of(x) == 1 else axis)
        if ndim_of(dx) == 1:
            dx = reshape(dx, tuple(-1 if j == axis else 1 for j in range(ndim_of(y))))
    pairs = getitem(y, _along(axis, 1, None)) + getitem(y, _along(axis, None, -1))
    return sum(dx * pairs / 2.0, axis=axis)


@function
def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Piecewise linear interpolation, differentiated in x, xp and fp."""
    if "c" in (dtype_of(array(x)).kind, dtype_of(array(xp)).kind):
        raise DTypeError("`interp` needs real `x` and `xp`, got complex numbers")
    x, xp = astype(array(x), float), astype(array(xp), float)
    fp = astype(array(fp), complex if dtype_of(array(fp)).kind == "c" else float)
    if ndim_of(xp) != 1 or shape_of(fp) != shape_of(xp) or not size_of(xp):
        raise ShapeError(f"`interp` needs points (xp, fp), got {shape_of(xp)} and {shape_of(fp)}")
    if period is not None:
        left = right = None
        x, xp, fp = _periodic(x, xp, fp, period)
    n = shape_of(xp)[0]
    i = P.clip(FUNCTIONS["searchsorted"](xp, x, "right") - 1, 0, max(n - 2, 0))
    j = P.minimum(i + 1, n - 1)
    x0, x1, f0, f1 = take(xp, i), take(xp, j), take(fp, i), take(fp, j)
    y = f0 + (x - x0) * ((f1 - f0) / (x1 - x0)) if n > 1 else f0
    first, last = getitem(xp, 0), getitem(xp, -1)
    y = P.where(P.less(x, first), getitem(fp, 0) if left is None else left, y)
    return P.where(P.greater(x, last), getitem(fp, -1) if right is None else right, y)


def _periodic(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """All within one period, the points in order, with one more at either end."""
    if not isinstance(period, Staged) and period == 0:
        raise ValueError("`interp` needs a period other than 0")
    period = P.absolute(array(period))
    x, xp = P.remainder(x, period), P.remainder(xp, period)
    order = P.argsort(xp, axis=0)
    xp, fp = take(xp, order), take(fp, order)
    first, last = slice(0, 1), slice(-1, None)
    xp = concatenate([getitem(xp, last) - period, xp, getitem(xp, first) + period])
    return x, xp, concatenate([getitem(fp, last), fp, getitem(fp, first)])


@function
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """Σ_k a[k] v[n−k]."""
    if ndim_of(a) > 1 or ndim_of(v) > 1:
        raise ShapeError(
            f"`convolve` needs two vectors, got shapes {shape_of(a)} and {shape_of(v)}"
        )
    a, v = ravel(array(a)), ravel(array(v))
    n, m = size_of(a), size_of(v)
    if not n or not m:
        raise ShapeError(f"`convolve` needs entries on both sides, got shapes {(n,)} and {(m,)}")
    if n < m:
        a, v, n, m = v, a, m, n
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"`convolve` knows the modes 'full', 'same' and 'valid', got {mode!r}")
    if mode != "same":
        return P.convolve(a, v, mode=mode)
    return getitem(P.convolve(a, v, mode="full"), slice((m - 1) // 2, (m - 1) // 2 + n))


@function
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    if ndim_of(a) != 1 or ndim_of(v) != 1:
        raise ShapeError(
            f"`correlate` needs two vectors, got shapes {shape_of(a)} and {shape_of(v)}"
        )
    v = flip(array(v))
    v = P.conjugate(v) if dtype_of(v).kind == "c" else v
    y = convolve(a, v, mode)
    short = size_of(a) < size_of(v) and mode == "same" and size_of(a) % 2 == 0
    if short:  # NumPy centres the window on the other operand
        whole = convolve(a, v, "full")
        start = size_of(a) // 2
        return getitem(whole, slice(start, start + size_of(v)))
    return y


@function
def polyval(p: Any, x: Any) -> Any:
    p, x = array(p), array(x)
    if ndim_of(p) == 0:
        raise DTypeError("`polyval` needs coefficients, got one number")
    y: Any = P.multiply(x, 0)
    for c in range(shape_of(p)[0]):
        y = y * x + getitem(p, c)
    return y
