"""kmeans: the squared distances of points to their nearest centroids, and Newton's direction.

No two centroids share a term, and the coordinates are apart: the Hessian H is diagonal, so H·(1, …, 1) is
its diagonal, and one derivative of the gradient along that direction gives all of it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import backsolve as bs

from .base import Function


def cost(centroids: Any, points: Any) -> Any:
    squares = np.sum((points[:, None] - centroids) ** 2, axis=-1)
    return np.sum(np.min(squares, axis=1))


def cost_by_products(centroids: Any, points: Any) -> Any:
    """The same but for rounding, as one writes it where large products are what runs fastest."""
    squares = np.sum(points**2, 1)[:, None] + np.sum(centroids**2, 1) - 2 * points @ centroids.T
    return np.sum(np.min(squares, axis=1))


def direction(centroids: Any, points: Any, cost: Any = cost) -> Any:
    def gradient(c: Any) -> Any:
        return bs.grad(cost)(c, points)

    slope, diagonal = bs.jvp(gradient, (centroids,), (np.ones_like(centroids),))
    return slope / diagonal


def prepare(message: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    return np.array(message["centroids"], dtype=float), np.array(message["points"], dtype=float)


functions = {
    "cost": Function(bs.jit(cost)),
    "dir": Function(bs.jit(direction)),
    "dir by products": Function(bs.jit(partial(direction, cost=cost_by_products))),
}
derivative = ("dir",)
on_gpus = ("dir by products",)
sizes = {
    "small": {"k": 10, "n": 1000, "d": 8},
    "middle": {"k": 100, "n": 10_000, "d": 16},
    "large": {"k": 1000, "n": 10_000, "d": 16},
}


def generate(rng: Any, k: int, n: int, d: int) -> dict[str, Any]:
    points = rng.random((n, d)).tolist()
    return {"points": points, "centroids": points[-k:]}  # so that no cluster is empty
