"""Steps of optimisers, for groups of arrays: (r, t, x…, gradient…, state…) ↦ (x…, state…)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .table import operator

_DOMAIN = "ai.onnx.preview.training"


def _each(arrays: tuple[Any, ...], kinds: int, step: Callable[..., tuple[Any, ...]]) -> Any:
    count = len(arrays) // kinds
    rows = [step(*arrays[k::count]) for k in range(count)]
    return tuple(a for column in zip(*rows, strict=True) for a in column)


@operator("Adagrad", domain=_DOMAIN)
def adagrad(
    r: Any, t: Any, *arrays: Any, decay_factor: float = 0.0, epsilon: float = 0.0, norm_coefficient: float = 0.0
) -> Any:  # fmt: skip
    def step(x: Any, g: Any, h: Any) -> tuple[Any, ...]:
        g = norm_coefficient * x + g
        h = h + g * g
        rate = r / (1 + t * decay_factor)
        return (x - rate * g / (np.sqrt(h) + epsilon)).astype(x.dtype), h

    return _each(arrays, 3, step)


@operator("Adam", domain=_DOMAIN)
def adam(
    r: Any, t: Any, *arrays: Any, alpha: float = 0.9, beta: float = 0.999, epsilon: float = 0.0,
    norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> Any:  # fmt: skip
    def step(x: Any, g: Any, v: Any, h: Any) -> tuple[Any, ...]:
        g = norm_coefficient * x + g
        v = alpha * v + (1 - alpha) * g
        h = beta * h + (1 - beta) * g * g
        corrected = r * np.sqrt(1 - beta**t) / np.where(np.greater(t, 0), 1 - alpha**t, 1)
        rate = np.where(np.greater(t, 0), corrected, r)
        x_new = (1 - norm_coefficient_post) * (x - rate * v / (np.sqrt(h) + epsilon))
        return x_new.astype(x.dtype), v, h

    return _each(arrays, 4, step)


@operator("Momentum", domain=_DOMAIN)
def momentum(
    r: Any, t: Any, *arrays: Any, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> Any:
    def step(x: Any, g: Any, v: Any) -> tuple[Any, ...]:
        g = norm_coefficient * x + g
        v = alpha * v + np.where(np.greater(t, 0), beta, 1.0).astype(x.dtype) * g
        return x - r * (g + alpha * v if mode == "nesterov" else v), v

    return _each(arrays, 3, step)
