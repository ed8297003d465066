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
from .vectors import Space


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
    nothing lower leaves the parameters as they are and forgets the history. What `bs.on` declared moves along
    retractions, and the history is carried along with it.

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
        space = Space(parameters)
        x = space.vector
        value, g = _evaluated(f, space, x)
        zero = np.zeros((), np.int64)
        past = np.zeros((self.history_size, *x.shape), x.dtype)
        weights = np.zeros(self.history_size, x.dtype)
        no = np.zeros((), bool)
        return LBFGSState(zero, zero + 1, value, _largest(g), no, g, past, past, weights)

    def update(
        self, f: Callable[[Any], Any], parameters: Any, state: LBFGSState
    ) -> tuple[Any, LBFGSState]:
        space = Space(parameters)
        x = space.vector
        d = -self._times_inverse(space, x, state)
        slope = space.inner(x, d, state.gradient)
        is_down = slope < 0  # else the history is of no use
        d = np.where(is_down, d, -state.gradient)
        square = space.inner(x, state.gradient, state.gradient)
        slope = np.where(is_down, slope, -square)
        # on manifolds the same for every way to write a tangent
        size = np.sqrt(square) if space.is_curved else np.sum(np.abs(state.gradient))
        is_first = np.logical_or(np.logical_not(is_down), state.weights[-1] == 0)
        first = np.where(is_first, np.minimum(1, 1 / np.where(size > 0, size, 1)), 1)

        def along(t: Any) -> Point:
            reached, velocity = space.along(x, t, d)
            value, g = _evaluated(f, space, reached)
            return Point(t, value, space.inner(reached, g, velocity), g)

        start = Point(np.zeros((), x.dtype), state.value, slope, state.gradient)
        found, count = strong_wolfe(along, start, first.astype(x.dtype), self.max_evaluations)
        moved = found.t * d
        new = np.where(found.t == 0, x, space.moved(x, moved))
        s = space.carried(x, new, moved)
        y = found.gradient - space.carried(x, new, state.gradient)
        weight = _weight(space, new, s, y)
        is_stuck = np.all(new == x)
        steps, changes, weights = self._carried(space, x, new, state)
        return space.given(new), LBFGSState(
            state.count + 1,
            state.evaluations + count,
            found.value,
            _largest(found.gradient),
            np.logical_and(is_stuck, is_first),
            found.gradient,
            np.concatenate([steps, s[None]]),
            np.concatenate([changes, y[None]]),
            np.where(is_stuck, 0, np.concatenate([weights, weight[None]])),
        )

    def _carried(self, space: Space, x: Any, new: Any, state: LBFGSState) -> tuple[Any, Any, Any]:
        """The history without its oldest step, as tangents at the new point; their products change with it."""
        steps, changes, weights = state.steps[1:], state.changes[1:], state.weights[1:]
        if not space.is_curved or self.history_size == 1:
            return steps, changes, weights
        rows = range(self.history_size - 1)
        steps = np.stack([space.carried(x, new, steps[k]) for k in rows])
        changes = np.stack([space.carried(x, new, changes[k]) for k in rows])
        products = np.stack([_weight(space, new, steps[k], changes[k]) for k in rows])
        return steps, changes, np.where(weights == 0, 0, products).astype(space.dtype)

    def _times_inverse(self, space: Space, x: Any, state: LBFGSState) -> Any:
        """The inverse Hessian by the last steps, times the gradient: two loops over them."""
        q = state.gradient
        shares = []
        for k in range(self.history_size - 1, -1, -1):
            share = state.weights[k] * space.inner(x, state.steps[k], q)
            q = q - share * state.changes[k]
            shares.append(share)
        y, weight = state.changes[-1], state.weights[-1]
        length = weight * space.inner(x, y, y)
        q = q * np.where(length > 0, 1 / np.where(length > 0, length, 1), 1)
        for k in range(self.history_size):
            back = state.weights[k] * space.inner(x, state.changes[k], q)
            q = q + (shares.pop() - back) * state.steps[k]
        return q


def _evaluated(f: Callable[[Any], Any], space: Space, x: Any) -> tuple[Any, Any]:
    value, g = value_and_grad(lambda v: hooks.users(f)(space.plain(v)))(x)
    return value * np.ones((), x.dtype), space.gradient(x, g)


def _weight(space: Space, x: Any, s: Any, y: Any) -> Any:
    """1/⟨s, y⟩; 0 where the function is not curved upwards along s."""
    product = space.inner(x, s, y)
    is_curved = product > np.finfo(space.dtype).eps * space.inner(x, y, y)
    return np.where(is_curved, 1 / np.where(is_curved, product, 1), 0).astype(space.dtype)


def _largest(g: Any) -> Any:
    return np.max(np.abs(g)) if g.shape[0] else np.zeros((), g.dtype)
