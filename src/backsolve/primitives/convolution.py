"""Convolution of two vectors: NumPy's loop in eager mode, windows in batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..operators.convolution import Convolution, convolved
from ..operators.windows import Cut
from ..primitive import P, primitive


def _type(a: Type, v: Type, *, mode: str) -> Type:
    (n,), (m,) = a.shape, v.shape
    if not n or not m or (mode == "valid" and n < m):
        raise ValueError(f"a {mode} convolution of {n} and {m} entries has none")
    return Type((convolved(n, m, mode),), np.result_type(a.dtype, v.dtype))


def by_windows(a: Any, v: Any, mode: str) -> Any:
    """Along the last axis, for stacks of vectors: every window of a times v turned round."""
    m, rank = v.shape[-1], len(a.shape)
    if mode == "full":
        *around, n = a.shape
        spec = (*[(None, None, None)] * len(around), (m - 1, m - 1 + n, 1))
        a = P.unslice(a, spec=spec, shape=(*around, n + 2 * (m - 1)))
    windows = P.windows(a, cut=Cut((rank - 1,), (m,), (1,), (1,)))
    return np.einsum("...km,...m->...k", windows, v[..., ::-1])


convolve = primitive(
    "convolve",
    lambda a, v, *, mode: np.convolve(a, v, mode),
    blocks=(
        lambda A, b, *, mode: Convolution(A, b, mode),
        lambda a, B, *, mode: Convolution(B, a, mode, 1),
    ),
    type=_type,
    batch=lambda prim, size, args, batched, params: by_windows(*args, **params),
    code="np.convolve({0}, {1}, '{mode}')",
)
