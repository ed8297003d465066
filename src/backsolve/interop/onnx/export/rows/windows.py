"""Windows of an array, gathered, and windows added back. Where one operator does more, see joined.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ir import Equation
from ..graph import Graph
from .base import as_output, out_of, row, types_of


@row("windows")
def windows(g: Graph, e: Equation, inputs: list[str]) -> str:
    (a,) = as_output(g, e, inputs)
    cut, rank = e.params["cut"], types_of(e)[0].ndim
    shape = types_of(e)[0].shape
    order = list(range(rank))  # where the axes of the array stand, while those of windows come in
    inner: dict[int, int] = {}
    for axis, places in _places(cut, shape):
        at = order[axis]
        a = g.Gather(a, g.constant(places), axis=at)
        order = [k + 1 if k > at else k for k in order]
        inner = {x: k + 1 if k > at else k for x, k in inner.items()}
        inner[axis] = at + 1
    return g.transpose(a, [*order, *[inner[x] for x in cut.axes]])


def _places(cut: Any, shape: Any) -> list[tuple[int, Any]]:
    """For each axis that is cut, which entries each window has: (count, size)."""
    found = []
    whole = cut.shape([int(n) for n in shape])
    for axis, size, step, dilation in zip(*cut, strict=True):
        starts = np.arange(whole[axis], dtype=np.int64) * step
        found.append((axis, starts[:, None] + np.arange(size, dtype=np.int64) * dilation))
    return found


@row("fold")
def fold(g: Graph, e: Equation, inputs: list[str]) -> str:
    """Windows added where they were taken: axis by axis, entries added to places."""
    cut, shape, t = e.params["cut"], list(e.params["shape"]), types_of(e)[0]
    out = out_of(e).dtype
    dtype = np.dtype(np.int32) if out.kind == "b" else out
    a = g.cast(inputs[0], t.dtype, dtype)
    if 0 in t.shape:
        return g.zeros(shape, out)
    now = list(t.shape)
    rank = len(shape)
    names = [*range(rank), *[-1 - k for k in range(len(cut.axes))]]  # windows are −1, −2, …
    for k, (axis, places) in reversed(list(enumerate(_places(cut, shape)))):
        order = [axis, -1 - k] + [x for x in names if x not in (axis, -1 - k)]
        a = g.transpose(a, [names.index(x) for x in order])
        rest = [now[names.index(x)] for x in order[2:]]
        a = g.reshape(a, [places.size, *rest])
        index = g.constant(places.reshape(-1, 1))
        a = g.ScatterND(g.zeros([shape[axis], *rest], dtype), index, a, reduction="add")
        names = [axis, *order[2:]]
        now = [shape[axis], *rest]
    a = g.transpose(a, [names.index(x) for x in range(rank)])
    return g.cast(a, dtype, out)
