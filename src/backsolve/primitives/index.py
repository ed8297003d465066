"""Indexing: rectangular slices and index arrays, read and write.

The public `x[key]` is brought to two forms: `slice` by a hashable spec (operators/slice.py), and
`gather` by index arrays of one shape along the first axes. Writing makes a new array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..operators import Erase, EraseAt, Gather, Mask, Product, Slice
from ..operators.gather import add_at, gathered_shape
from ..operators.slice import key_of, sliced_shape
from ..primitive import P, primitive
from .batching import spread

FULL = (None, None, None)


# ---- slices


def _run_slice(a: Any, *, spec: Any) -> Any:
    return a[key_of(spec)]


def _run_unslice(t: Any, *, spec: Any, shape: Any) -> Any:
    out = np.zeros(shape, np.asarray(t).dtype)
    out[key_of(spec)] = t
    return out


def _run_slice_update(a: Any, v: Any, *, spec: Any) -> Any:
    out = np.array(a)
    out[key_of(spec)] = v
    return out


def _batch_slice(prim: Any, size: int, args: Any, batched: Any, params: Any) -> Any:
    return prim(args[0], spec=(FULL, *params["spec"]))


def _batch_unslice(prim: Any, size: int, args: Any, batched: Any, params: Any) -> Any:
    return prim(args[0], spec=(FULL, *params["spec"]), shape=(size, *params["shape"]))


def _batch_slice_update(prim: Any, size: int, args: Any, batched: Any, params: Any) -> Any:
    a, v = [x if b else spread(x, size) for x, b in zip(args, batched, strict=True)]
    rank = len(sliced_shape(a.shape[1:], params["spec"]))
    missing = [1] * (rank - len(v.shape) + 1)
    return prim(a, P.reshape(v, shape=(size, *missing, *v.shape[1:])), spec=(FULL, *params["spec"]))


slice_ = primitive(
    "slice",
    _run_slice,
    blocks=(lambda A, *, spec: Slice(A, spec),),
    type=lambda a, *, spec: Type(sliced_shape(a.shape, spec), a.dtype),
    batch=_batch_slice,
    text="{0}[{spec}]",
    code="{0}[{spec}]",
)
unslice = primitive(
    "unslice",
    _run_unslice,
    blocks=(lambda Y, *, spec: Slice(Y, spec).T,),
    type=lambda t, *, spec, shape: Type(shape, t.dtype),
    batch=_batch_unslice,
)
# v broadcasts to the shape of the slice
slice_update = primitive(
    "slice_update",
    _run_slice_update,
    blocks=(lambda A, *, spec: Erase(A, spec), lambda Y, *, spec: Slice(Y, spec).T),
    type=lambda a, v, *, spec: Type(a.shape, a.dtype),
    batch=_batch_slice_update,
)


# ---- index arrays


def _run_gather(a: Any, *indices: Any) -> Any:
    return a[indices]


def _run_scatter_add(t: Any, *indices: Any, shape: Any) -> Any:
    t = np.asarray(t)  # a number, where one entry was read
    out = np.zeros(shape, t.dtype)
    add_at(out, indices, t)
    return out


def _run_scatter_set(a: Any, v: Any, *indices: Any) -> Any:
    out = np.array(a)
    out[indices] = v
    return out


def winners(shape: Any, indices: Any) -> Any:
    """Which of several writes to one place is the last, and so the one that counts."""
    common = np.broadcast_shapes(*[np.shape(i) for i in indices])
    order = np.arange(int(np.prod(common))).reshape(common)
    last = np.zeros(shape[: len(indices)], order.dtype)
    last = P.scatter_set(last, order, *indices)
    return np.equal(P.gather(last, *indices), order)


def _gather_block(i: int, s: Any, row: Any) -> Any:
    return Gather(row.parents[0], tuple(s[2:]))


def _scatter_add_block(i: int, s: Any, row: Any) -> Any:
    return Gather(row, tuple(s[2:])).T


def _scatter_set_block(i: int, s: Any, row: Any) -> Any:
    indices = tuple(s[3:])
    if i == 0:
        return EraseAt(row, indices)
    if all(not np.shape(k) for k in indices):  # one place: no write comes after it
        return Gather(row, indices).T
    last = winners(row.shape, indices)
    trailing = row.ndim - len(indices)
    return Product([Gather(row, indices).T, Mask(np.reshape(last, (*last.shape, *[1] * trailing)))])


def _indices_from(first: int) -> Any:
    return lambda i, n: range(first, n + 1)


def _examples(size: int, index: Any) -> Any:
    """0 … size−1, shaped to go with batched index arrays."""
    return np.reshape(np.arange(size), (size, *[1] * (len(np.shape(index)) - 1)))


def _align(indices: Any, batched: Any, size: int) -> list[Any]:
    full = max(len(np.shape(i)) - b for i, b in zip(indices, batched, strict=True))
    out = []
    for i, b in zip(indices, batched, strict=True):
        i = i if b else spread(i, size)
        out.append(np.reshape(i, (size, *[1] * (full - len(np.shape(i)) + 1), *np.shape(i)[1:])))
    return out


def _batch_gather(prim: Any, size: int, args: Any, batched: Any, params: Any) -> Any:
    a, *indices = args
    if not any(batched[1:]):  # the same places of every example: let the batch ride behind
        k = len(indices)
        moved = np.moveaxis(a, 0, k)
        at = len(np.broadcast_shapes(*[np.shape(i) for i in indices]))
        return np.moveaxis(prim(moved, *indices), at, 0)
    indices = _align(indices, batched[1:], size)
    if batched[0]:
        indices = [_examples(size, indices[0]), *indices]
    return prim(a, *indices)


def _batch_scatter_add(prim: Any, size: int, args: Any, batched: Any, params: Any) -> Any:
    t, *indices = [x if b else spread(x, size) for x, b in zip(args, batched, strict=True)]
    indices = _align(indices, [True] * len(indices), size)
    return prim(t, _examples(size, indices[0]), *indices, shape=(size, *params["shape"]))


def _batch_scatter_set(prim: Any, size: int, args: Any, batched: Any, params: Any) -> Any:
    a, v, *indices = [x if b else spread(x, size) for x, b in zip(args, batched, strict=True)]
    indices = _align(indices, [True] * len(indices), size)
    return prim(a, v, _examples(size, indices[0]), *indices)


gather = primitive(
    "gather",
    _run_gather,
    blocks=_gather_block,
    wants=_indices_from(2),
    type=lambda a, *indices: Type(gathered_shape(a.shape, indices), a.dtype),
    batch=_batch_gather,
    code="{0}[{rest}]",
)
scatter_add = primitive(
    "scatter_add",
    _run_scatter_add,
    blocks=_scatter_add_block,
    wants=_indices_from(2),
    type=lambda t, *indices, shape: Type(shape, t.dtype),
    batch=_batch_scatter_add,
)
# v has the shape of what `gather` would read
scatter_set = primitive(
    "scatter_set",
    _run_scatter_set,
    blocks=_scatter_set_block,
    wants=_indices_from(3),
    type=lambda a, v, *indices: Type(a.shape, a.dtype),
    batch=_batch_scatter_set,
)
