"""Windows of an array, and windows added back where they were taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ....ir import Shape
from ....operators.windows import Cut
from .base import is_half, plain


@plain("windows")
def windows(a: Any, *, cut: Any) -> Any:
    shape = cut.shape(a.shape)
    if not np.prod(shape):
        return jnp.zeros(shape, a.dtype)
    parts = [a[cut.places(k, a.shape)] for k in np.ndindex(cut.size)]
    return jnp.reshape(jnp.stack(parts, -1), shape)


@plain("fold")
def fold(t: Any, *, cut: Any, shape: Any) -> Any:
    if is_half(t):
        t = t.astype(jnp.float32)
    if not t.size:
        return jnp.zeros(shape, t.dtype)
    return put_back(cut, shape, lambda k: t[(..., *k)])


def put_back(cut: Cut, shape: Shape, part: Callable[[tuple[int, ...]], Any]) -> Any:
    """An array of this shape: part(k), the entries number k of all windows, each added where it was taken.

    Places step·i + dilation·k with different rests by the step never meet: each kind is added up alone,
    so that an entry is the sum of a few parts, not of all. Of truths it is whether one is true.
    """
    steps, counts = [1] * len(shape), list(shape)
    for axis, step in zip(cut.axes, cut.step, strict=True):
        steps[axis], counts[axis] = step, -(-shape[axis] // step)
    kinds: dict[tuple[int, ...], Any] = {}
    for k in np.ndindex(cut.size):
        a = part(k)
        rests, padding = [0] * len(shape), [(0, 0, 0)] * len(shape)
        for axis, at, step, dilation in zip(cut.axes, k, cut.step, cut.dilation, strict=True):
            before, rests[axis] = divmod(at * dilation, step)
            padding[axis] = (before, counts[axis] - before - a.shape[axis], 0)
        _add(kinds, tuple(rests), _padded(a, padding))
    total: dict[None, Any] = {}
    for rests_, a in kinds.items():
        places = zip(rests_, counts, steps, shape, strict=True)
        padding = [(r, n - r - (count - 1) * step - 1, step - 1) for r, count, step, n in places]
        _add(total, None, _padded(a, padding))
    return total[None]


def _padded(a: Any, padding: Any) -> Any:
    return lax.pad(a, jnp.zeros((), a.dtype), padding)


def _add(sums: dict[Any, Any], to: Any, a: Any) -> None:
    had = sums.get(to)
    sums[to] = a if had is None else had | a if a.dtype == bool else had + a
