"""L-BFGS: Newton's direction from the last few steps, and a line search along it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..api import value_and_grad
from ..hooks import hooks
from .line_search import Point, strong_wolfe
from .solver import Solver
from .vectors import as_vector


@dataclass(frozen=True)
class LBFGSState:
    """The last steps and changes of the gradient, newest last, with 1/⟨s, y⟩ (0 where there is none yet)."""

    count: Any
    evaluations: Any
    value: Any
    error: Any
    is_stuck: Any
    gradient: Any
    steps: Any
    changes: Any
    weights: Any


@dataclass(frozen=True)
class LBFGS(Solver):
    """Limited-memory BFGS (Liu and Nocedal, 1989) with a line search by the strong conditions of Wolfe.

    The function is evaluated by the rule itself, so it is given in the place of gradients. A step that finds
    nothing lower leaves the parameters as they are and forgets the history.

    >>> import numpy as np
    >>> import backsolve as bs
    >>> f = lambda p: np.sum((p["x"] - np.arange(3.0)) ** 4 + p["x"] ** 2)
    >>> found, state = LBFGS().minimize(f, {"x": np.ones(3)})
    >>> bool(np.abs(bs.grad(f)(found)["x"]).max() < 1e-6)
    True
    """

    history_size: int = 10
    max_evaluations: int = 25

    def init(self, f: Callable[[Any], Any], parameters: Any) -> LBFGSState:
        x, back = as_vector(parameters)
        value, g = _evaluated(f, back, x)
        zero = np.zeros((), np.int64)
        past = np.zeros((self.history_size, *x.shape), x.dtype)
        weights = np.zeros(self.history_size, x.dtype)
        no = np.zeros((), bool)
        return LBFGSState(zero, zero + 1, value, _largest(g), no, g, past, past, weights)

    def update(
        self, f: Callable[[Any], Any], parameters: Any, state: LBFGSState
    ) -> tuple[Any, LBFGSState]:
        x, back = as_vector(parameters)
        d = -self._times_inverse(state)
        slope = np.sum(d * state.gradient)
        is_down = slope < 0  # else the history is of no use
        d = np.where(is_down, d, -state.gradient)
        slope = np.where(is_down, slope, -np.sum(state.gradient * state.gradient))
        size = np.sum(np.abs(state.gradient))
        is_first = np.logical_or(np.logical_not(is_down), state.weights[-1] == 0)
        first = np.where(is_first, np.minimum(1, 1 / np.where(size > 0, size, 1)), 1)

        def along(t: Any) -> Point:
            value, g = _evaluated(f, back, x + t * d)
            return Point(t, value, np.sum(g * d), g)

        start = Point(np.zeros((), x.dtype), state.value, slope, state.gradient)
        found, count = strong_wolfe(along, start, first.astype(x.dtype), self.max_evaluations)
        s, y = found.t * d, found.gradient - state.gradient
        product = np.sum(s * y)
        is_curved = product > np.finfo(x.dtype).eps * np.sum(y * y)
        weight = np.where(is_curved, 1 / np.where(is_curved, product, 1), 0).astype(x.dtype)
        is_stuck = np.all(x + s == x)
        return back(x + s), LBFGSState(
            state.count + 1,
            state.evaluations + count,
            found.value,
            _largest(found.gradient),
            np.logical_and(is_stuck, is_first),
            found.gradient,
            np.concatenate([state.steps[1:], s[None]]),
            np.concatenate([state.changes[1:], y[None]]),
            np.where(is_stuck, 0, np.concatenate([state.weights[1:], weight[None]])),
        )

    def _times_inverse(self, state: LBFGSState) -> Any:
        """The inverse Hessian by the last steps, times the gradient: two loops over them."""
        q = state.gradient
        shares = []
        for k in range(self.history_size - 1, -1, -1):
            share = state.weights[k] * np.sum(state.steps[k] * q)
            q = q - share * state.changes[k]
            shares.append(share)
        y, weight = state.changes[-1], state.weights[-1]
        length = weight * np.sum(y * y)
        q = q * np.where(length > 0, 1 / np.where(length > 0, length, 1), 1)
        for k in range(self.history_size):
            back = state.weights[k] * np.sum(state.changes[k] * q)
            q = q + (shares.pop() - back) * state.steps[k]
        return q


def _evaluated(f: Callable[[Any], Any], back: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    value, g = value_and_grad(lambda v: hooks.users(f)(back(v)))(x)
    return value * np.ones((), x.dtype), g


def _largest(g: Any) -> Any:
    return np.max(np.abs(g)) if g.shape[0] else np.zeros((), g.dtype)
