"""Is a function smooth at a point, along a line? One-sided slopes at two steps tell.

    D±(h) = ±(f(x ± h u) − f(x)) / h

For a smooth f, D₊ − D₋ = h f'' shrinks with h. At a kink it stays, at a jump f(x + hu) − f(x − hu) stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

_STEP = 2.0**-14  # of the length over which x varies; the second step is a sixteenth of it
_FINER = 16
_MUCH = 64  # times what rounding explains


@dataclass(frozen=True)
class Roughness:
    """Why there is no derivative: "kink" with its two slopes, "jump", or "edge" of the domain."""

    kind: str
    left: float
    right: float


def roughness(f: Callable[[Any], Any], x: Any, u: Any, noise: Any) -> list[Roughness | None]:
    """For each result of f, what is not smooth at x along u; `noise` is what rounding moves them by.

    sin varies over 1 however large x is, log over |x| however small it is: what is not smooth at the point is
    so beside either.
    """
    size = float(np.max(np.abs(x * (u != 0)), initial=0)) or 1.0
    with np.errstate(all="ignore"):
        wide, *narrow = [_at(f, x, u, noise, h) for h in sorted({max(1, size), min(1, size)})[::-1]]
    return [a and b for a, b in zip(wide, *narrow or [wide], strict=True)]


def _at(f: Callable[[Any], Any], x: Any, u: Any, noise: Any, length: float) -> list[Any]:
    y, h = f(x), _STEP * length
    far, near = (_slopes(f, x, u, y, step) for step in (h, h / _FINER))
    return [
        _judge([s[i] for s in far], [s[i] for s in near], h / _FINER, float(noise[i]))
        for i in range(len(y))
    ]


def _slopes(f: Callable[[Any], Any], x: Any, u: Any, y: Any, h: float) -> tuple[Any, Any]:
    return (y - f(x - h * u)) / h, (f(x + h * u) - y) / h


def _judge(far: list[float], near: list[float], h: float, noise: float) -> Roughness | None:
    left, right = near
    if not np.all(np.isfinite(near)):
        return Roughness("edge", float(left), float(right))
    if not np.all(np.isfinite(far)):
        return None  # the edge is within reach of the larger step only
    across, wide_across = abs(left + right) * h, abs(far[0] + far[1]) * h * _FINER
    if across > _MUCH * noise and across > 0.5 * wide_across:
        return Roughness("jump", float(left), float(right))
    gap, wide_gap = abs(right - left), abs(far[1] - far[0])
    known = _MUCH * noise / h + 1e-7 * max(abs(left), abs(right))
    return Roughness("kink", left, right) if gap > known and gap > 0.5 * wide_gap else None
