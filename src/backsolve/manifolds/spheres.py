"""Arrays, or columns, of length 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb, factorial, prod
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

    def squared_distance(self, x: Any, y: Any) -> Any:
        return np.sum(square_angle(self, x, y, None))

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

    def squared_distance(self, x: Any, y: Any) -> Any:
        return np.sum(square_angle(self, x, y, -2))


def along_circle(x: Any, u: Any, axis: Any) -> Any:
    square = np.sum(u * u, axis=axis, keepdims=True)
    return of_root(square, _COSINE, np.cos) * x + of_root(square, _SINC, _sinc) * u


def back_along_circle(manifold: Manifold, x: Any, y: Any, axis: Any) -> Any:
    """The tangent of this length towards y; NaN to the opposite point, where all directions lead."""
    part, square, cosine = _apart(manifold, x, y, axis)
    return part * arc(square, cosine)


def square_angle(manifold: Manifold, x: Any, y: Any, axis: Any) -> Any:
    """The square of the angle between, which has derivatives at 0, too."""
    _, square, cosine = _apart(manifold, x, y, axis)
    is_opposite = (square == 0) & (cosine < 0)
    return np.where(is_opposite, np.pi**2, square * arc(square, cosine) ** 2)


def _apart(manifold: Manifold, x: Any, y: Any, axis: Any) -> tuple[Any, Any, Any]:
    """y − x along tangents, the square of its length, which is the sine, and the cosine: small angles by the
    cosine alone would lose half of their digits."""
    part = manifold.project(x, y - x)
    square = np.sum(part * part, axis=axis, keepdims=True)
    return part, square, np.sum(x * y, axis=axis, keepdims=True)


def arc(square: Any, cosine: Any) -> Any:
    """An angle over its sine, of which the square is given; NaN of half a turn."""
    whole = np.where((square == 0) & (cosine < 0), np.nan, square)
    return of_root(whole, _ARC, lambda sine: np.arctan2(sine, cosine) / sine, cosine > 0)


def of_root(square: Any, terms: Sequence[float], f: Callable[[Any], Any], also: Any = True) -> Any:
    """f(√square) of an even f, which has derivatives at 0 where the root has none: near to it (and where `also`
    holds) by the terms of its series."""
    is_near = (square < 0.01) & also
    near: Any = np.where(is_near, square, 0)
    series: Any = 0.0
    for term in reversed(terms):
        series = series * near + term
    return np.where(is_near, series, f(np.sqrt(np.where(is_near, 1, square))))


def _sinc(x: Any) -> Any:
    return np.sin(x) / x


# of powers of the square: cos x, sin x / x, and arcsin x / x
_COSINE = [(-1) ** k / factorial(2 * k) for k in range(10)]
_SINC = [(-1) ** k / factorial(2 * k + 1) for k in range(10)]
_ARC = [comb(2 * k, k) / 4**k / (2 * k + 1) for k in range(10)]


def mirror(x: Any, u: Any) -> Any:
    """u mirrored so that ±e₀ comes to x, a unit vector: the other axes come to a basis of its tangents."""
    sign = np.where(x[0] < 0, -1.0, 1.0).astype(x.dtype)
    first = np.eye(1, x.shape[0], dtype=x.dtype)[0]
    v = x + sign * first
    return u - 2 * np.sum(v * u) / np.sum(v * v) * v
