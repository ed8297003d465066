"""Optimizer: settings, and two pure functions over containers of arrays; see docs/design/optim.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from ..declared import plain_structure, points_in
from ..errors import ShapeError, StructureError
from ..hooks import hooks

Schedule = Callable[[Any], Any]  # from the number of steps done before to the rate of the next
Rate = float | Schedule
Slots = dict[str, Any]
_DIRECTIONS = ("momentum_buffer", "exp_avg")  # slots that are sums of gradients


@dataclass(frozen=True)
class State:
    """How many steps were done, and for each parameter, in their order, what a rule keeps beside it."""

    count: Any
    slots: tuple[Slots, ...]


@dataclass(frozen=True)
class Optimizer:
    """The settings of a rule; subclasses say what it keeps (`slots`) and does (`rule`).

    >>> import numpy as np
    >>> import backsolve as bs
    >>> optimizer = bs.optim.SGD(lr=0.25)
    >>> p = {"x": np.array([4.0])}
    >>> state = optimizer.init(p)
    >>> for _ in range(3):
    ...     p, state = optimizer.update(p, bs.grad(lambda p: np.sum(p["x"] ** 2))(p), state)
    >>> p["x"]
    array([0.5])
    """

    def __post_init__(self) -> None:
        lr = getattr(self, "lr", 0.0)
        is_number = isinstance(lr, int | float) or (hasattr(lr, "dtype") and np.shape(lr) == ())
        if hasattr(lr, "named_parameters") or not (callable(lr) or is_number):
            raise StructureError(
                f"lr of {type(self).__name__} is a number or a schedule, got {lr!r:.60}; parameters go to "
                "`init` and `update`: state = rule.init(model)"
            )
        if isinstance(lr, int | float | np.number) and not lr >= 0:
            raise ValueError(f"lr of {type(self).__name__} must be 0 or more, got {lr}")

    def init(self, parameters: Any) -> State:
        """The state before the first step."""
        leaves, structure = tree.flatten(parameters)
        points = points_in(structure, leaves) if hooks.has_points else {}
        slots = [
            self.slots(_real(p)) if k not in points else self.slots_on(points[k].manifold, p)
            for k, p in enumerate(leaves)
        ]
        return State(np.zeros((), np.int64), tuple(slots))

    def update(self, parameters: Any, gradients: Any, state: State) -> tuple[Any, State]:
        """Parameters and state after one more step."""
        leaves, structure = tree.flatten(parameters)
        slopes, form = tree.flatten(gradients)
        points = points_in(structure, leaves) if hooks.has_points else {}
        if points:
            form, plain = plain_structure(form), plain_structure(structure)
        else:
            plain = structure
        if form != plain or len(leaves) != len(state.slots):
            raise StructureError(
                "parameters, gradients and state must have one form: "
                f"got {structure}, {form} and {len(state.slots)} slots"
                + tree.sharing_note(structure, form)
            )
        for p, g in zip(leaves, slopes, strict=True):
            if np.shape(p) != np.shape(g):
                raise ShapeError(
                    f"a gradient of shape {np.shape(g)} does not fit its parameter of {np.shape(p)}"
                )
        count = state.count + 1
        rate = self.rate(count)
        done = [
            self.rule(p, g, s, as_number(rate, p), count)
            if k not in points
            else self._along(points[k].manifold, p, g, s, as_number(rate, p), count)
            for k, (p, g, s) in enumerate(zip(leaves, slopes, state.slots, strict=True))
        ]
        new = structure.unflatten([p for p, _ in done])
        return new, State(count, tuple([s for _, s in done]))

    def _along(
        self, manifold: Any, p: Any, g: Any, s: Slots, rate: Any, count: Any
    ) -> tuple[Any, Slots]:
        """For a parameter that bs.on declared: the step along a tangent, memories carried along."""
        moved, kept = self.rule(p, g, s, rate, count)
        new = manifold.retract(p, manifold.made_tangent(p, moved - p))
        return new, {
            name: manifold.transport(p, new, manifold.made_tangent(p, m))
            if name in _DIRECTIONS
            else m
            for name, m in kept.items()
        }

    def rate(self, count: Any) -> Any:
        """The learning rate of step number `count`, counted from 1."""
        lr: Rate = self.lr  # type: ignore[attr-defined]  # a field of rules that have a rate
        return lr(count - 1) if callable(lr) else lr

    def slots(self, p: Any) -> Slots:
        """What is kept beside a parameter."""
        return {}

    def slots_on(self, manifold: Any, p: Any) -> Slots:
        """The same for one that bs.on declared."""
        return self.slots(p)

    def rule(self, p: Any, g: Any, s: Slots, rate: Any, count: Any) -> tuple[Any, Slots]:
        """The parameter and its slots after step number `count`."""
        raise NotImplementedError(f"{type(self).__name__}.rule")


def _real(p: Any) -> Any:
    p = np.asarray(p) if isinstance(p, float | int) else p
    if p.dtype.kind not in "fc":
        raise StructureError(f"parameters must be floating-point arrays, got one of {p.dtype}")
    return p


def as_number(x: Any, p: Any) -> Any:
    """A number in the precision of a parameter, where it is not one of Python's, which take any."""
    return x.astype(p.real.dtype) if hasattr(x, "astype") else x


def powers(base: float, count: Any) -> Any:
    """base^count in double precision: 1 − 0.999^t has few digits in single."""
    return base ** count.astype(np.float64)
