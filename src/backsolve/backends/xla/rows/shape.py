"""Rows that move entries: shapes, slices, and what stands among zeros."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ....ir import is_uniform
from ....operators.slice import key_of
from .base import as_output, plain, row, spread

plain("reshape")(lambda a, *, shape: jnp.reshape(a, shape))
plain("permute")(lambda a, *, axes: jnp.transpose(a, axes))
plain("broadcast_to")(lambda a, *, shape: spread(a, shape))
plain("slice")(lambda a, *, spec: a[key_of(spec)])

_FEW_PARTS = 3


@row("concatenate")
def concatenate(m: Any, e: Any, inputs: Any) -> Any:
    parts, axis = as_output(m, e, inputs), e.params["axis"]
    if not m.on_gpu or len(parts) > _FEW_PARTS:
        return jnp.concatenate(parts, axis)
    return _side_by_side(parts, axis, e.outputs[0].shape)


def _side_by_side(parts: Any, axis: int, shape: Any) -> Any:
    """The same by choosing, entry by entry, which XLA fuses with what is computed beside it."""
    place = lax.broadcasted_iota(jnp.int32, shape, axis)
    y, begin = None, 0
    for a in parts:
        end = begin + a.shape[axis]
        padding = [(0, 0, 0)] * len(shape)
        padding[axis] = (begin, shape[axis] - end, 0)
        wide = lax.pad(a, jnp.zeros((), a.dtype), padding)
        y = wide if y is None else lax.select(place < begin, y, wide)
        begin = end
    return y


@plain("unslice")
def unslice(t: Any, *, spec: Any, shape: Any) -> Any:
    """The part, and zeros around and between its entries."""
    wide, padding, zero = _lined_up(t, spec, shape)
    return lax.pad(wide, zero, padding) if wide.size else jnp.zeros(shape, t.dtype)


@row("slice_update")
def slice_update(m: Any, e: Any, inputs: Any) -> Any:
    a, v = as_output(m, e, inputs)
    key, ground = key_of(e.params["spec"]), m.number(e.inputs[0])
    if ground is None or not a.size or not is_uniform(np.asarray(ground)):
        return a.at[key].set(v)
    part = jnp.broadcast_to(v, np.broadcast_to(0, a.shape)[key].shape)
    wide, padding, _ = _lined_up(part, e.params["spec"], a.shape)
    return lax.pad(wide, jnp.asarray(ground.flat[0], a.dtype), padding) if wide.size else a


def _lined_up(t: Any, spec: Any, shape: Any) -> tuple[Any, list[tuple[int, int, int]], Any]:
    """The part with one axis for each of the whole's, and what `lax.pad` puts around each."""
    padding, sizes, turned = [], [], []
    axis = 0
    for entry in spec:
        if entry is None:
            continue
        n = shape[axis]
        if type(entry) is tuple:
            start, stop, step = slice(*entry).indices(n)
            count = len(range(start, stop, step))
            if step < 0:
                start, step = start + (count - 1) * step, -step
                turned.append(axis)
        else:
            start, count, step = entry % n, 1, 1
        sizes.append(count)
        padding.append((start, n - (start + (count - 1) * step + 1), step - 1))
        axis += 1
    sizes += shape[axis:]
    padding += [(0, 0, 0)] * (len(shape) - axis)
    wide = jnp.reshape(t, sizes)
    return jnp.flip(wide, turned) if turned else wide, padding, jnp.zeros((), t.dtype)
