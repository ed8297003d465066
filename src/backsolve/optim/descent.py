"""Descent with momentum, and by the sign of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .adaptive import decayed
from .base import Optimizer, Rate, Slots


@dataclass(frozen=True)
class SGD(Optimizer):
    """p − lr · g, with momentum and Nesterov's look ahead; settings as PyTorch's."""

    lr: Rate = 1e-3
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and (self.momentum <= 0 or self.dampening):
            raise ValueError("Nesterov's momentum needs a momentum and no dampening")

    def slots(self, p: Any) -> Slots:
        return {"momentum_buffer": np.zeros_like(p)} if self.momentum else {}

    def rule(self, p: Any, g: Any, s: Slots, rate: Any, count: Any) -> tuple[Any, Slots]:
        p, g = decayed(p, g, self.weight_decay, rate)
        if not self.momentum:
            return p - rate * g, s
        # the first gradient is taken whole
        share = 1 - self.dampening
        weight = share if not self.dampening else np.where(count == 1, 1.0, share).astype(p.dtype)
        b = self.momentum * s["momentum_buffer"] + weight * g
        step = g + self.momentum * b if self.nesterov else b
        return p - rate * step, {"momentum_buffer": b}


@dataclass(frozen=True)
class Lion(Optimizer):
    """Steps of one size, by the sign of a running mean (Chen and others, 2023)."""

    lr: Rate = 1e-4
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0

    def slots(self, p: Any) -> Slots:
        return {"exp_avg": np.zeros_like(p)}

    def rule(self, p: Any, g: Any, s: Slots, rate: Any, count: Any) -> tuple[Any, Slots]:
        b1, b2 = self.betas
        m = s["exp_avg"]
        p, _ = decayed(p, g, self.weight_decay, rate, decoupled=True)
        step = np.sign(b1 * m + (1 - b1) * g)
        return p - rate * step, {"exp_avg": b2 * m + (1 - b2) * g}
