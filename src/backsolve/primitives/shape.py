"""Shapes: reshape, permute, broadcast, concatenate. Linear, and nothing is captured."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..ir import Shape, Type, broadcast_shapes
from ..operators import Broadcast, Reshape, Slice, Transpose
from ..primitive import P, primitive
from .batching import spread


def _batch_broadcast(prim: Any, size: int, args: Any, batched: Any, params: Any) -> Any:
    (a,), shape = args, params["shape"]
    padded = P.reshape(a, shape=(size, *[1] * (len(shape) - a.ndim + 1), *a.shape[1:]))
    return prim(padded, shape=(size, *shape))


def _concatenated(*types: Type, axis: int) -> Type:
    shape = list(types[0].shape)
    shape[axis] = sum(t.shape[axis] for t in types)
    return Type(tuple(shape), np.result_type(*[t.dtype for t in types]))


def _concatenate_block(i: int, s: Any, row: Any) -> Any:
    axis = row.params["axis"]
    starts = row.params["starts"]
    spec = (*[(None, None, None)] * axis, (starts[i], starts[i + 1], 1))
    return Slice(row, spec).T


def _batch_concatenate(prim: Any, size: int, args: Any, batched: Any, params: Any) -> Any:
    full = [a if b else spread(a, size) for a, b in zip(args, batched, strict=True)]
    return prim(*full, axis=params["axis"] + 1, starts=params["starts"])


def _type_reshape(a: Type, *, shape: Shape) -> Type:
    if a.size != prod(shape):
        raise ValueError(f"cannot reshape {a.shape} into {shape}")
    return Type(shape, a.dtype)


def _type_broadcast(a: Type, *, shape: Shape) -> Type:
    if broadcast_shapes(a.shape, shape) != shape:
        raise ValueError(f"cannot broadcast {a.shape} to {shape}")
    return Type(shape, a.dtype)


reshape = primitive(
    "reshape",
    lambda a, *, shape: a.reshape(shape) if type(a) is np.ndarray else np.reshape(a, shape),
    blocks=(lambda A, *, shape: Reshape(A, shape),),
    type=_type_reshape,
    batch=lambda prim, size, args, batched, params: prim(args[0], shape=(size, *params["shape"])),
    code="np.reshape({0}, {shape})",
)
permute = primitive(
    "permute",
    lambda a, *, axes: a.transpose(axes) if type(a) is np.ndarray else np.transpose(a, axes),
    blocks=(lambda A, *, axes: Transpose(A, axes),),
    type=lambda a, *, axes: Type(tuple(a.shape[k] for k in axes), a.dtype),
    batch=lambda prim, size, args, batched, params: prim(
        args[0], axes=(0, *[k + 1 for k in params["axes"]])
    ),
    code="np.transpose({0}, {axes})",
    text="{0}ᵀ",
)
broadcast_to = primitive(
    "broadcast_to",
    lambda a, *, shape: np.broadcast_to(a, shape),
    blocks=(lambda A, *, shape: Broadcast(A, shape),),
    type=_type_broadcast,
    batch=_batch_broadcast,
    code="np.broadcast_to({0}, {shape})",
)
# `starts` are the offsets of the parts along the axis, and the end
concatenate = primitive(
    "concatenate",
    lambda *parts, axis, starts: np.concatenate(parts, axis=axis),
    blocks=_concatenate_block,
    wants=lambda i, n: (),
    type=lambda *types, axis, starts: _concatenated(*types, axis=axis),
    batch=_batch_concatenate,
    code="np.concatenate([{args}], axis={axis})",
)
