"""Probabilities: positive numbers along the last axis whose sum is 1, with Fisher's metric Σ u v / x."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ShapeError
from .base import Manifold, only_one
from .spheres import along_circle, arc, mirror


@dataclass(frozen=True)
class Simplex(Manifold):
    """x = s² with s on the sphere of radius 2 takes this metric to the usual one: geodesics are its circles."""

    axes = 1

    def dimension(self, shape: tuple[int, ...]) -> int:
        return self._stacked(shape, lambda s: s[0] - 1)

    def nearest(self, x: Any) -> Any:
        """Cut off at a rounding error above 0, then scaled."""
        positive = np.maximum(x, np.finfo(x.dtype).eps)
        return positive / np.sum(positive, axis=-1, keepdims=True)

    def check(self, x: Any) -> None:
        super().check(x)
        if not np.all(x > 0):
            raise ShapeError(
                f"this array is no point of {self}: probabilities are above 0, where its metric is finite; "
                "declare manifold.nearest(x) instead"
            )

    def random_point(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return self.nearest(rng.exponential(size=shape))

    def project(self, x: Any, u: Any) -> Any:
        return u - np.mean(u, axis=-1, keepdims=True)

    def made_tangent(self, x: Any, u: Any) -> Any:
        # by shares of x: the same share for all would let rounding errors of large ones move small ones far
        return u - x * np.sum(u, axis=-1, keepdims=True)

    def gradient(self, x: Any, g: Any) -> Any:
        return x * (g - np.sum(x * g, axis=-1, keepdims=True))

    def inner(self, x: Any, u: Any, v: Any) -> Any:
        return np.sum(u * v / x, axis=-1, keepdims=True)

    def connection(self, x: Any, u: Any, v: Any) -> Any:
        # Γ of Σ u v / x on positive numbers is −½ u v / x; its part orthogonal to x, in the metric, is left out
        mixed = -0.5 * u * v / x
        return mixed - x * np.sum(mixed, axis=-1, keepdims=True)

    def retract(self, x: Any, u: Any) -> Any:
        """By x exp(u / x), scaled: positive for every u, with a least number whose square is no 0."""
        step = u / x
        raised = x * np.exp(step - np.max(step, axis=-1, keepdims=True))
        raised = np.maximum(raised, np.sqrt(np.finfo(x.dtype).tiny).astype(x.dtype))
        return raised / np.sum(raised, axis=-1, keepdims=True)

    def transport(self, x: Any, y: Any, u: Any) -> Any:
        """With u / x kept up to what they share: the velocity at y of the curve that `retract` goes along."""
        rate = u / x
        return y * (rate - np.sum(y * rate, axis=-1, keepdims=True))

    def exp(self, x: Any, u: Any) -> Any:
        """NaN where the geodesic ends before, at a probability of 0."""
        s, step = np.sqrt(x), 0.5 * u / np.sqrt(x)
        end = along_circle(s, step, -1)
        square = np.sum(step * step, axis=-1, keepdims=True)
        is_inside = np.all(end > 0, axis=-1, keepdims=True) & (square < (np.pi / 2) ** 2)
        return np.where(is_inside, end, np.nan) ** 2

    def log(self, x: Any, y: Any) -> Any:
        s, t = np.sqrt(x), np.sqrt(y)
        cosine = np.sum(s * t, axis=-1, keepdims=True)
        part = t - cosine * s
        return 2 * s * part * arc(np.sum(part * part, axis=-1, keepdims=True), cosine)

    def embed(self, x: Any, t: Any) -> Any:
        only_one(x, 1, self)
        s = np.sqrt(x)
        return s * mirror(s, np.concatenate([np.zeros(1, t.dtype), t]))

    def embed_adjoint(self, x: Any, u: Any) -> Any:
        only_one(x, 1, self)
        s = np.sqrt(x)
        return mirror(s, s * u)[1:]

    def coordinates(self, x: Any, u: Any) -> Any:
        return self.embed_adjoint(x, u / x)
