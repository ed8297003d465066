"""Rows that move entries: shapes, slices, what stands among zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ir import Equation
from .....operators.slice import Spec
from ..graph import Graph
from ..sizes import Size
from .base import as_output, out_of, row, types_of

FAR = 2**62


@row("reshape")
def reshape(g: Graph, e: Equation, inputs: list[str]) -> str:
    shape = list(out_of(e).shape)
    free = [k for k, n in enumerate(shape) if isinstance(n, Size)]
    if len(free) == 1 and 0 not in shape:
        shape[free[0]] = -1
    return g.reshape(as_output(g, e, inputs)[0], shape)


@row("permute")
def permute(g: Graph, e: Equation, inputs: list[str]) -> str:
    return g.transpose(as_output(g, e, inputs)[0], e.params["axes"])


@row("broadcast_to")
def broadcast_to(g: Graph, e: Equation, inputs: list[str]) -> str:
    return g.expand(as_output(g, e, inputs)[0], out_of(e).shape)


@row("concatenate")
def concatenate(g: Graph, e: Equation, inputs: list[str]) -> str:
    return g.Concat(*as_output(g, e, inputs), axis=e.params["axis"])


@row("slice")
def take_slice(g: Graph, e: Equation, inputs: list[str]) -> str:
    a, shape = as_output(g, e, inputs)[0], types_of(e)[0].shape
    return sliced(g, a, e.params["spec"], shape)


def sliced(g: Graph, a: str, spec: Spec, shape: Any) -> str:
    cuts: list[tuple[int, int, int, int]] = []  # start, end, axis, step
    gone, new = [], []
    axis = place = 0
    for entry in spec:
        if entry is None:
            new.append(place)
            place += 1
            continue
        if type(entry) is tuple:
            start, stop, step = _bounds(entry, shape[axis])
            if (start, stop, step) != (0, FAR, 1):
                cuts.append((start, stop, axis, step))
            place += 1
        else:
            cuts.append((entry, entry + 1 if entry != -1 else FAR, axis, 1))
            gone.append(axis)
        axis += 1
    if cuts:
        a = g.slice(a, *zip(*cuts, strict=True))
    return g.unsqueeze(g.squeeze(a, gone), new)


def _bounds(entry: Any, n: int) -> tuple[int, int, int]:
    """Where a slice starts and stops; a stop beyond all entries where it takes them to the end."""
    start, stop, step = entry
    if isinstance(n, Size):
        step = 1 if step is None else step
        if step > 0:
            return start or 0, FAR if stop is None or stop == n else stop, step
        return (FAR if start is None else start), (-FAR if stop is None else stop), step
    start, stop, step = slice(start, stop, step).indices(n)
    if step > 0:
        return start, FAR if stop >= n else max(start, stop), step
    return start, -FAR if stop < 0 else stop, step


@row("unslice")
def unslice(g: Graph, e: Equation, inputs: list[str]) -> str:
    """The part, and zeros around and between its entries."""
    (t,) = as_output(g, e, inputs)
    return unsliced(g, t, e.params["spec"], e.params["shape"], out_of(e).dtype)


def unsliced(g: Graph, t: str, spec: Spec, shape: Any, dtype: Any) -> str:
    gone: list[int] = []  # axes of the part that the whole has not
    missing: list[int] = []  # and the other way round
    axis = place = 0
    parts: list[tuple[int, int, int, int]] = []  # first, count, step, length
    turned = []
    for entry in spec:
        n = shape[axis] if entry is not None else 0
        if entry is None:
            gone.append(place)
            place += 1
            continue
        if type(entry) is tuple:
            place += 1
            if isinstance(n, Size):
                parts.append((0, n, 1, n))
                axis += 1
                continue
            start, stop, step = slice(*entry).indices(n)
            count = len(range(start, stop, step))
            if step < 0:
                start, step = start + (count - 1) * step, -step
                turned.append(axis)
            parts.append((start, count, step, n))
        else:
            missing.append(axis)
            parts.append((entry + n if entry < 0 else entry, 1, 1, n))
        axis += 1
    t = g.unsqueeze(g.squeeze(t, gone), missing)
    if any(count == 0 for _, count, _, _ in parts):
        return g.zeros(shape, dtype)
    if turned:
        ends = [-FAR] * len(turned)
        t = g.slice(t, [-1] * len(turned), ends, turned, [-1] * len(turned))
    sizes = [count for _, count, _, _ in parts] + list(shape[axis:])
    for k, (_, count, step, _) in enumerate(parts):
        if step > 1 and count > 1:
            t = spread(g, t, k, step, sizes, dtype)
            sizes[k] = (count - 1) * step + 1
    before = [first for first, _, _, _ in parts] + [0] * (len(shape) - len(parts))
    after = [n - first - size for n, first, size in zip(shape, before, sizes, strict=True)]
    if not any(before) and not any(after):
        return t
    return pad(g, t, before, after, dtype)


def pad(g: Graph, t: str, before: Any, after: Any, dtype: Any) -> str:
    """Zeros around."""
    if dtype.kind == "b":
        return g.cast(
            pad(g, g.cast(t, bool, np.int32), before, after, np.dtype(np.int32)), np.int32, bool
        )
    return g.Pad(t, g.sizes([*before, *after]), g.number(0, dtype))


def spread(g: Graph, t: str, axis: int, step: int, sizes: Any, dtype: Any) -> str:
    """Entries along an axis, `step` apart, zeros between."""
    rank = len(sizes)
    wide = g.unsqueeze(t, [axis + 1])
    after = [step - 1 if k == axis + 1 else 0 for k in range(rank + 1)]
    wide = pad(g, wide, [0] * (rank + 1), after, dtype)
    joined = g.reshape(wide, [n * step if k == axis else n for k, n in enumerate(sizes)])
    return g.slice(joined, [0], [(sizes[axis] - 1) * step + 1], [axis], [1])


@row("slice_update")
def slice_update(g: Graph, e: Equation, inputs: list[str]) -> str:
    a, v = as_output(g, e, inputs)
    spec, shape, dtype = e.params["spec"], out_of(e).shape, out_of(e).dtype
    part = np.broadcast_to(np.zeros(()), [int(n) for n in shape])[
        tuple([slice(*x) if type(x) is tuple else x for x in spec])
    ].shape
    if 0 in part:
        return a
    if tuple(types_of(e)[1].shape) != part:
        v = g.expand(v, part)
    mask: str | None = None
    axis = 0
    for entry in spec:
        if entry is None:
            continue
        if type(entry) is not tuple or entry != (None, None, None):
            line = np.zeros(shape[axis], bool)
            line[slice(*entry) if type(entry) is tuple else entry] = True
            if not line.all():
                one = g.constant(line.reshape([-1] + [1] * (len(shape) - axis - 1)))
                mask = one if mask is None else g.And(mask, one)
        axis += 1
    written = unsliced(g, v, spec, shape, dtype)
    return written if mask is None else g.where(mask, written, a, dtype)
