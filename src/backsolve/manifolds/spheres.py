"""Arrays, or columns, of length 1."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from .base import Manifold


@dataclass(frozen=True)
class Sphere(Manifold):
    """Arrays of length 1, taken as one vector."""

    def dimension(self, shape: tuple[int, ...]) -> int:
        return prod(shape) - 1

    def project(self, x: Any, u: Any) -> Any:
        return u - np.sum(x * u) * x

    def retract(self, x: Any, u: Any) -> Any:
        return self.nearest(x + u)

    def nearest(self, x: Any) -> Any:
        return x / np.sqrt(np.sum(x * x))

    def exp(self, x: Any, u: Any) -> Any:
        return along_circle(x, u, None)

    def log(self, x: Any, y: Any) -> Any:
        return back_along_circle(self, x, y, None)

    def distance(self, x: Any, y: Any) -> Any:
        return np.sqrt(np.sum(_angle(self, x, y, None)[2] ** 2))

    def embed(self, x: Any, t: Any) -> Any:
        return mirror(x.reshape(-1), np.concatenate([np.zeros(1, t.dtype), t])).reshape(x.shape)

    def embed_adjoint(self, x: Any, u: Any) -> Any:
        return mirror(x.reshape(-1), u.reshape(-1))[1:]


@dataclass(frozen=True)
class Oblique(Manifold):
    """Matrices whose columns have length 1."""

    axes = 2

    def dimension(self, shape: tuple[int, ...]) -> int:
        return self._stacked(shape, lambda s: (s[0] - 1) * s[1])

    def project(self, x: Any, u: Any) -> Any:
        return u - np.sum(x * u, axis=-2, keepdims=True) * x

    def retract(self, x: Any, u: Any) -> Any:
        return self.nearest(x + u)

    def nearest(self, x: Any) -> Any:
        return x / np.sqrt(np.sum(x * x, axis=-2, keepdims=True))

    def exp(self, x: Any, u: Any) -> Any:
        return along_circle(x, u, -2)

    def log(self, x: Any, y: Any) -> Any:
        return back_along_circle(self, x, y, -2)

    def distance(self, x: Any, y: Any) -> Any:
        return np.sqrt(np.sum(_angle(self, x, y, -2)[2] ** 2))


def along_circle(x: Any, u: Any, axis: Any) -> Any:
    length = np.sqrt(np.sum(u * u, axis=axis, keepdims=True))
    return np.cos(length) * x + np.sinc(length / np.pi) * u


def back_along_circle(manifold: Manifold, x: Any, y: Any, axis: Any) -> Any:
    """The tangent of this length towards y; NaN to the opposite point, where all directions lead."""
    part, sine, angle = _angle(manifold, x, y, axis)
    same = np.where(angle > 1, np.nan, 1.0).astype(x.dtype)
    return part * np.where(sine > 0, angle / np.where(sine > 0, sine, 1), same)


def _angle(manifold: Manifold, x: Any, y: Any, axis: Any) -> tuple[Any, Any, Any]:
    """y − x along tangents, and the sine and the angle between: small angles by the cosine alone would lose
    half of their digits."""
    part = manifold.project(x, y - x)
    sine = np.sqrt(np.sum(part * part, axis=axis, keepdims=True))
    return part, sine, np.arctan2(sine, np.sum(x * y, axis=axis, keepdims=True))


def mirror(x: Any, u: Any) -> Any:
    """u mirrored so that ±e₀ comes to x, a unit vector: the other axes come to a basis of its tangents."""
    sign = np.where(x[0] < 0, -1.0, 1.0).astype(x.dtype)
    first = np.eye(1, x.shape[0], dtype=x.dtype)[0]
    v = x + sign * first
    return u - 2 * np.sum(v * u) / np.sum(v * v) * v
