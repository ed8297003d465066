"""Around an optimiser: clipped gradients, several batches a step, rules by name, averages of parameters."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from ..declared import manifold_of, points_in, without_points
from .base import Optimizer, State


def clip_grad_norm(gradients: Any, max_norm: float, norm_type: float = 2.0) -> tuple[Any, Any]:
    """Gradients no longer than max_norm, all taken as one vector, and how long they were."""
    leaves, structure = tree.flatten(gradients)
    if norm_type == np.inf:
        total = np.max(np.stack([np.max(np.abs(g)) for g in leaves]))
    else:
        powers = [np.sum(np.abs(g) ** norm_type) for g in leaves]
        total = sum(powers[1:], start=powers[0]) ** (1 / norm_type)
    factor = np.minimum(max_norm / (total + 1e-6), 1.0)
    return structure.unflatten([g * factor.astype(g.dtype) for g in leaves]), total


def clip_grad_value(gradients: Any, clip_value: float) -> Any:
    """Gradients with every entry between −clip_value and clip_value."""
    return tree.map(lambda g: np.clip(g, -clip_value, clip_value), gradients)


@dataclass(frozen=True)
class Clipped(Optimizer):
    """Clips gradients by their common norm before the rule sees them."""

    rule_of: Optimizer
    max_norm: float

    def __post_init__(self) -> None:
        if not self.max_norm > 0:
            raise ValueError(f"gradients are clipped to a norm above 0, got {self.max_norm}")

    def init(self, parameters: Any) -> State:
        return self.rule_of.init(parameters)

    def update(self, parameters: Any, gradients: Any, state: State) -> tuple[Any, State]:
        clipped, _ = clip_grad_norm(gradients, self.max_norm)
        return self.rule_of.update(parameters, clipped, state)


@dataclass(frozen=True)
class Accumulated(Optimizer):
    """One step for the mean of the gradients of `every` batches; in between parameters stay."""

    rule_of: Optimizer
    every: int

    def init(self, parameters: Any) -> Any:
        zeros = tree.map(np.zeros_like, without_points(parameters))
        return {
            "state": self.rule_of.init(parameters),
            "sum": zeros,
            "batches": np.zeros((), np.int64),
        }

    def update(self, parameters: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
        total = tree.map(lambda a, g: a + g, state["sum"], gradients)
        batches = state["batches"] + 1
        is_due = batches % self.every == 0
        mean = tree.map(lambda a: a / self.every, total)
        stepped, inner = self.rule_of.update(parameters, mean, state["state"])

        def either(new: Any, old: Any) -> Any:
            return tree.map(lambda a, b: np.where(is_due, a, b), new, old)

        left = tree.map(lambda a: np.where(is_due, np.zeros((), a.dtype), a), total)
        kept = {"state": either(inner, state["state"]), "sum": left, "batches": batches}
        return either(stepped, parameters), kept


class Groups(Optimizer):
    """Rules by name: the first pattern that fits, with * for anything; `parameters` are a dict by name.

    >>> import numpy as np
    >>> from backsolve.optim import SGD
    >>> rules = Groups({"*.bias": SGD(lr=0.0), "*": SGD(lr=1.0)})
    >>> p = {"a.weight": np.ones(1), "a.bias": np.ones(1)}
    >>> rules.update(p, p, rules.init(p))[0]
    {'a.weight': array([0.]), 'a.bias': array([1.])}
    """

    rules: dict[str, Optimizer]

    def __init__(self, rules: Mapping[str, Optimizer]):
        object.__setattr__(self, "rules", dict(rules))

    def _group(self, name: str) -> str:
        for pattern in self.rules:
            if fnmatch.fnmatchcase(name, pattern):
                return pattern
        raise ValueError(f"no rule fits the parameter {name!r}: add one for '*'")

    def _split(self, parameters: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for name, value in parameters.items():
            found.setdefault(self._group(name), {})[name] = value
        return found

    def init(self, parameters: Any) -> Any:
        rules = self.rules
        return {group: rules[group].init(part) for group, part in self._split(parameters).items()}

    def update(self, parameters: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
        rules = self.rules
        new, states = {}, {}
        slopes = self._split(gradients)
        for group, part in self._split(parameters).items():
            done, states[group] = rules[group].update(part, slopes[group], state[group])
            new.update(done)
        return {name: new[name] for name in parameters}, states


@dataclass(frozen=True)
class Average:
    """A moving average of parameters, apart from the optimiser: `average = ema.update(average, parameters)`.

    On a manifold it moves towards the parameter along a tangent, and stays there.
    """

    decay: float = 0.999

    def __post_init__(self) -> None:
        if not 0 <= self.decay <= 1:
            raise ValueError(f"the decay of an average must be between 0 and 1, got {self.decay}")

    def init(self, parameters: Any) -> Any:
        """The average at the beginning: the parameters themselves."""
        return tree.map(np.array, parameters)

    def update(self, average: Any, parameters: Any) -> Any:
        """The average, moved towards the parameters."""
        leaves, structure = tree.flatten(average)
        points = points_in(structure, leaves)
        share = 1 - self.decay
        rows = enumerate(zip(leaves, tree.flatten(parameters)[0], strict=True))
        return structure.unflatten(
            [
                m.retract(a, share * m.toward(a, p))
                if (m := manifold_of(points, k))
                else a + share * (p - a)
                for k, (a, p) in rows
            ]
        )
