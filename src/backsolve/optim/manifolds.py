"""Manifolds that parameters stay on: what a tangent is, how to move along one, how to carry one along.

Matrices are the last two axes; leading axes are points beside each other. Retractions agree with geodesics to
first order (Absil, Mahony and Sepulchre, 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ShapeError


@dataclass(frozen=True)
class Manifold:
    """The whole space: every direction is a tangent, and moving is adding. Others override what differs."""

    rank = 0  # axes of one point; 0 where it is the whole array

    def project(self, x: Any, u: Any) -> Any:
        """The tangent at x nearest to u."""
        return u

    def gradient(self, x: Any, g: Any) -> Any:
        """The tangent of steepest ascent, from the derivatives with respect to all entries."""
        return self.project(x, g)

    def retract(self, x: Any, u: Any) -> Any:
        """The point that is reached from x along the tangent u."""
        return x + u

    def transport(self, x: Any, y: Any, u: Any) -> Any:
        """A tangent at x as one at y."""
        return self.project(y, u)

    def inner(self, x: Any, u: Any, v: Any) -> Any:
        """⟨u, v⟩ of tangents at x, one number for each point, with axes of length 1 for those of a point."""
        axes = tuple(range(-self.rank, 0)) if self.rank else None
        return np.sum(u * v, axis=axes, keepdims=True)

    def nearest(self, x: Any) -> Any:
        """A point near to x, which need not be one."""
        return x


Euclidean = Manifold


@dataclass(frozen=True)
class Sphere(Manifold):
    """Arrays of length 1, taken as one vector."""

    def project(self, x: Any, u: Any) -> Any:
        return u - np.sum(x * u) * x

    def retract(self, x: Any, u: Any) -> Any:
        return self.nearest(x + u)

    def nearest(self, x: Any) -> Any:
        return x / np.sqrt(np.sum(x * x))


@dataclass(frozen=True)
class Oblique(Manifold):
    """Matrices whose columns have length 1."""

    rank = 2

    def project(self, x: Any, u: Any) -> Any:
        return u - np.sum(x * u, axis=-2, keepdims=True) * x

    def retract(self, x: Any, u: Any) -> Any:
        return self.nearest(x + u)

    def nearest(self, x: Any) -> Any:
        return x / np.sqrt(np.sum(x * x, axis=-2, keepdims=True))


@dataclass(frozen=True)
class Stiefel(Manifold):
    """Matrices of orthonormal columns; `retraction` by "qr" or by "cayley", a rotation."""

    retraction: str = "qr"
    rank = 2

    def __post_init__(self) -> None:
        if self.retraction not in ("qr", "cayley"):
            raise ValueError(f'a retraction is by "qr" or "cayley", got {self.retraction!r}')

    def project(self, x: Any, u: Any) -> Any:
        return u - x @ _symmetric(_t(x) @ u)

    def retract(self, x: Any, u: Any) -> Any:
        if self.retraction == "qr":
            return self.nearest(x + u)
        # W = P u xᵀ − x uᵀ P with P = 1 − ½ x xᵀ is skew and W x = u
        part = u - 0.5 * x @ (_t(x) @ u)
        half = 0.5 * (part @ _t(x) - x @ _t(part))
        one = np.eye(x.shape[-2], dtype=x.dtype)
        return np.linalg.solve(one - half, x + half @ x)

    def nearest(self, x: Any) -> Any:
        if x.shape[-2] < x.shape[-1]:
            raise ShapeError(f"orthonormal columns need as many rows at least, got {x.shape}")
        q, r = np.linalg.qr(x)
        signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0).astype(x.dtype)
        return q * signs[..., None, :]


@dataclass(frozen=True)
class SpecialOrthogonal(Stiefel):
    """Rotations: orthogonal matrices of determinant 1. Steps keep the sign of the determinant."""

    def project(self, x: Any, u: Any) -> Any:
        turned = _t(x) @ u
        return x @ (0.5 * (turned - _t(turned)))

    def nearest(self, x: Any) -> Any:
        if x.shape[-2] != x.shape[-1]:
            raise ShapeError(f"rotations are square, got {x.shape}")
        return super().nearest(x)


@dataclass(frozen=True)
class PositiveDefinite(Manifold):
    """Symmetric positive matrices with the metric tr(x⁻¹ u x⁻¹ v), the same in every basis."""

    rank = 2

    def project(self, x: Any, u: Any) -> Any:
        return _symmetric(u)

    def gradient(self, x: Any, g: Any) -> Any:
        return x @ _symmetric(g) @ x

    def retract(self, x: Any, u: Any) -> Any:
        # = ½ (x + (x + u) x⁻¹ (x + u)), so positive for every u
        return _symmetric(x + u + 0.5 * u @ np.linalg.solve(x, u))

    def transport(self, x: Any, y: Any, u: Any) -> Any:
        return u  # symmetric matrices are tangents everywhere

    def inner(self, x: Any, u: Any, v: Any) -> Any:
        product = np.linalg.solve(x, u) * _t(np.linalg.solve(x, v))
        return np.sum(product, axis=(-2, -1), keepdims=True)

    def nearest(self, x: Any) -> Any:
        """With every eigenvalue at least a rounding error above 0."""
        values, vectors = np.linalg.eigh(_symmetric(x))
        least = np.finfo(x.dtype).eps * np.maximum(np.max(np.abs(values)), 1)
        return (vectors * np.maximum(values, least)[..., None, :]) @ _t(vectors)


def _t(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def _symmetric(x: Any) -> Any:
    return 0.5 * (x + _t(x))
