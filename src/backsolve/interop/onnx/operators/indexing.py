"""Reading and writing entries by index."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import UnsupportedError
from ....numpy._register import ndim_of, shape_of
from ....tensor import Tensor
from .table import known, looked_at, operator, read, take

_COMBINED = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@operator("Gather")
def gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    return take(x, indices, axis)


@operator("GatherElements")
def gather_elements(x: Any, indices: Any, *, axis: int = 0) -> Any:
    return read(x, *_beside(indices, ndim_of(x), axis))


def _beside(indices: Any, rank: int, axis: int) -> tuple[Any, ...]:
    """Indices of entries whose other coordinates are those of their own place."""
    grid: list[Any] = list(np.ix_(*[np.arange(s) for s in shape_of(indices)]))
    grid[axis % rank] = indices
    return tuple(grid)


@operator("GatherND")
def gather_nd(x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    count = shape_of(indices)[-1]
    lead = shape_of(indices)[:batch_dims]
    places = shape_of(indices)[batch_dims:-1]
    own = [
        np.arange(s).reshape(*[1] * k, -1, *[1] * (batch_dims - 1 - k + len(places)))
        for k, s in enumerate(lead)
    ]
    return read(x, *own, *[indices[..., k] for k in range(count)])


@operator("Scatter", "ScatterElements")
def scatter_elements(
    x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "none"
) -> Any:
    return _written(x, _beside(indices, ndim_of(x), axis), updates, reduction)


@operator("ScatterND")
def scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    index = tuple(indices[..., k] for k in range(shape_of(indices)[-1]))
    return _written(x, index, updates, reduction)


def _written(x: Any, index: tuple[Any, ...], updates: Any, reduction: str) -> Any:
    """A copy of x with updates at these places; where places repeat, all count, or the last without one."""
    if reduction not in ("none", *_COMBINED):
        raise UnsupportedError(f"reduction {reduction!r}")
    inner = shape_of(x)[len(index) :]
    lead = np.broadcast_shapes(*[shape_of(i) for i in index])
    updates = np.broadcast_to(updates, (*lead, *inner))
    if not any(isinstance(a, Tensor) for a in (x, updates, *index)):
        out = x.copy()
        if reduction == "none":
            out[index] = updates
        else:
            _COMBINED[reduction].at(out, index, updates)
        return out
    out = x.copy() if isinstance(x, Tensor) else Tensor(x.copy())
    if reduction == "none":
        out[index] = updates
    elif reduction == "add":
        np.add.at(out, index, updates)
    else:
        _combine_in_turn(out, index, updates, _COMBINED[reduction])
    return out


def _combine_in_turn(out: Any, index: tuple[Any, ...], updates: Any, f: Any) -> None:
    """As ufunc.at: first what comes first to each place, then what comes second, …"""
    rows = np.broadcast_arrays(*[looked_at(i, "places that are combined") for i in index])
    places = np.stack([np.ravel(r) for r in rows], 1)
    places = np.where(places < 0, places + np.array(shape_of(out)[: len(index)]), places)
    _, kind = np.unique(places, axis=0, return_inverse=True)
    kind = np.reshape(kind, -1)
    order = np.argsort(kind, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(kind))])[kind[order]]
    turn = np.empty(len(kind), int)
    turn[order] = np.arange(len(kind)) - first
    values = np.reshape(updates, (len(kind), *shape_of(out)[len(index) :]))
    for t in range(turn.max(initial=-1) + 1):
        own = np.nonzero(turn == t)[0]
        at = tuple(places[own].T)
        out[at] = f(out[at], values[own])


@operator("TensorScatter")
def tensor_scatter(
    past: Any, update: Any, write_indices: Any = None, *, axis: int = -2, mode: str = "linear"
) -> Any:
    """`update` written along an axis, from an index of each example on; "circular" goes on at the front."""
    axis = axis % ndim_of(past)
    length, steps = shape_of(past)[axis], shape_of(update)[axis]
    first = np.zeros(shape_of(past)[0], np.int64) if write_indices is None else write_indices
    places = np.reshape(first, (-1, 1)) + np.arange(steps)
    places = places % length if mode == "circular" else places
    own = np.arange(shape_of(past)[0])[:, None]
    moved = np.moveaxis(past, axis, 1)
    written = _written(moved, (own, places), np.moveaxis(update, axis, 1), "none")
    return np.moveaxis(written, 1, axis)


@operator("Compress")
def compress(x: Any, condition: Any, *, axis: int | None = None) -> Any:
    places = np.nonzero(known(condition, "the condition of Compress"))[0]
    return np.take(np.reshape(x, -1), places) if axis is None else np.take(x, places, axis)


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(x: Any, indices: Any) -> Any:
    y = take(x, np.reshape(indices, -1), -1)
    return np.reshape(y, (1, -1)) if ndim_of(x) == 1 else y
