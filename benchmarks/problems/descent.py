"""Gradient descent for particle and saddle: its step grows after ten successes, shrinks after a failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import backsolve as bs

ENOUGH = 1e-5  # no shorter gradient, no shorter step is worth going on for


def forward_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """`bs.grad` by forward mode: one direction after the other."""

    def gradient(x: Any, *rest: Any) -> Any:
        def along(direction: Any) -> Any:
            return bs.jvp(lambda x: f(x, *rest), (x,), (direction,))[1]

        if np.ndim(x) == 0:
            return along(1.0)
        return np.stack([along(unit) for unit in np.eye(len(x))])

    return gradient


GRADIENTS = {"f": forward_gradient, "r": bs.grad}
VARIANTS = ("ff", "fr", "rf", "rr")  # outer derivative, inner derivative


def length(v: Any) -> Any:
    return np.sqrt(np.sum(v * v))


def argmin(f: Any, start: Any, gradient: Any) -> Any:
    """A local minimum of f near `start`; `gradient` turns f into its gradient."""
    x, value, slope = start, f(start), gradient(f)(start)
    eta, successes = 1e-5, 0
    while length(slope) > ENOUGH:
        if successes == 10:
            eta, successes = 2 * eta, 0
            continue
        x_new = x - eta * slope
        if length(x_new - x) <= ENOUGH:
            break
        value_new = f(x_new)
        if value_new < value:
            x, value, slope = x_new, value_new, gradient(f)(x_new)
            successes = successes + 1
        else:
            eta, successes = eta / 2, 0
    return x


def argmax(f: Any, start: Any, gradient: Any) -> Any:
    return argmin(lambda x: -f(x), start, gradient)
