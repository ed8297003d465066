"""Parameters as one vector: what rules need that mix all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..declared import no_points
from .base import _real


def as_vector(parameters: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All numbers of a container one behind the other, and the way back.

    >>> v, back = as_vector({"a": np.ones((2, 2)), "b": np.zeros(1)})
    >>> v, back(2 * v)["b"]
    (array([1., 1., 1., 1., 0.]), array([0.]))
    """
    no_points(parameters, "this rule")
    leaves, structure = tree.flatten(parameters)
    leaves = [_real(p) for p in leaves]
    if any(p.dtype.kind == "c" for p in leaves):
        raise TypeError(
            "this rule takes real parameters: a complex one as its real and imaginary part"
        )
    dtype = np.result_type(*(p.dtype for p in leaves)) if leaves else np.dtype(float)
    parts = [np.reshape(p, (-1,)).astype(dtype) for p in leaves]
    vector = parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.zeros(0)
    shapes, dtypes = [np.shape(p) for p in leaves], [p.dtype for p in leaves]
    ends = np.cumsum([0, *[int(np.prod(s)) for s in shapes]]).tolist()

    def back(v: Any) -> Any:
        return structure.unflatten(
            [
                np.reshape(v[a:b], shape).astype(dtype)
                for a, b, shape, dtype in zip(ends, ends[1:], shapes, dtypes, strict=False)
            ]
        )

    return vector, back
