"""llsq: half the sum of squares of sign(t) − x₀ − x₁ t − x₂ t² − …, over n points t from −1 to 1.

The polynomial is evaluated by Horner's rule. Its derivative with respect to x needs nothing but t: the
adjoint is multiplied by t from coefficient to coefficient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import backsolve as bs

from .base import Function


def objective(x: Any, t: Any) -> Any:
    polynomial = np.zeros_like(t)
    for coefficient in x[::-1]:
        polynomial = polynomial * t + coefficient
    return np.sum((np.sign(t) - polynomial) ** 2) / 2


def prepare(message: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    n = message["n"]
    return np.array(message["x"], dtype=float), -1 + np.arange(n) * 2 / (n - 1)


functions = {
    "primal": Function(bs.jit(objective)),
    "gradient": Function(bs.jit(bs.grad(objective))),
}
derivative = ("gradient",)
sizes = {
    "small": {"n": 256, "m": 128},
    "middle": {"n": 16_392, "m": 128},
    "large": {"n": 131_072, "m": 128},
}


def generate(rng: Any, n: int, m: int) -> dict[str, Any]:
    return {"x": rng.random(m).tolist(), "n": n}
