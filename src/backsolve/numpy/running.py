"""`ufunc.accumulate` and `ufunc.reduce` of associative functions by doubling: log₂ n steps on whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitive import FUNCTIONS, P
from ..tensor import Staged
from ._register import all_axes, array, ndim_of, one_axis, shape_of
from .indexing import getitem, take_along_axis

# (a ∘ b) ∘ c = a ∘ (b ∘ c)
ASSOCIATIVE = {
    *(np.logaddexp, np.logaddexp2, np.hypot, np.fmax, np.fmin, np.gcd, np.lcm),
    *(np.bitwise_and, np.bitwise_or, np.bitwise_xor),
    *(np.logical_and, np.logical_or, np.logical_xor),
}


def accumulated(ufunc: np.ufunc, a: Any, axis: int) -> Any:
    """y_i = a_0 ∘ … ∘ a_i: each step joins a window with the one of the same length before it."""
    a = array(a)
    axis = one_axis(axis, ndim_of(a))
    y, step, n = a, 1, shape_of(a)[axis]
    while step < n:
        joined = ufunc(_part(y, axis, 0, n - step), _part(y, axis, step, n))
        y = FUNCTIONS["concatenate"]([_part(y, axis, 0, step), joined], axis)
        step *= 2
    return y


def reduced(ufunc: np.ufunc, a: Any, axis: Any, keepdims: bool) -> Any:
    """a_0 ∘ a_1 ∘ …, neighbours first."""
    a = array(a)
    axes = all_axes(axis, ndim_of(a))
    for k in axes:
        n = shape_of(a)[k]
        while n > 1:
            pairs = ufunc(_part(a, k, 0, n - 1, 2), _part(a, k, 1, n, 2))
            a = pairs if n % 2 == 0 else FUNCTIONS["concatenate"]([pairs, _part(a, k, n - 1, n)], k)
            n = shape_of(a)[k]
    return a if keepdims else FUNCTIONS["squeeze"](a, axes)


def running_extremum(ufunc: np.ufunc, a: Any, axis: int) -> Any:
    """The largest (smallest) entry so far: a reading at the place where it stood last."""
    axis = one_axis(axis, ndim_of(a))
    n = shape_of(a)[axis]
    numbers = np.arange(n).reshape([-1 if k == axis else 1 for k in range(ndim_of(a))])
    if not isinstance(a, Staged):
        value = a._known("its order")
        best = ufunc.accumulate(value, axis)
        fresh = np.where((value == best) | np.isnan(value), numbers, 0)
        return take_along_axis(a, np.maximum.accumulate(fresh, axis), axis)
    beats = np.greater_equal if ufunc is np.maximum else np.less_equal
    best, place = P.detach(a), P.broadcast_to(numbers, shape=shape_of(a))
    step = 1
    while step < n:
        before, here = _part(best, axis, 0, n - step), _part(best, axis, step, n)
        wins = beats(here, before) | np.isnan(here)
        chosen = [
            np.where(wins, _part(x, axis, step, n), _part(x, axis, 0, n - step))
            for x in (best, place)
        ]
        best, place = (
            FUNCTIONS["concatenate"]([_part(x, axis, 0, step), c], axis)
            for x, c in zip((best, place), chosen, strict=True)
        )
        step *= 2
    return take_along_axis(a, place, axis)


def _part(a: Any, axis: int, start: int, stop: int, step: int = 1) -> Any:
    return getitem(a, (*[slice(None)] * axis, slice(start, stop, step)))
