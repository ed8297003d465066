"""lse: the logarithm of a sum of exponentials, in the form that does not overflow, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

import backsolve as bs

from .base import Function


def logsumexp(x: Any) -> Any:
    largest = np.max(x)
    return largest + np.log(np.sum(np.exp(x - largest)))


def prepare(message: dict[str, Any]) -> tuple[np.ndarray]:
    return (np.array(message["x"], dtype=float),)


functions = {
    "primal": Function(bs.jit(logsumexp)),
    "gradient": Function(bs.jit(bs.grad(logsumexp))),
}
derivative = ("gradient",)
sizes = {"small": {"n": 2500}, "middle": {"n": 160_000}, "large": {"n": 1_280_000}}


def generate(rng: Any, n: int) -> dict[str, Any]:
    return {"x": rng.random(n).tolist()}
