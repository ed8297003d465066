"""Batching rules shared by many rows.

A rule `batch(prim, size, args, batched, params)` gets arguments of which some carry a batch of
`size` examples along a leading axis, and returns the result with the batch along its leading axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitive import P, Primitive


def rank(a: Any) -> int:
    return len(getattr(a, "shape", ()))


def spread(a: Any, size: int) -> Any:
    """An unbatched argument copied for every example."""
    return np.broadcast_to(a, (size, *np.shape(a)))


def elementwise(prim: Primitive, size: int, args: Any, batched: Any, params: Any) -> Any:
    """Put ones between the batch axis and the example's axes, so that ranks agree."""
    if len(args) == 1:
        return prim(*args, **params)
    ranks = [rank(a) - b for a, b in zip(args, batched, strict=True)]
    full = max(ranks)
    aligned = [
        P.reshape(a, shape=(size, *[1] * (full - r), *a.shape[1:])) if b and r < full else a
        for a, b, r in zip(args, batched, ranks, strict=True)
    ]
    return prim(*aligned, **params)


def over_axes(prim: Primitive, size: int, args: Any, batched: Any, params: Any) -> Any:
    """Reductions and scans: their axes move by one."""
    axis = params["axis"]
    shifted = tuple(k + 1 for k in axis) if isinstance(axis, tuple) else axis + 1
    full = [a if b else spread(a, size) for a, b in zip(args, batched, strict=True)]
    return prim(*full, **{**params, "axis": shifted})


def one_by_one(prim: Primitive, size: int, args: Any, batched: Any, params: Any) -> Any:
    """Always right: run every example and stack."""
    results = [
        prim(*[a[k] if b else a for a, b in zip(args, batched, strict=True)], **params)
        for k in range(size)
    ]
    return np.stack(results)
