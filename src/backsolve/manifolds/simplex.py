"""Probabilities: positive numbers along the last axis whose sum is 1, with Fisher's metric Σ u v / x."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import Manifold, only_one
from .spheres import along_circle, mirror


@dataclass(frozen=True)
class Simplex(Manifold):
    """x = s² with s on the sphere of radius 2 takes this metric to the usual one: geodesics are its circles."""

    axes = 1

    def dimension(self, shape: tuple[int, ...]) -> int:
        return self._stacked(shape, lambda s: s[0] - 1)

    def nearest(self, x: Any) -> Any:
        """Shifted and cut off at a rounding error above 0, then scaled."""
        positive = np.maximum(x, np.finfo(x.dtype).eps)
        return positive / np.sum(positive, axis=-1, keepdims=True)

    def random_point(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return self.nearest(rng.exponential(size=shape))

    def project(self, x: Any, u: Any) -> Any:
        return u - np.mean(u, axis=-1, keepdims=True)

    def gradient(self, x: Any, g: Any) -> Any:
        return x * (g - np.sum(x * g, axis=-1, keepdims=True))

    def inner(self, x: Any, u: Any, v: Any) -> Any:
        return np.sum(u * v / x, axis=-1, keepdims=True)

    def connection(self, x: Any, u: Any, v: Any) -> Any:
        # Γ of Σ u v / x on positive numbers is −½ u v / x; its part orthogonal to x, in the metric, is left out
        mixed = -0.5 * u * v / x
        return mixed - x * np.sum(mixed, axis=-1, keepdims=True)

    def retract(self, x: Any, u: Any) -> Any:
        """By x exp(u / x), scaled: positive for every u."""
        step = u / x
        raised = x * np.exp(step - np.max(step, axis=-1, keepdims=True))
        return raised / np.sum(raised, axis=-1, keepdims=True)

    def exp(self, x: Any, u: Any) -> Any:
        s = np.sqrt(x)
        return along_circle(s, 0.5 * u / s, -1) ** 2

    def log(self, x: Any, y: Any) -> Any:
        s, t = np.sqrt(x), np.sqrt(y)
        cosine = np.sum(s * t, axis=-1, keepdims=True)
        part = t - cosine * s
        sine = np.sqrt(np.sum(part * part, axis=-1, keepdims=True))
        angle = np.arctan2(sine, cosine)
        return 2 * s * part * np.where(sine > 0, angle / np.where(sine > 0, sine, 1), 1)

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
