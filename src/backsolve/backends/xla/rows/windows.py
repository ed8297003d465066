"""Windows of an array, and windows added back where they were taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ....ir import Shape
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
    y = jnp.zeros(shape, t.dtype)
    if not t.size:
        return y
    for k in np.ndindex(cut.size):
        part = among_zeros(t[(..., *k)], cut.places(k, shape), shape)
        y = y | part if t.dtype == bool else y + part
    return y


def among_zeros(part: Any, places: Sequence[slice], shape: Shape) -> Any:
    """An array of this shape with the entries of the part in their places."""
    padding = []
    for key, n in zip(places, shape, strict=True):
        start, stop, step = key.indices(n)
        last = start + (len(range(start, stop, step)) - 1) * step
        padding.append((start, n - last - 1, step - 1))
    return lax.pad(part, jnp.zeros((), part.dtype), padding)
