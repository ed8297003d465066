"""Results of the kind that went in: floats for floats, arrays for arrays, Tensors for Tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .primitive import wrap
from .tensor import Staged, Tensor


def same_kind(g: Any, like: Any) -> Any:
    """A derivative of the kind of the argument `like`: float, array or Tensor."""
    if type(g) is np.ndarray and type(like) is np.ndarray:
        return owned(g)
    if g is None:
        g = np.zeros(
            np.shape(like._v)
            if type(like) is Tensor
            else like.shape
            if hasattr(like, "shape")
            else (),
            like.dtype if hasattr(like, "dtype") else type(like),
        )[()]
    if isinstance(g, Tensor):
        if g.row is not None or isinstance(g, Staged):
            return g
        g = g._v
    if isinstance(like, Tensor):
        return g if isinstance(like, Staged) and isinstance(g, Tensor) else wrap(owned(g), None)
    if type(like) in (float, complex):
        return type(like)(g)
    return owned(g) if isinstance(like, np.ndarray) else g


def owned(g: Any) -> Any:
    """An array of the caller's own: writable, and shared with nothing."""
    if type(g) is np.ndarray:
        flags = g.flags
        if flags.owndata and flags.writeable:
            return g
    return np.array(g, order="C")


def distinct(arrays: Sequence[Any]) -> list[Any]:
    """The same adjoint may reach two arguments; callers must not find them aliased."""
    if len(arrays) < 2:
        return [*arrays]
    seen: set[int] = set()
    out = []
    for g in arrays:
        if isinstance(g, np.ndarray):
            if id(g) in seen:
                g = g.copy()
            seen.add(id(g))
        out.append(g)
    return out
