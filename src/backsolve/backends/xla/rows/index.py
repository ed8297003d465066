"""Index arrays: read, added, written. An index that is out of range fails the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ....operators.gather import line_axis
from .base import row


def _checked(m: Any, e: Any, indices: Sequence[Any], first: int, shape: Any) -> tuple[Any, ...]:
    """Indices counted from 0; the run fails where one is out of range."""
    found: list[Any] = []
    for axis, index in enumerate(indices):
        size = shape[axis]
        known = m.number(e.inputs[first + axis])
        if known is not None:
            known = np.asarray(known)
            if known.size and (known.min() < -size or known.max() >= size):
                m.fail_if(True, IndexError, _said(axis, size), e.where)
                known = np.zeros_like(known)
            if known.nbytes <= 1 << 12:
                found.append(np.where(known < 0, known + size, known))
                continue
        i = jnp.asarray(index).astype(jnp.int64)
        if known is None and not m.unsafe:
            m.fail_if(jnp.any((i < -size) | (i >= size)), IndexError, _said(axis, size), e.where)
        found.append(jnp.where(i < 0, i + size, i))
    return tuple(found)


def _said(axis: int, size: int) -> str:
    return f"an index is out of bounds for axis {axis} with size {size}"


@row("gather")
def gather(m: Any, e: Any, inputs: Any) -> Any:
    a, *indices = inputs
    a = jnp.asarray(a)
    return a.at[_checked(m, e, indices, 1, a.shape)].get(mode="clip")


@row("scatter_add")
def scatter_add(m: Any, e: Any, inputs: Any) -> Any:
    t, *indices = inputs
    t, shape = jnp.asarray(t), e.params["shape"]
    known = [m.number(a) for a in e.inputs[1:]]
    axis = line_axis(known, [np.shape(i) for i in indices], shape)
    if axis is not None:
        return _one_a_line(m, e, t, indices, shape, axis)
    places = jnp.zeros(shape, t.dtype).at[_checked(m, e, indices, 1, shape)]
    return places.max(t, mode="drop") if t.dtype == bool else places.add(t, mode="drop")


def _one_a_line(m: Any, e: Any, t: Any, indices: Sequence[Any], shape: Any, axis: int) -> Any:
    """One entry in each line along an axis, by comparing: that fuses with what reads it, scatters do not."""
    places = jnp.asarray(_checked(m, e, indices, 1, shape)[axis]).astype(jnp.int32)
    lines = shape[:axis] + shape[axis + 1 :]
    at = lax.broadcasted_iota(jnp.int32, shape, axis) == jnp.expand_dims(
        jnp.broadcast_to(places, lines), axis
    )
    entries = jnp.expand_dims(jnp.broadcast_to(t, lines), axis)
    return jnp.where(at, entries, jnp.zeros((), t.dtype))


@row("scatter_set")
def scatter_set(m: Any, e: Any, inputs: Any) -> Any:
    """The last of several writes to one place counts; XLA has no order, so the others are left out."""
    a, v, *indices = inputs
    a, v = (jnp.asarray(x).astype(m.dtype(e.outputs[0])) for x in (a, v))
    places = _checked(m, e, indices, 2, a.shape)
    common = np.broadcast_shapes(*[np.shape(i) for i in places])
    if not common or _are_distinct(places, common):
        return a.at[places].set(v, mode="drop")
    numbers = jnp.arange(int(np.prod(common)), dtype=jnp.int64).reshape(common)
    last = jnp.full(a.shape[: len(places)], -1, jnp.int64).at[places].max(numbers, mode="drop")
    counts = last.at[places].get(mode="clip") == numbers
    first = jnp.where(counts, places[0], a.shape[0])
    return a.at[(first, *places[1:])].set(v, mode="drop")


def _are_distinct(places: Sequence[Any], common: Any) -> bool:
    if not all(isinstance(i, np.ndarray) for i in places):
        return False
    rows = np.stack([np.broadcast_to(i, common).ravel() for i in places])
    return np.unique(rows, axis=1).shape[1] == rows.shape[1]


@row("check")
def check(m: Any, e: Any, inputs: Any) -> Any:
    m.may_fail(e.params["messages"])
    m.note(inputs[0])
    return jnp.int64(0)
