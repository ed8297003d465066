"""Symmetric positive matrices with the metric tr(x⁻¹ u x⁻¹ v), the same in every basis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..primitive import P
from .base import (
    Manifold,
    check_square,
    from_symmetric,
    only_one,
    symmetric,
    symmetric_of,
    transposed,
)
from .logarithm import logarithm


@dataclass(frozen=True)
class PositiveDefinite(Manifold):
    """Symmetric positive matrices; no step leaves them."""

    axes = 2

    def dimension(self, shape: tuple[int, ...]) -> int:
        return self._stacked(shape, lambda s: s[0] * (s[0] + 1) // 2)

    def random_point(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        a = rng.normal(size=shape)
        return a @ transposed(a) / shape[-1] + np.eye(shape[-1])

    def project(self, x: Any, u: Any) -> Any:
        return symmetric(u)

    def gradient(self, x: Any, g: Any) -> Any:
        return x @ symmetric(g) @ x

    def connection(self, x: Any, u: Any, v: Any) -> Any:
        return -symmetric(u @ np.linalg.solve(x, v))

    def retract(self, x: Any, u: Any) -> Any:
        # = ½ (x + (x + u) x⁻¹ (x + u)), so positive for every u
        return symmetric(x + u + 0.5 * u @ np.linalg.solve(x, u))

    def transport(self, x: Any, y: Any, u: Any) -> Any:
        return u  # symmetric matrices are tangents everywhere

    def inner(self, x: Any, u: Any, v: Any) -> Any:
        product = np.linalg.solve(x, u) * transposed(np.linalg.solve(x, v))
        return np.sum(product, axis=(-2, -1), keepdims=True)

    def nearest(self, x: Any) -> Any:
        """With every eigenvalue at least a few rounding errors above 0."""
        check_square(x.shape, self)
        values, vectors = np.linalg.eigh(symmetric(x))
        size = np.max(np.abs(values), axis=-1, keepdims=True, initial=0)
        least = 8 * x.shape[-1] * np.finfo(x.dtype).eps * np.where(size > 0, size, 1)
        return symmetric((vectors * np.maximum(values, least)[..., None, :]) @ transposed(vectors))

    def check(self, x: Any) -> None:
        super().check(x)
        values = np.linalg.eigvalsh(x)
        if x.size and not np.all(values[..., 0] > np.finfo(x.dtype).eps * values[..., -1]):
            raise ShapeError(
                f"this array is no point of {self}: its least eigenvalue is {np.min(values[..., 0]):.1e}; "
                "declare manifold.nearest(x) instead"
            )

    def exp(self, x: Any, u: Any) -> Any:
        c, inner = _seen_from(x, u)
        return symmetric(c @ P.expm(inner) @ transposed(c))

    def log(self, x: Any, y: Any) -> Any:
        c, inner = _seen_from(x, y)
        return symmetric(c @ logarithm(inner) @ transposed(c))

    def squared_distance(self, x: Any, y: Any) -> Any:
        _, inner = _seen_from(x, y)
        return np.sum(logarithm(inner) ** 2)

    # With x = c cᵀ, tangents c s cᵀ of symmetric s have the lengths of s.

    def embed(self, x: Any, t: Any) -> Any:
        only_one(x, 2, self)
        c = np.linalg.cholesky(x)
        return c @ symmetric_of(t, x.shape[0]) @ c.T

    def embed_adjoint(self, x: Any, u: Any) -> Any:
        only_one(x, 2, self)
        c = np.linalg.cholesky(x)
        return from_symmetric(c.T @ u @ c)

    def coordinates(self, x: Any, u: Any) -> Any:
        only_one(x, 2, self)
        c = np.linalg.cholesky(x)
        return from_symmetric(np.linalg.solve(c, np.linalg.solve(c, u).T))


def _seen_from(x: Any, u: Any) -> tuple[Any, Any]:
    """c with x = c cᵀ, and c⁻¹ u c⁻ᵀ."""
    c = np.linalg.cholesky(x)
    return c, symmetric(np.linalg.solve(c, transposed(np.linalg.solve(c, u))))
