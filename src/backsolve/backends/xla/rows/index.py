"""Index arrays: read, added, written. An index that is out of range fails the run."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ....operators.gather import line_axis
from .base import row

# `checked` counts from 0. Out of range, XLA reads the nearest entry and writes none.
_THERE: dict[str, Any] = {"mode": "promise_in_bounds", "wrap_negative_indices": False}
_LEFT_OUT: dict[str, Any] = {"mode": "drop", "wrap_negative_indices": False}


def checked(m: Any, e: Any, indices: Sequence[Any], first: int, shape: Any) -> tuple[Any, ...]:
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
        if known is None or known.min() < 0:
            i = jnp.where(i < 0, i + size, i)
        found.append(i if size >= 1 << 31 else i.astype(jnp.int32))
    return tuple(found)


def _said(axis: int, size: int) -> str:
    return f"an index is out of bounds for axis {axis} with size {size}"


@row("gather")
def gather(m: Any, e: Any, inputs: Any) -> Any:
    a, *indices = inputs
    a = jnp.asarray(a)
    places = checked(m, e, indices, 1, a.shape)
    if not a.size:  # there is no place to read: nothing is asked for, or the run fails
        return jnp.zeros(e.outputs[0].shape, a.dtype)
    if _is_one(places) and e.inputs[0] in m.written:
        return jnp.reshape(_read(m, e.inputs[0], a, places)[0], a.shape[len(places) :])
    return a.at[places].get(**_THERE)


@row("scatter_add")
def scatter_add(m: Any, e: Any, inputs: Any) -> Any:
    t, *indices = inputs
    t, shape = jnp.asarray(t), e.params["shape"]
    known = [m.number(a) for a in e.inputs[1:]]
    axis = line_axis(known, [np.shape(i) for i in indices], shape)
    if axis is not None:
        return _one_a_line(m, e, t, indices, shape, axis)
    if m.on_gpu and _are_few(t, len(indices), shape):
        return _by_comparing(t, checked(m, e, indices, 1, shape), shape)
    return add_at(m, None, jnp.zeros(shape, t.dtype), t, checked(m, e, indices, 1, shape))


def add_at(m: Any, whole: Any, a: Any, t: Any, places: Sequence[Any]) -> Any:
    """a, the value of `whole`, with t added at places, which may come several times; truths by `or`."""
    if whole in m.written and _is_one(places):
        old, starts = _read(m, whole, a, places)
        new = jnp.reshape(t, old.shape)
        starts[0] += m.after_reading(whole)
        return lax.dynamic_update_slice(a, old | new if a.dtype == bool else old + new, starts)
    at = a.at[tuple(places)]
    return at.max(t, **_LEFT_OUT) if a.dtype == bool else at.add(t, **_LEFT_OUT)


def _is_one(places: Sequence[Any]) -> bool:
    """Whether the indices are numbers: one place, which XLA reads and writes without a loop."""
    return all(np.ndim(i) == 0 for i in places)


def _block(a: Any, places: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Where the block begins that numbers index, and its sizes."""
    rest = a.ndim - len(places)
    starts = [jnp.asarray(i, jnp.int64) for i in (*places, *[0] * rest)]
    return starts, [1] * len(places) + list(a.shape[len(places) :])


def _read(m: Any, whole: Any, a: Any, places: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The block of an array that the program writes, too, read once and before that; and where it begins."""
    starts, sizes = _block(a, places)
    read = lambda a, i, rest: (lax.dynamic_slice(a, [i, *rest], sizes), i)
    never = lambda a, i, rest: (jnp.zeros(sizes, a.dtype), i + 1)
    block, first = lax.cond(starts[0] >= 0, read, never, a, starts[0], starts[1:])
    m.note_reading(whole, first - starts[0])
    return block, starts


def _one_a_line(m: Any, e: Any, t: Any, indices: Sequence[Any], shape: Any, axis: int) -> Any:
    """One entry in each line along an axis, by comparing: that fuses with what reads it, scatters do not."""
    places = jnp.asarray(checked(m, e, indices, 1, shape)[axis]).astype(jnp.int32)
    lines = shape[:axis] + shape[axis + 1 :]
    at = lax.broadcasted_iota(jnp.int32, shape, axis) == jnp.expand_dims(
        jnp.broadcast_to(places, lines), axis
    )
    entries = jnp.expand_dims(jnp.broadcast_to(t, lines), axis)
    return jnp.where(at, entries, jnp.zeros((), t.dtype))


_FEW, _MANY = 128, 1 << 16  # places, and entries for them


def _are_few(t: Any, indices: int, shape: Any) -> bool:
    """Whether many entries go to few places, where those of a GPU would wait for each other."""
    return indices == len(shape) and prod(shape) <= _FEW and t.size >= _MANY and t.dtype != bool


def _by_comparing(t: Any, places: Sequence[Any], shape: Any) -> Any:
    """The sum of all entries for each place, found by comparing: one kernel, 5 to 100 times as fast there."""
    flat = sum(jnp.asarray(i) * prod(shape[k + 1 :]) for k, i in enumerate(places))
    flat, t = (a.reshape(-1, 1) for a in jnp.broadcast_arrays(flat, t))
    is_here = flat == lax.broadcasted_iota(flat.dtype, (1, prod(shape)), 1)
    return jnp.sum(jnp.where(is_here, t, 0), axis=0, dtype=t.dtype).reshape(shape)


@row("scatter_set")
def scatter_set(m: Any, e: Any, inputs: Any) -> Any:
    """The last of several writes to one place counts; XLA has no order, so the others are left out."""
    a, v, *indices = inputs
    a, v = (jnp.asarray(x).astype(m.dtype(e.outputs[0])) for x in (a, v))
    places = checked(m, e, indices, 2, a.shape)
    if _is_one(places):
        starts, sizes = _block(a, places)
        starts[0] += m.after_reading(e.inputs[0])
        block = jnp.broadcast_to(v, a.shape[len(places) :])
        return lax.dynamic_update_slice(a, jnp.reshape(block, sizes), starts)
    common = np.broadcast_shapes(*[np.shape(i) for i in places])
    if _are_distinct([m.number(i) for i in e.inputs[2:]], a.shape):
        return a.at[places].set(v, **_LEFT_OUT)
    numbers = jnp.arange(int(np.prod(common)), dtype=jnp.int64).reshape(common)
    last = jnp.full(a.shape[: len(places)], -1, jnp.int64).at[places].max(numbers, **_LEFT_OUT)
    counts = last.at[places].get(**_THERE) == numbers
    first = jnp.where(counts, places[0], a.shape[0])
    return a.at[(first, *places[1:])].set(v, **_LEFT_OUT)


def _are_distinct(numbers: Sequence[Any], shape: Any) -> bool:
    """Whether no place comes twice, as far as indices are known."""
    if any(i is None for i in numbers):
        return False
    counted = np.broadcast_arrays(
        *[np.asarray(i) % n for i, n in zip(numbers, shape, strict=False)]
    )
    flat = np.ravel_multi_index(counted, shape[: len(counted)])
    return np.unique(flat).size == flat.size


@row("check")
def check(m: Any, e: Any, inputs: Any) -> Any:
    m.may_fail(e.params["messages"])
    m.note(inputs[0])
    return jnp.int64(0)
