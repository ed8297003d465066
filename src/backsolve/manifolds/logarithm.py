"""Logarithms of positive matrices, with derivatives where eigenvalues agree: eigenvectors have none there.

log a = ∫ (a − 1) (a + t)⁻¹ dt / (1 + t) over all t above 0, by Gauss and Legendre's rule: in v, with
t = c sinh² v, up to t = 1, and from there in the same way by 1 / t. It is right to rounding for eigenvalues
from 10⁻¹⁶ to 10³ of their mean.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..primitive import P
from ..tensor import Tensor


def logarithm(a: Any) -> Any:
    """Of a stack of positive matrices; where nothing varies, by eigenvectors, which cost less."""
    if not isinstance(a, Tensor):
        values, vectors = np.linalg.eigh(a)
        return (vectors * np.log(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    one = np.eye(a.shape[-1], dtype=a.dtype)
    # a = τ s, where the eigenvalues of s have the mean 1; of no positive matrix it is NaN
    size = np.trace(a, axis1=-2, axis2=-1)[..., None, None] / a.shape[-1]
    least = np.linalg.eigvalsh(P.detach(a))[..., :1, None]
    size = np.where(least > 1e-16 * P.detach(size), size, np.nan)
    s = a / size
    shape = (-1, *[1] * len(a.shape))
    r, weights = (np.reshape(x, shape).astype(a.dtype) for x in _nodes())
    parts = np.linalg.solve((1 - r) * s + r * one, s - one + np.zeros_like(r))
    return np.sum(weights * parts, axis=0) + np.log(size) * one


@functools.cache
def _nodes() -> tuple[Any, Any]:
    """r and w with log s = Σ w (s − 1) ((1 − r) s + r)⁻¹, where r = t / (1 + t)."""
    found = [_half(1e-16, 96), _half(1e-3, 40)]
    (t, v), (u, w) = found
    nodes = np.concatenate([t / (1 + t), 1 / (1 + u)])
    weights = np.concatenate([v / (1 + t) ** 2, w / (1 + u) ** 2])
    return nodes, weights


def _half(c: float, count: int) -> tuple[Any, Any]:
    """Nodes and weights for t from 0 to 1."""
    x, w = np.polynomial.legendre.leggauss(count)
    end = np.arcsinh(c**-0.5)
    v = 0.5 * end * (1 + x)
    return c * np.sinh(v) ** 2, c * np.sinh(2 * v) * 0.5 * end * w
