"""Reductions over axes. `axis` is a tuple of non-negative ints; the public functions normalise it.

Ties of max and min share the derivative equally. The 2-norm has derivative 0 at 0.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..ir import Type
from ..operators import Diagonal, Mask, Product, RealPart, SumAxes
from ..operators.broadcast import reduced_shape
from ..primitive import primitive
from .batching import over_axes
from .elementwise import is_complex, ratio, share

_sum: Any = np.add.reduce


def _reduction(name: str, run: Any, block: Any, **row: Any) -> Any:
    """A row whose output has the reduced shape and the dtype NumPy gives."""

    def rule(a: Type, *, axis: Any, keepdims: bool) -> Type:
        sample = run(np.ones((1,) * a.ndim, a.dtype), axis=axis, keepdims=keepdims)
        return Type(reduced_shape(a.shape, axis, keepdims), sample.dtype)

    blocks = None if block is None else (block,)
    return primitive(name, run, blocks=blocks, type=rule, batch=over_axes, **row)


def kept(y: Any, shape: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    """y with its reduced axes back as ones."""
    return np.reshape(y, reduced_shape(shape, axis, True))


def product_of_others(a: Any, axis: tuple[int, ...]) -> Any:
    """At every place the product of all other entries along `axis`: right also where entries are 0.

    The product of what stands before times the product of what stands after.
    """
    rest = tuple(k for k in range(a.ndim) if k not in axis)
    order = rest + axis
    moved = np.transpose(a, order)
    flat = np.reshape(moved, (*[a.shape[k] for k in rest], -1)) if a.size else moved
    if not a.size:
        return a
    ones = np.ones_like(flat[..., :1])
    before = np.concatenate([ones, np.cumprod(flat[..., :-1], axis=-1)], axis=-1)
    after = np.flip(np.cumprod(np.flip(flat[..., 1:], -1), axis=-1), -1)
    others = before * np.concatenate([after, ones], axis=-1)
    return np.transpose(np.reshape(others, moved.shape), tuple(int(k) for k in np.argsort(order)))


def _d_prod(y: Any, a: Any, axis: tuple[int, ...]) -> Any:
    """The product of all others; the whole over each, where known numbers say that this is accurate."""
    if type(a) is np.ndarray and a.dtype.kind == "f" and _is_well_scaled(y):
        return kept(y, a.shape, axis) / a
    return product_of_others(a, axis)


def _is_well_scaled(y: Any) -> bool:
    """Whether numbers are neither 0 nor infinite, nor so small that they lost digits."""
    low, high = _well_scaled(y.dtype)
    if not y.shape:
        return low < abs(float(y)) < high
    size = np.abs(y)
    return bool(np.all((size > low) & (size < high)))


@cache
def _well_scaled(dtype: np.dtype[Any]) -> tuple[float, float]:
    limits = np.finfo(dtype)
    return float(limits.tiny / limits.eps), float(limits.max)


def _extremum_block(y: Any, a: Any, axis: Any, keepdims: bool) -> Any:
    winners = np.equal(a, kept(y, a.shape, axis))
    total = SumAxes(a, axis, keepdims)
    if type(winners) is np.ndarray and len(axis) == a.ndim and np.count_nonzero(winners) == 1:
        return Product([total, Mask(winners)])
    count = total.apply(winners.astype(a.dtype))
    return Product([Diagonal(1 / count), total, Mask(winners)])


def first_place(y: Any, a: Any, axis: tuple[int, ...]) -> tuple[Any, Any]:
    """The number of the first entry along `axis` that equals the maximum y, and all their numbers.

    A NaN is the largest of all."""
    sizes = [a.shape[k] if k in axis else 1 for k in range(a.ndim)]
    n = int(np.prod(sizes))
    dtype = np.int32 if n < 2**31 else np.int64  # in vector registers as wide as the entries
    numbers = np.arange(n, dtype=dtype).reshape(sizes)
    found = np.equal(a, kept(y, a.shape, axis))
    if a.dtype.kind in "fc":
        found = np.logical_or(found, np.isnan(a))
    numbered = np.where(found, numbers, np.asarray(n, dtype))
    return np.min(numbered, axis=axis, keepdims=True), numbers


def _first_block(y: Any, a: Any, axis: Any, keepdims: bool) -> Any:
    first, numbers = first_place(y, a, axis)
    return Product([SumAxes(a, axis, keepdims), Mask(np.equal(numbers, first))])


def _run_logsumexp(a: Any, *, axis: Any, keepdims: bool) -> Any:
    top = np.maximum.reduce(np.real(a), axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        out = np.log(np.add.reduce(np.exp(a - top), axis=axis, keepdims=True)) + top
    return out if keepdims else np.reshape(out, reduced_shape(np.shape(a), axis, False))[()]


def _run_norm(a: Any, *, axis: Any, keepdims: bool) -> Any:
    if a.dtype.kind == "f":
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            squared = _sum(np.square(a), axis=axis, keepdims=keepdims)
        if _is_well_scaled(squared):  # nothing overflowed, and nothing that matters underflowed
            return np.sqrt(squared)
    magnitude = np.abs(a)
    top = np.maximum.reduce(magnitude, axis=axis, keepdims=True, initial=0)
    top = np.where((top > 0) & np.isfinite(top), top, 1)  # scaled: no overflow, no underflow
    out = top * np.sqrt(np.add.reduce(np.square(magnitude / top), axis=axis, keepdims=True))
    return out if keepdims else np.reshape(out, reduced_shape(np.shape(a), axis, False))[()]


def _norm_block(y: Any, a: Any, axis: Any, keepdims: bool) -> Any:
    if type(a) is np.ndarray and a.dtype.kind == "f" and 8 * y.size <= a.size:
        inverse = 1 / y
        if _is_well_scaled(y) and _is_well_scaled(inverse):
            # dy = (Σ a da) / y, where known numbers say that 1 / y is accurate: no quotient of each entry
            return Product([Diagonal(inverse), SumAxes(a, axis, keepdims), Diagonal(a)])
    direction = ratio(a, kept(y, a.shape, axis))
    if not is_complex(a):
        return Product([SumAxes(a, axis, keepdims), Diagonal(direction)])
    t = Type(a.shape, a.dtype)
    real = RealPart(t)
    return Product(
        [SumAxes(real.out_type, axis, keepdims), real, Diagonal(np.conjugate(direction), t)]
    )


sum = _reduction(
    "sum",
    np.add.reduce,
    lambda A, *, axis, keepdims: SumAxes(A, axis, keepdims),
    text="Σ {0}",
    code="np.sum({0}, axis={axis}, keepdims={keepdims})",
)
prod = _reduction(
    "prod",
    np.multiply.reduce,
    lambda y, a, *, axis, keepdims: Product(
        [SumAxes(a, axis, keepdims), Diagonal(_d_prod(y, a, axis))]
    ),
    code="np.prod({0}, axis={axis}, keepdims={keepdims})",
)
max = _reduction(
    "max",
    np.maximum.reduce,
    lambda y, a, *, axis, keepdims: _extremum_block(y, a, axis, keepdims),
    code="np.max({0}, axis={axis}, keepdims={keepdims})",
)
# the maximum of a window in a network: all of it belongs to the first of several equal entries
first_max = _reduction(
    "first_max",
    np.maximum.reduce,
    lambda y, a, *, axis, keepdims: _first_block(y, a, axis, keepdims),
)
min = _reduction(
    "min",
    np.minimum.reduce,
    lambda y, a, *, axis, keepdims: _extremum_block(y, a, axis, keepdims),
    code="np.min({0}, axis={axis}, keepdims={keepdims})",
)
logsumexp = _reduction(
    "logsumexp",
    _run_logsumexp,
    lambda y, a, *, axis, keepdims: Product(
        [SumAxes(a, axis, keepdims), Diagonal(share(a, kept(y, a.shape, axis)))]
    ),
    code="special.logsumexp({0}, axis={axis}, keepdims={keepdims})",
)
norm = _reduction(
    "norm",
    _run_norm,
    lambda y, a, *, axis, keepdims: _norm_block(y, a, axis, keepdims),
    code="np.linalg.norm({0}, axis={axis}, keepdims={keepdims})",
)
any = _reduction(
    "any", np.logical_or.reduce, None, code="np.any({0}, axis={axis}, keepdims={keepdims})"
)
all = _reduction(
    "all", np.logical_and.reduce, None, code="np.all({0}, axis={axis}, keepdims={keepdims})"
)
argmax = primitive(
    "argmax",
    lambda a, *, axis: np.argmax(a, axis=axis),
    type=lambda a, *, axis: Type(reduced_shape(a.shape, (axis,), False), np.dtype(np.intp)),
    batch=over_axes,
    code="np.argmax({0}, axis={axis})",
)
argmin = primitive(
    "argmin",
    lambda a, *, axis: np.argmin(a, axis=axis),
    type=lambda a, *, axis: Type(reduced_shape(a.shape, (axis,), False), np.dtype(np.intp)),
    batch=over_axes,
    code="np.argmin({0}, axis={axis})",
)
