"""Norms of vectors along an axis, and what is measured by them."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from ...numpy._register import array, dtype_of, ndim_of, one_axis, shape_of
from ...primitive import P


def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Any:
    """x / max(‖x‖, eps), with the p-norm along an axis (or several).

    >>> import numpy as np
    >>> normalize(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    x = array(input)
    return x / at_least(vector_norm(x, p, dim, True), eps)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """x1·x2 / (max(‖x1‖, eps) max(‖x2‖, eps)) along an axis; the arrays are broadcast."""
    x1, x2 = array(x1), array(x2)
    shape = np.broadcast_shapes(shape_of(x1), shape_of(x2))
    x1, x2 = (x if shape_of(x) == shape else np.broadcast_to(x, shape) for x in (x1, x2))
    axis = one_axis(dim, len(shape))
    u, v = (x / at_least(vector_norm(x, 2.0, axis, True), eps) for x in (x1, x2))
    return np.sum(u * v, axis=axis)


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """‖x1 − x2 + eps‖, with the p-norm along the last axis."""
    return vector_norm(array(x1) - array(x2) + eps, p, -1, keepdim)


def at_least(x: Any, bound: float) -> Any:
    """max(x, bound), whose derivative at the bound is that of x."""
    return np.where(x < bound, bound, x)


def vector_norm(x: Any, p: float, dim: Any, keepdim: bool) -> Any:
    """(Σ |x|ᵖ)^(1/p), whose derivative at 0 is 0."""
    dims = dim if isinstance(dim, tuple | list) else (dim,)
    axis = tuple(one_axis(k, ndim_of(x)) for k in dims)
    if p == 2:
        return P.norm(x, axis=axis, keepdims=keepdim)
    size = np.abs(x)
    if p == 1:
        return np.sum(size, axis=axis, keepdims=keepdim)
    if p == inf:
        return np.max(size, axis=axis, keepdims=keepdim)
    if p == -inf:
        return np.min(size, axis=axis, keepdims=keepdim)
    zero = np.equal(size, 0)
    if p == 0:
        return np.sum(np.logical_not(zero), axis=axis, keepdims=keepdim).astype(dtype_of(x))
    total = np.sum(np.where(zero, 0.0, np.where(zero, 1.0, size) ** p), axis=axis, keepdims=keepdim)
    none = np.equal(total, 0)
    return np.where(none, 0.0, np.where(none, 1.0, total) ** (1.0 / p))
