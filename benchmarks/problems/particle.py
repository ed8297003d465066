"""particle: steer a charged particle through the origin, its path in the field of two charges by Euler's rule.

The force is a derivative of the potential, inside a loop whose end depends on the path, inside the function
that gradient descent differentiates. Each of the two derivatives is taken forward or in reverse.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import backsolve as bs

from .base import Function
from .descent import GRADIENTS, VARIANTS, argmin

STEP = 0.1


def potential(x: Any, w: Any) -> Any:
    above = np.sqrt((x[0] - 10) ** 2 + (x[1] - (10 - w)) ** 2)
    below = np.sqrt((x[0] - 10) ** 2 + x[1] ** 2)
    return 1 / above + 1 / below


def miss(w: Any, gradient: Any) -> Any:
    """The squared distance from the origin at which the particle crosses the axis."""
    x, velocity = np.array([0.0, 8.0]), np.array([0.75, 0.0])
    while True:
        acceleration = -gradient(potential)(x, w)
        x = x + STEP * velocity
        if x[1] <= 0:
            break
        velocity = velocity + STEP * acceleration
    crossing = x[0] - x[1] / velocity[1] * velocity[0]
    return crossing**2


def best_control(w: Any, modes: str) -> Any:
    outer, inner = (GRADIENTS[mode] for mode in modes)
    return argmin(lambda w: miss(w, inner), w, outer)


def prepare(message: dict[str, Any]) -> tuple[float]:
    return (float(message["w"]),)


functions = {modes: Function(bs.jit(partial(best_control, modes=modes))) for modes in VARIANTS}
derivative = VARIANTS
sizes: dict[str, dict[str, Any]] = {"small": {}}


def generate(rng: Any) -> dict[str, Any]:
    return {"w": 0.0}
