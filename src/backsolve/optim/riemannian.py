"""Descent on manifolds: gradients made tangent, steps along retractions, memories carried along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from ..api import value_and_grad
from ..control import while_loop
from ..declared import manifold_of, plain_structure, points_in, without_points
from ..errors import StructureError
from ..hooks import hooks
from ..manifolds import Euclidean, Manifold
from .base import Optimizer, Rate, Slots, as_number, powers
from .solver import Solver


@dataclass(frozen=True)
class _Riemannian(Optimizer):
    """Abstract: `manifold` is that of plain arrays; without one, parameters are what `bs.on` declared, each on
    its own, and plain arrays have all directions."""

    manifold: Manifold | None = None

    def __post_init__(self) -> None:
        check_manifold(self)
        super().__post_init__()

    def slots(self, p: Any) -> Slots:
        return self.slots_on(self.manifold or Euclidean(), p)

    def rule(self, p: Any, g: Any, s: Slots, rate: Any, count: Any) -> tuple[Any, Slots]:
        manifold = self.manifold or Euclidean()
        return self.moved(manifold, p, manifold.gradient(p, g), s, rate, count)

    def _along(
        self, manifold: Any, p: Any, g: Any, s: Slots, rate: Any, count: Any
    ) -> tuple[Any, Slots]:
        if self.manifold is not None:
            raise _two_manifolds(self)
        return self.moved(manifold, p, g, s, rate, count)

    def moved(
        self, manifold: Manifold, p: Any, u: Any, s: Slots, rate: Any, count: Any
    ) -> tuple[Any, Slots]:
        """The point and its slots after a step, from the gradient as a tangent."""
        raise NotImplementedError(f"{type(self).__name__}.moved")


@dataclass(frozen=True)
class RiemannianSGD(_Riemannian):
    """SGD on a manifold, with momentum; several manifolds by `Groups`, or as `bs.on` declares them.

    >>> import numpy as np
    >>> import backsolve as bs
    >>> rule = RiemannianSGD(bs.optim.Sphere(), lr=0.1)
    >>> x, A = np.ones(2) / np.sqrt(2), np.diag([1.0, 2.0])
    >>> state = rule.init(x)
    >>> for _ in range(200):
    ...     x, state = rule.update(x, bs.grad(lambda x: x @ A @ x)(x), state)
    >>> np.round(np.abs(x), 6)
    array([1., 0.])
    """

    lr: Rate = 1e-2
    momentum: float = 0.0

    def slots_on(self, manifold: Any, p: Any) -> Slots:
        return {"momentum_buffer": np.zeros_like(p)} if self.momentum else {}

    def moved(
        self, manifold: Manifold, p: Any, u: Any, s: Slots, rate: Any, count: Any
    ) -> tuple[Any, Slots]:
        if not self.momentum:
            return manifold.retract(p, -rate * u), s
        m = self.momentum * s["momentum_buffer"] + u
        new = manifold.retract(p, -rate * m)
        return new, {"momentum_buffer": manifold.transport(p, new, m)}


@dataclass(frozen=True)
class RiemannianAdam(_Riemannian):
    """Adam on a manifold (Bécigneul and Ganea, 2019), with one mean of squares for each point.

    So it is the same in every basis; Adam itself divides entry by entry, and then projects.
    """

    lr: Rate = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def slots_on(self, manifold: Any, p: Any) -> Slots:
        rank = manifold.axes
        sizes = (*p.shape[: len(p.shape) - rank], *[1] * rank) if rank else (1,) * len(p.shape)
        return {"exp_avg": np.zeros_like(p), "exp_avg_sq": np.zeros(sizes, p.dtype)}

    def moved(
        self, manifold: Manifold, p: Any, u: Any, s: Slots, rate: Any, count: Any
    ) -> tuple[Any, Slots]:
        b1, b2 = self.betas
        m = b1 * s["exp_avg"] + (1 - b1) * u
        v = b2 * s["exp_avg_sq"] + (1 - b2) * manifold.inner(p, u, u)
        mean = m * as_number(1 / (1 - powers(b1, count)), p)
        square = v * as_number(1 / (1 - powers(b2, count)), p)
        new = manifold.retract(p, -rate * mean / (np.sqrt(square) + self.eps))
        return new, {"exp_avg": manifold.transport(p, new, m), "exp_avg_sq": v}


def check_manifold(rule: Any) -> None:
    """The first setting is the manifold; a rate is given by its name."""
    given = rule.manifold
    if given is not None and (isinstance(given, type) or not hasattr(given, "project")):
        raise StructureError(
            f"{type(rule).__name__} takes a manifold such as optim.Sphere() first, got {given!r:.60}; "
            "other settings go by name: lr=0.01"
        )


def _two_manifolds(rule: Any) -> StructureError:
    return StructureError(
        f"{type(rule).__name__} has a manifold of its own: give it plain arrays, or leave the manifold out for "
        "parameters that bs.on declared"
    )


def _least(t: Any, change: Any, slope: Any) -> Any:
    """Where a parabola with this slope at 0 and this change at t is least; from a tenth of t to ten times t."""
    bend = np.where(np.isnan(change), np.inf, change) - t * slope
    is_convex = bend > 0
    least = -0.5 * slope * t * t / np.where(is_convex, bend, 1)
    return np.where(is_convex, np.clip(least, t / 10, 10 * t), 10 * t)


@dataclass(frozen=True)
class RiemannianCGState:
    """`error` is the length of the gradient; `direction` and `gradient` are tangents. Where a step failed, the
    next goes by the gradient alone; where that fails as well, it is stuck."""

    count: Any
    evaluations: Any
    value: Any
    error: Any
    is_stuck: Any
    failed: Any
    step: Any
    gradient: Any
    direction: Any


@dataclass(frozen=True)
class RiemannianCG(Solver):
    """Conjugate gradients on a manifold, by Polak and Ribière, begun anew where they do not go down.

    A step is tried as long as the last, and where the parabola through that is least; the lower one is halved
    until f falls by a ten-thousandth of what its slope promises. All arrays of the parameters lie on that one
    manifold; without one, parameters are plain arrays or what `bs.on` declared, each on its own.

    >>> import numpy as np
    >>> import backsolve as bs
    >>> p = {"x": bs.on(bs.manifolds.Sphere(), np.array([0.6, 0.8])), "b": np.ones(2)}
    >>> f = lambda p: np.sum((p["x"] * np.array([1.0, 2.0]) - p["b"]) ** 2) + p["x"][1]
    >>> found, state = RiemannianCG().minimize(f, p)
    >>> np.round(np.abs(found["x"].x), 4)
    array([0., 1.])
    """

    manifold: Manifold | None = None
    max_halvings: int = 30

    def __post_init__(self) -> None:
        check_manifold(self)

    def init(self, f: Callable[[Any], Any], parameters: Any) -> RiemannianCGState:
        value, g = self._evaluated(f, parameters)
        square = self._inner(parameters, g, g)
        error = np.sqrt(square)
        step = 1 / np.maximum(error, 1)
        d = tree.map(lambda u: -u, g)
        zero = np.zeros((), np.int64)
        no = np.zeros((), bool)
        return RiemannianCGState(zero, zero + 1, value, error, no, no, step, g, d)

    def update(
        self, f: Callable[[Any], Any], parameters: Any, state: RiemannianCGState
    ) -> tuple[Any, RiemannianCGState]:
        x, g, d = parameters, state.gradient, state.direction
        slope = self._inner(x, g, d)

        def too_far(now: tuple[Any, Any, Any]) -> Any:
            t, value, count = now
            high = np.logical_not(value <= state.value + 1e-4 * t * slope)  # NaN, too
            return np.logical_and(high, count < self.max_halvings)

        def halved(now: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            t = now[0] / 2
            return t, self._value(f, self._moved(x, t, d)), now[2] + 1

        first = state.step
        value = self._value(f, self._moved(x, first, d))
        guess = _least(first, value - state.value, slope)
        value_there = self._value(f, self._moved(x, guess, d))
        is_better = np.logical_or(value_there < value, np.isnan(value))
        t = np.where(is_better, guess, first)
        value = np.where(is_better, value_there, value)
        t, value, count = while_loop(too_far, halved, (t, value, np.zeros((), np.int64)))
        is_lower = value < state.value
        new = self._moved(x, np.where(is_lower, t, 0), d)
        value, u = self._evaluated(f, new)
        carried = self._tangents("transport", x, new, g)
        square = self._inner(new, u, u)
        change = square - self._inner(new, u, carried)
        share = np.maximum(change / np.maximum(state.error**2, np.finfo(value.dtype).tiny), 0)
        share = np.where(is_lower, share, 0)
        forward = tree.map(
            lambda v, w: share.astype(w.dtype) * v - w, self._tangents("transport", x, new, d), u
        )
        is_down = self._inner(new, u, forward) < 0
        d = tree.map(lambda v, w: np.where(is_down, v, -w), forward, u)
        return new, RiemannianCGState(
            state.count + 1,
            state.evaluations + count + 3,
            value,
            np.sqrt(square),
            np.logical_and(state.failed, np.logical_not(is_lower)),
            np.logical_not(is_lower),
            np.where(is_lower, t, state.step / 4),
            u,
            d,
        )

    def _evaluated(self, f: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
        value, g = value_and_grad(lambda p: hooks.users(f)(p))(without_points(x))
        return value * np.ones((), self._dtype(x)), self._tangents("gradient", x, g)

    def _value(self, f: Callable[[Any], Any], x: Any) -> Any:
        return hooks.users(f)(without_points(x)) * np.ones((), self._dtype(x))

    def _moved(self, x: Any, t: Any, d: Any) -> Any:
        steps = tree.map(lambda v: t.astype(v.dtype) * v, d)
        return tree.flatten(x)[1].unflatten(self._each("retract", x, steps))

    def _tangents(self, method: str, x: Any, *others: Any) -> Any:
        structure = plain_structure(tree.flatten(x)[1])
        return structure.unflatten(self._each(method, x, *others))

    def _inner(self, x: Any, u: Any, v: Any) -> Any:
        parts = [np.sum(p) for p in self._each("inner", x, u, v)]
        return sum(parts[1:], start=parts[0])

    def _each(self, method: str, x: Any, *others: Any) -> list[Any]:
        """A method of each parameter's own manifold."""
        leaves, structure = tree.flatten(x)
        points = points_in(structure, leaves)
        if points and self.manifold is not None:
            raise _two_manifolds(self)
        columns = zip(leaves, *(tree.flatten(o)[0] for o in others), strict=True)
        return [
            getattr(manifold_of(points, k) or self.manifold or Euclidean(), method)(*row)
            for k, row in enumerate(columns)
        ]

    def _dtype(self, x: Any) -> Any:
        return np.result_type(*(a.dtype for a in tree.flatten(x)[0]))
