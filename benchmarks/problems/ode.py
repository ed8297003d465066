"""ode: y₀′ = x₀, yᵢ′ = xᵢ yᵢ₋₁ from y(0) = 0 to t = 2 by s Runge–Kutta steps; the gradient of the last y."""

from __future__ import annotations

from typing import Any

import numpy as np

import backsolve as bs

from .base import Function


def slope(x: Any, y: Any) -> Any:
    z = np.zeros_like(x)
    z[0] = x[0]
    z[1:] = x[1:] * y[:-1]
    return z


def solution(x: Any, steps: int) -> Any:
    h = 2.0 / steps
    y = np.zeros_like(x)
    for _ in range(steps):
        k1 = slope(x, y)
        k2 = slope(x, y + h / 2 * k1)
        k3 = slope(x, y + h / 2 * k2)
        k4 = slope(x, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def last(x: Any, steps: int) -> Any:
    return solution(x, steps)[-1]


def prepare(message: dict[str, Any]) -> tuple[np.ndarray, int]:
    return np.array(message["x"], dtype=float), message["s"]


functions = {
    "primal": Function(bs.jit(solution, static_argnums=1)),
    "gradient": Function(bs.jit(bs.grad(last), static_argnums=1)),
}
derivative = ("gradient",)
sizes = {
    "small": {"n": 1000, "s": 10},
    "middle": {"n": 10_000, "s": 100},
    "large": {"n": 100_000, "s": 100},
}


def generate(rng: Any, n: int, s: int) -> dict[str, Any]:
    return {"x": rng.random(n).tolist(), "s": s}
