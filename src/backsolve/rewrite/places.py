"""Rules for known indices: what index arrays read or write in even steps is a slice.

Loops over entries that were taken apart leave gathers and scatters at 0, 1, 2 … or 1, 3, 5 … along each
axis: those need no index arrays, and what is written everywhere needs no array to be written into.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir import Equation, Shape, Var, type_of
from ..primitive import P
from .engine import Rule, Walk, instead, raw

LARGE = 1 << 20  # entries of an index array that is looked at


@dataclass(frozen=True)
class _Grid:
    """Indices that are a slice: its spec, and which axis of the index arrays each sliced axis runs with."""

    spec: tuple[Any, ...]
    axes: tuple[int, ...]
    shape: Shape  # of the index arrays together

    def is_whole(self, shape: Shape) -> bool:
        """Whether it is every entry of an array of this shape, along the axes that have an index."""
        return all(
            isinstance(s, tuple) and s == (0, n, 1) for s, n in zip(self.spec, shape, strict=False)
        )


def _known(w: Walk, a: Any, rank: int) -> Any:
    """An index whose values are known, repeated axes as axes of length 1; else None."""
    if type(a) is int:
        values = np.asarray(a)
    else:
        spread = w.producer(a, "broadcast_to")
        source = a if spread is None else spread.inputs[0]
        values = raw(w.array(source)) if type(source) is Var else np.asarray(source)
        if values is None and source in w.numbers:
            values = np.asarray(w.numbers[source])
    if values is None or values.size > LARGE or values.dtype.kind not in "iu":
        return None
    return values.reshape((1,) * (rank - values.ndim) + values.shape)


def _steps(values: Any, n: int) -> tuple[Any, int | None] | None:
    """Values as (slice or number, the one axis along which they change); None if they are no slice."""
    if not values.size:
        return None
    first = values[(slice(0, 1),) * values.ndim]
    varying = [k for k in range(values.ndim) if values.shape[k] > 1]
    moving = [
        k
        for k in varying
        if not np.array_equal(values, np.broadcast_to(values.take([0], axis=k), values.shape))
    ]
    start = int(first.reshape(-1)[0])
    if not moving:
        return (start, None) if 0 <= start < n else None
    if len(moving) > 1:
        return None
    line = np.moveaxis(values, moving[0], 0).reshape(values.shape[moving[0]], -1)[:, 0]
    step = int(line[1] - line[0])
    last = start + step * (len(line) - 1)
    if step == 0 or not (min(start, last) >= 0 and max(start, last) < n):
        return None
    if not np.array_equal(line, np.arange(len(line)) * step + start):
        return None
    if step > 0:
        return (start, last + 1, step), moving[0]
    return (start, last - 1 if last else None, step), moving[0]


def _grid(w: Walk, indices: Any, shape: Shape, may_repeat: bool = False) -> _Grid | None:
    """The indices as a slice in which every axis of theirs of more than one entry is walked once.

    Or, where it `may_repeat`, at most once: along other axes the same entries stand again.
    """
    together = np.broadcast_shapes(*[type_of(i).shape for i in indices])
    spec, axes = [], []
    for i, n in zip(indices, shape, strict=False):
        values = _known(w, i, len(together))
        found = None if values is None else _steps(values, n)
        if found is None:
            return None
        spec.append(found[0])
        if found[1] is not None:
            axes.append(found[1])
    walked = [k for k, n in enumerate(together) if n > 1]
    if len(set(axes)) < len(axes) or (len(axes) < len(walked) and not may_repeat):
        return None
    return _Grid(tuple(spec), tuple(axes), together)


def _turned(w: Walk, e: Equation, a: Any, order: tuple[int, ...]) -> Any:
    return a if order == tuple(range(len(order))) else w.emit(e, P.permute, a, axes=order)


def _gather(w: Walk, e: Equation) -> Any:
    x, *indices = e.inputs
    grid = _grid(w, indices, type_of(x).shape, may_repeat=True) if type(x) is Var else None
    if grid is None:
        return _without_last(w, e, x, indices)
    whole = grid.is_whole(x.shape)
    part = x if whole else w.emit(e, P.slice, x, spec=grid.spec)
    rest = len(part.shape) - len(grid.axes)
    order = [grid.axes.index(k) for k in sorted(grid.axes)]
    out = _turned(w, e, part, (*order, *range(len(order), len(order) + rest)))
    shape = e.outputs[0].shape
    depth = len(grid.shape)
    alike = tuple(n if k in grid.axes else 1 for k, n in enumerate(grid.shape))
    if out.shape != (*alike, *shape[depth:]):
        out = w.emit(e, P.reshape, out, shape=(*alike, *shape[depth:]))
    return out if out.shape == shape else instead(e, P.broadcast_to, out, shape=shape)


def _as_part(w: Walk, e: Equation, t: Any, grid: _Grid) -> Any:
    """What is scattered, with its axes in the order of the array's."""
    trailing = t.shape[len(grid.shape) :]
    walked = sorted(grid.axes)
    shape = (*[grid.shape[k] for k in walked], *trailing)
    t = t if t.shape == shape else w.emit(e, P.reshape, t, shape=shape)
    rest = tuple(range(len(walked), len(shape)))
    return _turned(w, e, t, (*[walked.index(k) for k in grid.axes], *rest))


