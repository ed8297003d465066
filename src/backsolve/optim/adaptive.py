"""Rules that divide each entry by a running measure of its gradients: Adam and its relatives.

Formulas, names of settings and defaults are PyTorch's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import Optimizer, Rate, Slots, as_number, powers


@dataclass(frozen=True)
class Adam(Optimizer):
    """Running means of gradients and of their squares, corrected for their start at 0.

    `weight_decay` is added to the gradient (AdamW: taken off the parameter).
    """

    lr: Rate = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    amsgrad: bool = False

    decoupled = False

    def slots(self, p: Any) -> Slots:
        names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if self.amsgrad else [])]
        return {name: np.zeros_like(p) for name in names}

    def rule(self, p: Any, g: Any, s: Slots, rate: Any, count: Any) -> tuple[Any, Slots]:
        p, g = decayed(p, g, self.weight_decay, rate, self.decoupled)
        b1, b2 = self.betas
        m = b1 * s["exp_avg"] + (1 - b1) * g
        v = b2 * s["exp_avg_sq"] + (1 - b2) * np.square(np.abs(g) if g.dtype.kind == "c" else g)
        new = {"exp_avg": m, "exp_avg_sq": v}
        if self.amsgrad:
            v = new["max_exp_avg_sq"] = np.maximum(s["max_exp_avg_sq"], v)
        step = rate * as_number(1 / (1 - powers(b1, count)), p)
        scale = as_number(1 / np.sqrt(1 - powers(b2, count)), p)
        return p - step * m / (np.sqrt(v) * scale + self.eps), new


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam, with weight decay taken off the parameter and not through the running means."""

    weight_decay: float = 1e-2

    decoupled = True


@dataclass(frozen=True)
class Adamax(Optimizer):
    """Adam with the largest gradient, slowly forgotten, in the place of the mean of squares."""

    lr: Rate = 2e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def slots(self, p: Any) -> Slots:
        return {"exp_avg": np.zeros_like(p), "exp_inf": np.zeros_like(p)}

    def rule(self, p: Any, g: Any, s: Slots, rate: Any, count: Any) -> tuple[Any, Slots]:
        p, g = decayed(p, g, self.weight_decay, rate)
        b1, b2 = self.betas
        m = b1 * s["exp_avg"] + (1 - b1) * g
        u = np.maximum(b2 * s["exp_inf"], np.abs(g) + self.eps)
        step = rate * as_number(1 / (1 - powers(b1, count)), p)
        return p - step * m / u, {"exp_avg": m, "exp_inf": u}


@dataclass(frozen=True)
class NAdam(Optimizer):
    """Adam with Nesterov's look ahead."""

    lr: Rate = 2e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum_decay: float = 4e-3
    decoupled_weight_decay: bool = False

    def slots(self, p: Any) -> Slots:
        return {
            "exp_avg": np.zeros_like(p),
            "exp_avg_sq": np.zeros_like(p),
            "mu_product": np.ones((), np.float64),
        }

    def rule(self, p: Any, g: Any, s: Slots, rate: Any, count: Any) -> tuple[Any, Slots]:
        p, g = decayed(p, g, self.weight_decay, rate, self.decoupled_weight_decay)
        b1, b2 = self.betas
        mu = b1 * (1 - 0.5 * powers(0.96, count * self.momentum_decay))
        ahead = b1 * (1 - 0.5 * powers(0.96, (count + 1) * self.momentum_decay))
        product = s["mu_product"] * mu
        m = b1 * s["exp_avg"] + (1 - b1) * g
        v = b2 * s["exp_avg_sq"] + (1 - b2) * np.square(g)
        below = np.sqrt(v * as_number(1 / (1 - powers(b2, count)), p)) + self.eps
        now = as_number((1 - mu) / (1 - product), p)
        then = as_number(ahead / (1 - product * ahead), p)
        new = {"exp_avg": m, "exp_avg_sq": v, "mu_product": product}
        return p - rate * (now * g + then * m) / below, new


