"""Rules that see a matrix as one: Muon makes steps orthogonal, Shampoo measures rows and columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .adaptive import AdamW
from .base import Optimizer, Rate, Slots


@dataclass(frozen=True)
class Muon(Optimizer):
    """Momentum made orthogonal by a few steps of Newton and Schulz; settings as PyTorch's.

    Meant for matrices inside of a network. Arrays of more axes count as matrices of their first against
    the others; vectors and numbers go by AdamW with `adamw_lr`, which by default is lr.
    """

    lr: Rate = 1e-3
    weight_decay: float = 0.1
    momentum: float = 0.95
    nesterov: bool = True
    ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315)
    eps: float = 1e-7
    ns_steps: int = 5
    adjust_lr_fn: str | None = None
    adamw_lr: float | None = None

    def slots(self, p: Any) -> Slots:
        if len(p.shape) < 2:
            return self._beside().slots(p)
        return {"momentum_buffer": np.zeros_like(p)}

    def rule(self, p: Any, g: Any, s: Slots, rate: Any, count: Any) -> tuple[Any, Slots]:
        if len(p.shape) < 2:
            own = rate if self.adamw_lr is None else self.adamw_lr
            return self._beside().rule(p, g, s, own, count)
        b = s["momentum_buffer"] + (1 - self.momentum) * (g - s["momentum_buffer"])
        step = g + self.momentum * (b - g) if self.nesterov else b
        matrix = np.reshape(step, (p.shape[0], -1))
        step = np.reshape(self._orthogonal(matrix), p.shape)
        rows, columns = matrix.shape
        if self.adjust_lr_fn in (None, "original"):
            ratio = math.sqrt(max(1.0, rows / columns))
        elif self.adjust_lr_fn == "match_rms_adamw":
            ratio = 0.2 * math.sqrt(max(rows, columns))
        else:
            raise ValueError(f"adjust_lr_fn {self.adjust_lr_fn!r} is not known")
        new = p * (1 - rate * self.weight_decay) - rate * ratio * step
        return new, {"momentum_buffer": b}

    def _beside(self) -> AdamW:
        return AdamW(weight_decay=self.weight_decay)

    def _orthogonal(self, m: Any) -> Any:
        """Near the orthogonal matrix next to m: its singular values are brought near 1."""
        a, b, c = self.ns_coefficients
        is_tall = m.shape[0] > m.shape[1]
        x = m.T if is_tall else m
        x = x / np.maximum(np.sqrt(np.sum(np.square(x))), self.eps)
        for _ in range(self.ns_steps):
            gram = x @ x.T
            x = a * x + (b * gram + c * (gram @ gram)) @ x
        return x.T if is_tall else x


@dataclass(frozen=True)
class Shampoo(Optimizer):
    """Each axis of a parameter is measured by a matrix of its own (Gupta and others, 2018).

    For a matrix: L⁻¹ᐟ⁴ G R⁻¹ᐟ⁴, with L and R the sums of G Gᵀ and Gᵀ G. Axes longer than `largest` are left
    as they are.
    """

    lr: Rate = 1e-1
    momentum: float = 0.0
    weight_decay: float = 0.0
    eps: float = 1e-4
    largest: int = 1024

    def slots(self, p: Any) -> Slots:
        kept: Slots = {
            f"axis{k}": self.eps * np.eye(n, dtype=p.dtype)
            for k, n in enumerate(p.shape)
            if n <= self.largest
        }
        if self.momentum:
            kept["momentum_buffer"] = np.zeros_like(p)
        return kept

    def rule(self, p: Any, g: Any, s: Slots, rate: Any, count: Any) -> tuple[Any, Slots]:
        if self.weight_decay:
            g = g + self.weight_decay * p
        new: Slots = {}
        axes = [k for k in range(len(p.shape)) if f"axis{k}" in s]
        step = g
        for k in axes:
            flat = np.reshape(np.moveaxis(g, k, 0), (p.shape[k], -1))
            total = new[f"axis{k}"] = s[f"axis{k}"] + flat @ flat.T
            root = _inverse_root(total, 2 * len(axes))
            step = np.moveaxis(np.tensordot(root, step, axes=((1,), (k,))), 0, k)
        if self.momentum:
            step = new["momentum_buffer"] = self.momentum * s["momentum_buffer"] + step
        return p - rate * step, new


def _inverse_root(a: Any, order: int) -> Any:
    """a^(−1/order) of a symmetric positive matrix."""
    values, vectors = np.linalg.eigh(a)
    least = np.finfo(a.dtype).eps * values[-1]
    return (vectors * np.maximum(values, least) ** (-1 / order)) @ vectors.T