def _scatter_set(w: Walk, e: Equation) -> Any:
    a, v, *indices = e.inputs
    out = e.outputs[0]
    if type(v) is not Var or v.dtype != out.dtype:
        return None
    grid = _grid(w, indices, out.shape)
    if grid is None:
        return _without_last(w, e, (a, v), indices)
    if v.shape != (*grid.shape, *out.shape[len(indices) :]):
        return None
    part = _as_part(w, e, v, grid)
    if grid.is_whole(out.shape):
        return part
    return instead(e, P.slice_update, a, part, spec=grid.spec)


def _scatter_add(w: Walk, e: Equation) -> Any:
    t, *indices = e.inputs
    shape = e.params["shape"]
    if type(t) is not Var or t.dtype != e.outputs[0].dtype:
        return None
    grid = _grid(w, indices, shape)
    if grid is None:
        return _without_last(w, e, t, indices)
    if t.shape != (*grid.shape, *shape[len(indices) :]):
        return None
    part = _as_part(w, e, t, grid)
    return (
        part if grid.is_whole(shape) else instead(e, P.unslice, part, spec=grid.spec, shape=shape)
    )


def _without_last(w: Walk, e: Equation, firsts: Any, indices: list[Any]) -> Any:
    """x[i, 0…n−1] is x[i]: a row needs no index along itself."""
    if len(indices) < 2:
        return None
    firsts = firsts if isinstance(firsts, tuple) else (firsts,)
    shape = type_of(firsts[0]).shape if e.primitive is not P.scatter_add else e.params["shape"]
    n = shape[len(indices) - 1]
    together = np.broadcast_shapes(*[type_of(i).shape for i in indices])
    values = _known(w, indices[-1], len(together))
    if together != (n,) or values is None or _steps(values, n) != ((0, n, 1), 0) or n < 2:
        return None
    singles = [_single(w, i) for i in indices[:-1]]
    if any(s is None for s in singles):
        return None
    if e.primitive is not P.gather and type_of(firsts[-1]).shape != (n, *shape[len(indices) :]):
        return None
    return instead(e, e.primitive, *firsts, *singles, **e.params)


def _single(w: Walk, a: Any) -> Any:
    """An index that is the same number everywhere, as that number."""
    if type_of(a).shape == ():
        return a
    spread = w.producer(a, "broadcast_to")
    if spread is not None and type_of(spread.inputs[0]).shape == ():
        return spread.inputs[0]
    return None


RULES: dict[str, list[Rule]] = {
    "gather": [_gather],
    "scatter_set": [_scatter_set],
    "scatter_add": [_scatter_add],
}
