"""Small functions as they are mapped over many points: dynamics, geometry, layers, densities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

RNG = np.random.default_rng(0)
Case = tuple[str, Callable[[Any], Any], Any]


def lorenz(x: Any) -> Any:
    return np.stack([10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]])


def kepler(x: Any) -> Any:
    r = np.sqrt(x[0] ** 2 + x[1] ** 2)
    return np.concatenate([x[2:], -x[:2] / r**3])


def cart_pole(x: Any) -> Any:
    s, c = np.sin(x[1]), np.cos(x[1])
    push = (s * (0.5 * x[3] ** 2 + 9.81 * c) + x[4]) / (1 + 0.3 * s * s)
    return np.stack([x[2], x[3], push, -(push * c + 9.81 * s) / 0.5])


def arm(x: Any) -> Any:
    at = np.cumsum(x)
    return np.stack([np.cos(at).sum(), np.sin(at).sum()])


def camera(x: Any) -> Any:
    """A point seen by a camera: turned by a vector (Rodrigues), moved, divided by its depth."""
    w, t, p = x[:3], x[3:6], x[6:]
    angle = np.sqrt(w @ w + 1e-9)
    k = w / angle
    cross = np.stack(
        [k[1] * p[2] - k[2] * p[1], k[2] * p[0] - k[0] * p[2], k[0] * p[1] - k[1] * p[0]]
    )
    p = p * np.cos(angle) + cross * np.sin(angle) + k * (k @ p) * (1 - np.cos(angle)) + t
    return p[:2] / p[2]


def runge_kutta(x: Any) -> Any:
    h = 0.01
    a = lorenz(x)
    b = lorenz(x + h / 2 * a)
    c = lorenz(x + h / 2 * b)
    return x + h / 6 * (a + 2 * b + 2 * c + lorenz(x + h * c))


def network(*widths: int) -> Callable[[Any], Any]:
    layers = [RNG.normal(size=(b, a)) / a for a, b in zip(widths, widths[1:], strict=False)]

    def f(x: Any) -> Any:
        for W in layers:
            x = np.tanh(W @ x)
        return x

    return f


def cases() -> Iterator[Case]:
    yield "Lorenz", lorenz, 3
    yield "Lorenz, a step of Runge–Kutta", runge_kutta, 3
    yield "Kepler", kepler, 4
    yield "cart and pole", cart_pole, 5
    yield "arm of 6 joints", arm, 6
    yield "camera", camera, 9
    yield "Rosenbrock", lambda x: np.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]]), 2
    yield "decay", lambda x: x[0] * np.exp(-x[1] * np.linspace(0, 1, 20)) + x[2], 3
    yield "spiral", lambda t: np.stack([t[0] * np.cos(t[0]), t[0] * np.sin(t[0])]), 1
    for n in (1, 6, 40):
        yield f"elementwise {n}", lambda x: np.sin(x) * np.exp(-x) + x**2, n
    for n in (6, 40):
        yield f"neighbours {n}", lambda x: x * np.roll(x, 1) - 2 * np.roll(x, -1), n
        yield f"softmax {n}", lambda x: np.exp(x) / np.exp(x).sum(), n
        yield f"running sum {n}", lambda x: np.cumsum(np.sin(x)), n
        yield f"log-sum-exp {n}", lambda x: np.log(np.exp(x).sum()), n
    yield "outer 5", lambda x: np.outer(x, np.sin(x)), 5
    yield (
        "distances of 4 points",
        lambda x: np.sum((x.reshape(4, 1, 2) - x.reshape(1, 4, 2)) ** 2, -1),
        8,
    )
    yield "quadratic form 6", lambda x: np.sin(x) @ (np.outer(x, x) @ x), 6
    for widths in ((12, 3), (3, 12), (2, 20, 20, 1), (6, 30, 6), (4, 16, 16, 16, 4), (1, 30, 30)):
        yield f"net {'-'.join(map(str, widths))}", network(*widths), widths[0]
