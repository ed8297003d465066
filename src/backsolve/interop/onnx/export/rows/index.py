"""Index arrays: read, added, written. Indices may count from the end; nothing looks whether they fit."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .....ir import Equation
from ..graph import Graph
from .base import out_of, row, types_of


def _joined(g: Graph, inputs: Sequence[str], types: Sequence[Any]) -> tuple[str, tuple[int, ...]]:
    """Several index arrays as one, of their common shape, with the number of the axis last."""
    common = _broadcast([t.shape for t in types])
    parts = []
    for name, t in zip(inputs, types, strict=True):
        index = g.cast(name, t.dtype, np.int64)
        if tuple(t.shape) != common:
            index = g.expand(index, common)
        parts.append(g.unsqueeze(index, [len(common)]))
    return (parts[0] if len(parts) == 1 else g.Concat(*parts, axis=len(common))), common


def _broadcast(shapes: Sequence[Any]) -> tuple[int, ...]:
    """As NumPy's, but lengths stay what they are (sizes.py)."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    return tuple([next((n for n in ns if n != 1), 1) for ns in zip(*padded, strict=True)])


@row("gather")
def gather(g: Graph, e: Equation, inputs: list[str]) -> str:
    a, *indices = inputs
    types = types_of(e)
    if len(indices) == 1:
        index = g.cast(indices[0], types[1].dtype, np.int64)
        return g.gather(a, index, 0) if types[1].ndim == 1 else g.Gather(a, index, axis=0)
    joined, _ = _joined(g, indices, types[1:])
    return g.GatherND(a, joined)


@row("scatter_add")
def scatter_add(g: Graph, e: Equation, inputs: list[str]) -> str:
    t, *indices = inputs
    types, out = types_of(e), out_of(e)
    dtype = np.dtype(np.int32) if out.dtype == bool else out.dtype
    joined, common = _joined(g, indices, types[1:])
    wanted = (*common, *out.shape[len(indices) :])
    t = g.cast(t, types[0].dtype, dtype)
    if tuple(types[0].shape) != wanted:
        t = g.expand(t, wanted)
    y = g.ScatterND(g.zeros(out.shape, dtype), joined, t, reduction="add")
    return g.cast(y, dtype, out.dtype)


@row("scatter_set")
def scatter_set(g: Graph, e: Equation, inputs: list[str]) -> str:
    """The last of several writes to one place counts; ONNX has no order, so the last one is looked up."""
    _, _, *indices = inputs
    types, out = types_of(e), out_of(e)
    a, v = (g.cast(x, t.dtype, out.dtype) for x, t in zip(inputs[:2], types[:2], strict=True))
    joined, common = _joined(g, indices, types[2:])
    behind = out.shape[len(indices) :]
    wanted = (*common, *behind)
    if tuple(types[1].shape) != wanted:
        v = g.expand(v, wanted)
    if prod(common) <= 1:
        return a if 0 in wanted else g.ScatterND(a, joined, v)
    numbers = g.constant(np.arange(prod(common), dtype=np.int64).reshape([int(n) for n in common]))
    lead = out.shape[: len(indices)]
    none = g.expand(g.number(-1, np.int64), lead)
    last = g.ScatterND(none, joined, numbers, reduction="max")
    lines = g.reshape(v, [prod(common), *behind])
    new = g.Gather(lines, g.Max(last, g.number(0, np.int64)), axis=0)
    written = g.GreaterOrEqual(last, g.number(0, np.int64))
    written = g.unsqueeze(written, list(range(len(lead), len(out.shape))))
    return g.where(written, new, a, out.dtype)


@row("check")
def check(g: Graph, e: Equation, inputs: list[str]) -> str:
    """Assertions cannot fail in ONNX: they are left out."""
    return g.number(0, np.int64)
