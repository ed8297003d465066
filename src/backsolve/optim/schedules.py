"""Learning rates over time: functions of the number of steps done, usable as `lr` of any optimiser.

>>> rate = warmup(cosine(0.1, 100), 10)
>>> [round(float(rate(t)), 3) for t in (0, 5, 10, 60, 110)]
[0.0, 0.05, 0.1, 0.05, 0.0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import Schedule


def constant(lr: float) -> Schedule:
    """lr at every step."""
    return lambda t: lr + 0.0 * t


def step(lr: float, step_size: int, gamma: float = 0.1) -> Schedule:
    """Times gamma after every `step_size` steps."""
    return lambda t: lr * gamma ** np.floor(t / step_size)


def multistep(lr: float, milestones: Sequence[int], gamma: float = 0.1) -> Schedule:
    """Times gamma at each milestone."""
    marks = np.sort(np.asarray(milestones))
    return lambda t: lr * gamma ** np.sum(np.less_equal(marks, t)).astype(np.float64)


def exponential(lr: float, gamma: float) -> Schedule:
    """lr · gammaᵗ."""
    return lambda t: lr * gamma ** (t + 0.0)


def linear(lr: float, steps: int, end: float = 0.0) -> Schedule:
    """From lr to `end` in `steps` steps."""
    return lambda t: lr + (end - lr) * np.minimum(t / steps, 1.0)


def polynomial(lr: float, steps: int, power: float = 1.0) -> Schedule:
    """lr · (1 − t / steps)^power, 0 from `steps` on."""
    return lambda t: lr * (1 - np.minimum(t / steps, 1.0)) ** power


def cosine(lr: float, steps: int, end: float = 0.0) -> Schedule:
    """From lr to `end` along half a wave."""
    return lambda t: end + (lr - end) * (1 + np.cos(math.pi * np.minimum(t / steps, 1.0))) / 2


def cosine_restarts(lr: float, steps: int, factor: int = 1, end: float = 0.0) -> Schedule:
    """Waves one after the other, each `factor` times as long as the one before."""
    if factor == 1:
        return lambda t: cosine(lr, steps, end)(t % steps)

    def rate(t: Any) -> Any:
        # The sum of k waves is steps (factor^k − 1) / (factor − 1); the small number settles ties.
        wave = np.floor(np.log1p(t * (factor - 1) / steps) / math.log(factor) + 1e-9)
        first = steps * (factor**wave - 1) / (factor - 1)
        part = (t - first) / (steps * factor**wave)
        return end + (lr - end) * (1 + np.cos(math.pi * part)) / 2

    return rate


def warmup(schedule: Schedule | float, steps: int, start: float = 0.0) -> Schedule:
    """From `start` times the first rate up to it in `steps` steps, then the schedule from its beginning."""
    after: Schedule = schedule if callable(schedule) else constant(schedule)

    def rate(t: Any) -> Any:
        rising = start + (1 - start) * np.minimum(t / max(steps, 1), 1.0)
        return rising * after(np.maximum(t - steps, 0))

    return rate


def one_cycle(
    max_lr: float,
    total_steps: int,
    pct_start: float = 0.3,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Schedule:
    """Up to max_lr and far down again, each along half a wave (Smith, 2018); as PyTorch's."""
    first = max_lr / div_factor
    last = first / final_div_factor
    top = pct_start * total_steps - 1

    def between(a: float, b: float, part: Any) -> Any:
        return b + (a - b) / 2 * (np.cos(math.pi * part) + 1)

    def rate(t: Any) -> Any:
        up = between(first, max_lr, np.minimum(t / top, 1.0))
        down = between(max_lr, last, np.clip((t - top) / (total_steps - 1 - top), 0.0, 1.0))
        return np.where(t <= top, up, down)

    return rate


@dataclass
class Plateau:
    """Lower the rate where a measure stops improving: call it with each value, outside of compiled code.

    `factor` is a plain number that the loop multiplies its rate with.

    >>> plateau = Plateau(patience=1)
    >>> [plateau(loss) for loss in (3.0, 2.0, 2.5, 2.5, 2.5)]
    [1.0, 1.0, 1.0, 0.1, 0.1]
    """

    mode: str = "min"
    decay: float = 0.1
    patience: int = 10
    threshold: float = 1e-4
    cooldown: int = 0
    least: float = 0.0
    factor: float = 1.0
    best: float | None = None
    waited: int = 0
    resting: int = 0

    def __call__(self, value: float) -> float:
        sign = 1 if self.mode == "min" else -1
        if self.best is None or sign * value < sign * self.best - self.threshold * abs(self.best):
            self.best, self.waited = value, 0
        else:
            self.waited += 1
        if self.resting:
            self.resting, self.waited = self.resting - 1, 0
        if self.waited > self.patience:
            self.factor = max(self.factor * self.decay, self.least)
            self.waited, self.resting = 0, self.cooldown
        return self.factor