@dataclass(frozen=True)
class RAdam(Optimizer):
    """Adam that waits until its mean of squares can be trusted."""

    lr: Rate = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled_weight_decay: bool = False

    def slots(self, p: Any) -> Slots:
        return {"exp_avg": np.zeros_like(p), "exp_avg_sq": np.zeros_like(p)}

    def rule(self, p: Any, g: Any, s: Slots, rate: Any, count: Any) -> tuple[Any, Slots]:
        p, g = decayed(p, g, self.weight_decay, rate, self.decoupled_weight_decay)
        b1, b2 = self.betas
        m = b1 * s["exp_avg"] + (1 - b1) * g
        v = b2 * s["exp_avg_sq"] + (1 - b2) * np.square(g)
        longest = 2 / (1 - b2) - 1
        left = powers(b2, count)
        length = longest - 2 * count * left / (1 - left)
        trusted = length > 5
        shown = np.where(trusted, length, 6.0)
        best = (longest - 4) * (longest - 2) * shown
        factor = np.sqrt((shown - 4) * (shown - 2) * longest / best) * np.sqrt(1 - left)
        mean = m * as_number(1 / (1 - powers(b1, count)), p)
        scaled = mean * as_number(factor, p) / (np.sqrt(v) + self.eps)
        step = np.where(trusted, scaled, mean)
        return p - rate * step, {"exp_avg": m, "exp_avg_sq": v}


@dataclass(frozen=True)
class RMSprop(Optimizer):
    """Gradients over the root of a running mean of their squares (taken about their mean if `centered`)."""

    lr: Rate = 1e-2
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False

    def slots(self, p: Any) -> Slots:
        names = ["square_avg", *(["momentum_buffer"] if self.momentum else [])]
        return {
            name: np.zeros_like(p) for name in [*names, *(["grad_avg"] if self.centered else [])]
        }

    def rule(self, p: Any, g: Any, s: Slots, rate: Any, count: Any) -> tuple[Any, Slots]:
        p, g = decayed(p, g, self.weight_decay, rate)
        v = self.alpha * s["square_avg"] + (1 - self.alpha) * np.square(g)
        new = {"square_avg": v}
        if self.centered:
            mean = new["grad_avg"] = self.alpha * s["grad_avg"] + (1 - self.alpha) * g
            v = v - np.square(mean)
        step = g / (np.sqrt(v) + self.eps)
        if self.momentum:
            step = new["momentum_buffer"] = self.momentum * s["momentum_buffer"] + step
        return p - rate * step, new


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """Gradients over the root of the sum of all squares so far."""

    lr: Rate = 1e-2
    lr_decay: float = 0.0
    weight_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10

    def slots(self, p: Any) -> Slots:
        return {"sum": np.full_like(p, self.initial_accumulator_value)}

    def rule(self, p: Any, g: Any, s: Slots, rate: Any, count: Any) -> tuple[Any, Slots]:
        p, g = decayed(p, g, self.weight_decay, rate)
        if self.lr_decay:
            rate = rate * as_number(1 / (1 + (count - 1) * self.lr_decay), p)
        total = s["sum"] + np.square(g)
        return p - rate * g / (np.sqrt(total) + self.eps), {"sum": total}


@dataclass(frozen=True)
class Adadelta(Optimizer):
    """Steps measured by earlier steps, gradients by earlier gradients: no scale of its own."""

    lr: Rate = 1.0
    rho: float = 0.9
    eps: float = 1e-6
    weight_decay: float = 0.0

    def slots(self, p: Any) -> Slots:
        return {"square_avg": np.zeros_like(p), "acc_delta": np.zeros_like(p)}

    def rule(self, p: Any, g: Any, s: Slots, rate: Any, count: Any) -> tuple[Any, Slots]:
        p, g = decayed(p, g, self.weight_decay, rate)
        v = self.rho * s["square_avg"] + (1 - self.rho) * np.square(g)
        step = np.sqrt(s["acc_delta"] + self.eps) / np.sqrt(v + self.eps) * g
        seen = self.rho * s["acc_delta"] + (1 - self.rho) * np.square(step)
        return p - rate * step, {"square_avg": v, "acc_delta": seen}


def decayed(p: Any, g: Any, decay: float, rate: Any, decoupled: bool = False) -> tuple[Any, Any]:
    """Parameter and gradient after weight decay: in the gradient, or apart from it in the parameter."""
    if not decay:
        return p, g
    return (p * (1 - rate * decay), g) if decoupled else (p, g + decay * p)
