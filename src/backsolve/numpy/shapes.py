"""Shapes: everything here is linear and moves entries only."""

from __future__ import annotations

import builtins
from math import prod
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError
from ..primitive import FUNCTIONS, P
from ..taken_away import check_solved
from ..tensor import Tensor
from ._register import (
    Casting,
    all_axes,
    array,
    dtype_of,
    function,
    integers,
    ndim_of,
    one_axis,
    shape_of,
    size_of,
)
from .indexing import getitem


@function
def reshape(
    a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None
) -> Any:
    a = array(a)
    target = tuple(integers(newshape if shape is None else shape))
    size = size_of(a)
    if -1 in target:
        known = -prod(target)
        if target.count(-1) > 1 or known <= 0 or size % known:
            raise ShapeError(f"`reshape` cannot bring {shape_of(a)} to {target}")
        target = tuple([size // known if s == -1 else s for s in target])
    if size != prod(target):
        raise ShapeError(
            f"`reshape` cannot bring {shape_of(a)} ({size} entries) to {target} "
            f"({prod(target)} entries)"
        )
    if order == "F":
        return transpose(P.reshape(transpose(a), shape=target[::-1]))
    if order not in ("C", "A", "K"):
        raise ValueError(f"`reshape` knows the orders 'C' and 'F', got {order!r}")
    return P.reshape(a, shape=target)


@function
def ravel(a: Any, order: str = "C") -> Any:
    return reshape(a, size_of(a), order)


@function
def transpose(a: Any, axes: Any = None) -> Any:
    n = ndim_of(a)
    if axes is None:
        return P.permute(array(a), axes=tuple(range(n - 1, -1, -1)))
    axes = tuple([one_axis(k, n) for k in integers(axes)])
    if sorted(axes) != list(range(n)):
        raise ShapeError(f"`transpose` needs a permutation of the {n} axes, got {axes}")
    return P.permute(array(a), axes=axes)


FUNCTIONS["permute_dims"] = transpose


@function
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    order = list(range(ndim_of(a)))
    i, j = one_axis(axis1, len(order)), one_axis(axis2, len(order))
    order[i], order[j] = order[j], order[i]
    return P.permute(array(a), axes=tuple(order))


@function
def matrix_transpose(x: Any, /) -> Any:
    if ndim_of(x) < 2:
        raise ShapeError(f"`matrix_transpose` needs rank 2 or more, got shape {shape_of(x)}")
    return swapaxes(x, -1, -2)


@function
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    n = ndim_of(a)
    if source is None or destination is None:
        raise TypeError("`moveaxis` needs the axes to move and where to, got None")
    sources, targets = all_axes(source, n), all_axes(destination, n)
    if len(sources) != len(targets):
        raise ShapeError(
            f"`moveaxis` needs as many sources as destinations, got {source} and {destination}"
        )
    order = [k for k in range(n) if k not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return P.permute(array(a), axes=tuple(order))


@function
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    n = ndim_of(a)
    axis, start = one_axis(axis, n), one_axis(start, n + 1)
    return moveaxis(a, axis, start - 1 if axis < start else start)


@function
def expand_dims(a: Any, axis: Any) -> Any:
    added = tuple(integers(axis))
    n = ndim_of(a) + len(added)
    axes = all_axes(added, n)
    rest = iter(shape_of(a))
    return P.reshape(array(a), shape=tuple([1 if k in axes else next(rest) for k in range(n)]))


@function
def squeeze(a: Any, axis: Any = None) -> Any:
    shape = shape_of(a)
    axes = (
        [k for k, s in enumerate(shape) if s == 1] if axis is None else all_axes(axis, len(shape))
    )
    if builtins.any([shape[k] != 1 for k in axes]):
        raise ShapeError(f"`squeeze` needs axes of length 1: axes {tuple(axes)} of shape {shape}")
    return P.reshape(array(a), shape=tuple([s for k, s in enumerate(shape) if k not in axes]))


@function
def broadcast_to(array_: Any, /, shape: Any, subok: bool = False) -> Any:
    return P.broadcast_to(array(array_), shape=tuple(integers(shape)))


@function
def broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    shape = np.broadcast_shapes(*[shape_of(a) for a in args])
    return tuple(broadcast_to(a, shape) for a in args)


def _each(reshaped: Any, arys: tuple[Any, ...]) -> Any:
    done = [P.reshape(array(a), shape=reshaped(shape_of(a))) for a in arys]
    return done[0] if len(done) == 1 else tuple(done)


@function
def atleast_1d(*arys: Any) -> Any:
    for x in arys:
        if isinstance(x, Tensor):
            check_solved(x)
    return _each(lambda shape: shape or (1,), arys)


@function
def atleast_2d(*arys: Any) -> Any:
    return _each(lambda shape: (1,) * (2 - len(shape)) + shape, arys)


@function
def atleast_3d(*arys: Any) -> Any:
    """A vector goes to the middle, a matrix to the front."""
    targets = {0: lambda s: (1, 1, 1), 1: lambda s: (1, *s, 1), 2: lambda s: (*s, 1)}
    return _each(lambda shape: targets.get(len(shape), lambda s: s)(shape), arys)


@function
def flip(m: Any, axis: Any = None) -> Any:
    axes = all_axes(axis, ndim_of(m))
    key = tuple(slice(None, None, -1 if k in axes else None) for k in range(ndim_of(m)))
    return getitem(array(m), key)


@function
def fliplr(m: Any) -> Any:
    return flip(m, 1)


@function
def flipud(m: Any) -> Any:
    return flip(m, 0)


@function
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    i, j = all_axes(tuple(axes), ndim_of(m))
    k %= 4
    if k % 2:
        m = flip(m, j if k == 1 else i)
        return swapaxes(m, i, j)
    return flip(m, (i, j)) if k == 2 else getitem(m, Ellipsis)


@function
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    a = array(a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), shape_of(a))
    pairs = np.broadcast(np.asarray(shift), np.asarray(integers(axis)))
    if pairs.ndim > 1:
        raise ShapeError("`roll` needs shift and axis to be numbers or flat sequences")
    for s, k in pairs:
        k = one_axis(k, ndim_of(a))
        n = shape_of(a)[k]
        at = int(s) % n if n else 0
        if at:
            full = (slice(None),) * k
            ends = [getitem(a, (*full, slice(n - at, n))), getitem(a, (*full, slice(0, n - at)))]
            a = FUNCTIONS["concatenate"](ends, k)
    return a


def _below(a: Any, k: int) -> Any:
    """Where a matrix (a vector counts as its rows) lies on or below its k-th diagonal."""
    shape = shape_of(a)
    if not shape:
        raise DTypeError("`tril` and `triu` need an array, got one number")
    return np.tri(shape[-2] if len(shape) > 1 else shape[-1], shape[-1], k, dtype=bool)


@function
def tril(m: Any, k: int = 0) -> Any:
    m = array(m)
    return P.where(_below(m, k), m, np.zeros((), dtype_of(m)))


@function
def triu(m: Any, k: int = 0) -> Any:
    m = array(m)
    return P.where(_below(m, k - 1), np.zeros((), dtype_of(m)), m)


@function
def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    return np.result_type(*[_dtype_or(x) for x in arrays_and_dtypes])


@function
def can_cast(from_: Any, to: Any, casting: Casting = "safe") -> bool:
    if casting not in ("no", "equiv", "safe", "same_kind", "unsafe"):
        raise DTypeError(f"`can_cast` does not know casting={casting!r}")
    return np.can_cast(_dtype_or(from_), to, casting)


def _dtype_or(x: Any) -> Any:
    return x.dtype if hasattr(x, "_known") else x
