"""Rules for large batches and large models: LAMB measures steps by the parameter, Adafactor keeps little."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from .base import Optimizer, Rate, Slots, as_number, powers


@dataclass(frozen=True)
class LAMB(Optimizer):
    """Adam's direction, as long as the parameter it changes (You and others, 2020)."""

    lr: Rate = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-6
    weight_decay: float = 0.0

    def slots(self, p: Any) -> Slots:
        return {"exp_avg": np.zeros_like(p), "exp_avg_sq": np.zeros_like(p)}

    def rule(self, p: Any, g: Any, s: Slots, rate: Any, count: Any) -> tuple[Any, Slots]:
        b1, b2 = self.betas
        m = b1 * s["exp_avg"] + (1 - b1) * g
        v = b2 * s["exp_avg_sq"] + (1 - b2) * np.square(g)
        mean = m * as_number(1 / (1 - powers(b1, count)), p)
        square = v * as_number(1 / (1 - powers(b2, count)), p)
        step = mean / (np.sqrt(square) + self.eps) + self.weight_decay * p
        own, length = _length(p), _length(step)
        ratio = np.where((own > 0) & (length > 0), own / np.where(length > 0, length, 1), 1)
        return p - rate * ratio * step, {"exp_avg": m, "exp_avg_sq": v}


@dataclass(frozen=True)
class Adafactor(Optimizer):
    """The mean of squares of a matrix kept as one number per row and per column; settings as PyTorch's."""

    lr: Rate = 1e-2
    beta2_decay: float = -0.8
    eps: tuple[float | None, float] = (None, 1e-3)
    d: float = 1.0
    weight_decay: float = 0.0

    def slots(self, p: Any) -> Slots:
        if len(p.shape) < 2:
            return {"variance": np.zeros_like(p)}
        rows, columns = (*p.shape[:-1], 1), (*p.shape[:-2], 1, p.shape[-1])
        return {"row_var": np.zeros(rows, p.dtype), "col_var": np.zeros(columns, p.dtype)}

    def rule(self, p: Any, g: Any, s: Slots, rate: Any, count: Any) -> tuple[Any, Slots]:
        smallest = float(np.finfo(p.dtype).eps) if self.eps[0] is None else self.eps[0]
        t = count.astype(np.float64)
        share = as_number(t**self.beta2_decay, p)
        root = prod(p.shape) ** 0.5
        size = np.maximum(self.eps[1], _length(p) / root)
        step = size * np.minimum(rate, as_number(1 / np.sqrt(t), p))
        if self.weight_decay:
            p = p * (1 - rate * self.weight_decay)
        squares = np.square(g)
        if len(p.shape) < 2:
            new = {"variance": _towards(s["variance"], squares, share)}
            v = new["variance"]
        else:
            rows = _towards(s["row_var"], np.mean(squares, axis=-1, keepdims=True), share)
            columns = _towards(s["col_var"], np.mean(squares, axis=-2, keepdims=True), share)
            new = {"row_var": rows, "col_var": columns}
            v = rows * columns / np.maximum(np.mean(rows, axis=-2, keepdims=True), smallest)
        change = g / np.sqrt(np.maximum(v, smallest * smallest))
        limit = np.maximum(1.0, _length(change) / (root * self.d))
        return p - step / limit * change, new


def _length(x: Any) -> Any:
    return np.sqrt(np.sum(np.square(x)))


def _towards(old: Any, new: Any, share: Any) -> Any:
    return old + share * (new - old)
