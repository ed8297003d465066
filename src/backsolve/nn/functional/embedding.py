"""Rows of a table: one for each index, or one for each bag of indices.

`max_norm` takes rows that are longer as if they had that norm. PyTorch shortens them in the table itself, which
is not changed here; derivatives are those in the shortened rows, as there. `scale_grad_by_freq` divides what an
entry gives to the gradient by how often its index occurs in the input. `sparse` has no effect.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...control import scan
from ...errors import ShapeError, UnsupportedError
from ...numpy._register import array, dtype_of, known, ndim_of, shape_of
from ...numpy.sets import places
from ...primitive import P
from ...tensor import Staged
from ._reduction import held, indices, require
from .distances import vector_norm


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """weight[input]: indices of any shape ↦ the rows they name; that of padding_idx gets no gradient.

    >>> import numpy as np
    >>> embedding(np.array([2, 0]), np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]))
    array([[4., 5.],
           [0., 1.]])
    """
    x, w = array(input), array(weight)
    rows = _rows("embedding", x, w, max_norm, norm_type, scale_grad_by_freq)
    if padding_idx is None:
        return rows
    padding = _padding("embedding", x, w, padding_idx)
    return np.where(np.expand_dims(padding, -1), P.detach(rows), rows)


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """The sum, mean or maximum of the rows of each bag; 0 of an empty one.

    Indices (B, L) are B bags. Of a single sequence, bag k begins at offsets[k] and ends where the next one
    begins (the last at the end, or at one more offset: `include_last_offset`). `per_sample_weights` multiply
    rows, in sums only. Indices that are padding_idx count for nothing.

    >>> import numpy as np
    >>> table = np.array([[1.0], [10.0], [100.0]])
    >>> embedding_bag(np.array([0, 1, 2]), table, np.array([0, 2, 2]), mode="sum")
    array([[ 11.],
           [  0.],
           [100.]])
    """
    x, w = array(input), array(weight)
    _accept(x, w, offsets, mode, per_sample_weights, scale_grad_by_freq)
    rows = _rows("embedding_bag", x, w, max_norm, norm_type, scale_grad_by_freq)
    counts = np.ones(shape_of(x), bool)
    if padding_idx is not None:
        counts = np.logical_not(_padding("embedding_bag", x, w, padding_idx))
    if per_sample_weights is not None:
        rows = rows * np.expand_dims(array(per_sample_weights), -1)
    if ndim_of(x) == 2:
        return _of_rows(rows, counts, mode)
    starts = array(offsets)
    bags = shape_of(starts)[0] - int(include_last_offset)
    if bags < 0 or not shape_of(starts)[0]:
        return np.zeros((0, shape_of(w)[1]), dtype_of(w))
    return _of_sequence(rows, counts, mode, starts)[:bags]


def _accept(x: Any, w: Any, offsets: Any, mode: str, weights: Any, scaled: bool) -> None:
    if ndim_of(w) != 2 or ndim_of(x) not in (1, 2):
        raise ShapeError(
            "embedding_bag takes indices of rank 1 or 2 and weights of rank 2, got "
            f"{shape_of(x)} and {shape_of(w)}"
        )
    if (offsets is None) != (ndim_of(x) == 2):
        raise ValueError("embedding_bag takes offsets for indices of rank 1, and only for these")
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f'embedding_bag takes mode="sum", "mean" or "max", got {mode!r}')
    if weights is not None and mode != "sum":
        raise UnsupportedError(
            f'embedding_bag takes per_sample_weights for mode="sum", got {mode!r}'
        )
    if weights is not None and shape_of(weights) != shape_of(x):
        raise ShapeError(
            f"embedding_bag: per_sample_weights of shape {shape_of(weights)} for indices of shape "
            f"{shape_of(x)}"
        )
    if scaled and mode == "max":
        raise UnsupportedError('embedding_bag with mode="max" does not take scale_grad_by_freq')


def _rows(name: str, x: Any, w: Any, most: float | None, norm: float, scaled: bool) -> Any:
    """The rows that are named, renormalised and with scaled gradients if asked for."""
    if ndim_of(w) != 2:
        raise ShapeError(f"{name} takes weights of rank 2, got shape {shape_of(w)}")
    indices(name, "input", x, 0, shape_of(w)[0])
    rows = P.gather(w, x)
    if most is not None:
        length = vector_norm(P.detach(rows), norm, -1, True)
        shorter = np.where(length > most, most / (length + 1e-7), 1)
        rows = held(rows * shorter, rows)
    if scaled:
        flat = np.reshape(x, (-1,))
        often = P.scatter_add(np.ones(shape_of(flat), dtype_of(w)), flat, shape=shape_of(w)[:1])
        rows = held(rows, rows / np.expand_dims(P.gather(often, x), -1))
    return rows


def _padding(name: str, x: Any, w: Any, index: int) -> Any:
    count = shape_of(w)[0]
    if not -count <= index < count:
        raise IndexError(f"{name}: padding_idx must name one of {count} rows, got {index}")
    return np.equal(x, index % count)


def _of_rows(rows: Any, counts: Any, mode: str) -> Any:
    """Bags of one length, (B, L, D)."""
    mask = np.expand_dims(counts, -1)
    found = np.expand_dims(np.sum(counts, axis=1), -1)
    if mode == "max":
        if not shape_of(rows)[1]:
            return np.sum(rows, axis=1)
        highest = P.first_max(np.where(mask, rows, -np.inf), axis=(1,), keepdims=False)
        return np.where(found > 0, highest, 0)
    total = np.sum(np.where(mask, rows, 0), axis=1)
    return total if mode == "sum" else total / np.maximum(found, 1).astype(dtype_of(rows))


def _of_sequence(rows: Any, counts: Any, mode: str, starts: Any) -> Any:
    """Bags one behind the other, (n, D)."""
    n, width = shape_of(rows)
    bags = shape_of(starts)[0]
    indices("embedding_bag", "offsets", starts, 0, n + 1)
    rising = np.all(starts[1:] >= starts[:-1])
    message = "embedding_bag: offsets must begin with 0 and not fall"
    require(np.logical_and(np.equal(starts[0], 0), rising), ValueError, message)
    begun = P.scatter_add(np.ones(bags, np.int64), starts, shape=(n + 1,))
    bag = np.cumsum(begun)[:n] - 1
    found = P.scatter_add(counts.astype(np.int64), bag, shape=(bags,))
    found = np.expand_dims(found, -1)
    if mode == "max":
        if not n:
            return np.zeros((bags, width), dtype_of(rows))
        first = _highest(P.detach(rows), counts, bag, starts)
        return np.where(found > 0, P.gather(rows, first, np.arange(width)), 0)
    kept = np.where(np.expand_dims(counts, -1), rows, 0)
    total = P.scatter_add(kept, bag, shape=(bags, width))
    return total if mode == "sum" else total / np.maximum(found, 1).astype(dtype_of(rows))


def _highest(rows: Any, counts: Any, bag: Any, starts: Any) -> Any:
    """Where the first of the largest entries of each bag stands, by columns; of an empty one, anywhere."""
    n, width = shape_of(rows)
    rows = np.where(np.expand_dims(counts, -1), rows, -np.inf)
    if not any(isinstance(x, Staged) for x in (rows, starts)):
        begins = known("embedding_bag", starts)
        ends = np.append(begins[1:], n)
        values = known("embedding_bag", rows)
        found = np.zeros((len(begins), width), np.int64)
        for k in np.flatnonzero(begins < ends):
            found[k] = begins[k] + np.argmax(values[begins[k] : ends[k]], axis=0)
        return places(found, rows, starts)

    def look(state: Any, entry: Any) -> Any:
        (top, place), (k, b, row) = state, entry
        larger = row > P.gather(top, b)
        top = P.scatter_set(top, np.where(larger, row, P.gather(top, b)), b)
        return (top, P.scatter_set(place, np.where(larger, k, P.gather(place, b)), b)), ()

    shape = (shape_of(starts)[0], width)
    lowest = np.full(shape, -np.inf, dtype_of(rows))
    first = np.broadcast_to(np.expand_dims(np.minimum(starts, n - 1), -1), shape)
    return scan(look, (lowest, first), (np.arange(n), bag, rows))[0][1]
