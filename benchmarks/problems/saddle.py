"""saddle: the point x that minimises the maximum over y of |x|² − |y|², by descent inside descent.

The inner maximum is itself found by gradient descent, and the outer descent differentiates through it.
Each of the two derivatives is taken forward or in reverse.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import backsolve as bs

from .base import Function
from .descent import GRADIENTS, VARIANTS, argmax, argmin


def f(x: Any, y: Any) -> Any:
    return np.sum(x * x) - np.sum(y * y)


def largest(x: Any, start: Any, gradient: Any) -> Any:
    return f(x, argmax(lambda y: f(x, y), start, gradient))


def saddle_point(start: Any, modes: str) -> Any:
    outer, inner = (GRADIENTS[mode] for mode in modes)
    x = argmin(lambda x: largest(x, start, inner), start, outer)
    y = argmax(lambda y: f(x, y), start, inner)
    return np.concatenate([x, y])


def prepare(message: dict[str, Any]) -> tuple[np.ndarray]:
    return (np.array(message["start"], dtype=float),)


functions = {modes: Function(bs.jit(partial(saddle_point, modes=modes))) for modes in VARIANTS}
derivative = VARIANTS
sizes: dict[str, dict[str, Any]] = {"small": {}}


def generate(rng: Any) -> dict[str, Any]:
    return {"start": [1.0, 1.0]}
