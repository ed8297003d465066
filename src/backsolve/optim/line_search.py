"""How far to go: a step that lowers φ(t) = f(x + t d) enough and leaves its slope much flatter.

The conditions are Wolfe's strong ones, φ(t) ≤ φ(0) + c₁ t φ'(0) and |φ'(t)| ≤ c₂ |φ'(0)|. Until an interval is
known that holds such a t, steps double; then the least point of the cubic through both ends is tried
(Nocedal and Wright, algorithms 3.5 and 3.6). One loop does both, so that it compiles to one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..control import while_loop

C1, C2 = 1e-4, 0.9


@dataclass(frozen=True)
class Point:
    """A step, what was found there, and the gradient of f."""

    t: Any
    value: Any
    slope: Any
    gradient: Any


@dataclass(frozen=True)
class _Search:
    low: Point  # the best so far, which lowers f enough
    high: Point  # the other end, once there is one
    t: Any  # to be tried next
    is_bracketed: Any
    is_done: Any
    count: Any


def strong_wolfe(
    along: Callable[[Any], Point], start: Point, first: Any, most: int = 25
) -> tuple[Point, Any]:
    """The point reached, and how often f was evaluated; `start` itself if nothing was lower."""
    no = np.zeros((), bool)
    init = _Search(start, start, first, no, no, np.zeros((), np.int64))

    def goes_on(s: _Search) -> Any:
        return np.logical_and(s.count < most, np.logical_not(s.is_done))

    def body(s: _Search) -> _Search:
        new = along(s.t)
        enough = new.value <= start.value + C1 * s.t * start.slope
        lower = np.logical_or(new.value < s.low.value, s.low.t == 0)
        good = np.logical_and(enough, lower)  # False at NaN
        flat = np.abs(new.slope) <= -C2 * start.slope
        is_done = np.logical_and(good, flat)
        # which way is down from here: away from the other end, or, without one, onwards
        onwards = np.where(s.is_bracketed, new.slope * (s.high.t - s.low.t), new.slope) < 0
        turns = np.logical_and(good, np.logical_not(onwards))
        high = _chosen(good, _chosen(turns, s.low, s.high), new)
        low = _chosen(good, new, s.low)
        is_bracketed = np.logical_or(s.is_bracketed, np.logical_or(np.logical_not(good), turns))
        t = np.where(is_bracketed, _between(low, high), 2 * s.t)
        return _Search(low, high, t, is_bracketed, is_done, s.count + 1)

    end = while_loop(goes_on, body, init)
    return end.low, end.count


def _chosen(condition: Any, a: Point, b: Point) -> Point:
    return Point(*[np.where(condition, x, y) for x, y in zip(_parts(a), _parts(b), strict=True)])


def _parts(p: Point) -> tuple[Any, ...]:
    return p.t, p.value, p.slope, p.gradient


def _between(a: Point, b: Point) -> Any:
    """Where the cubic with these values and slopes is least, but not too near to an end."""
    width = b.t - a.t
    safe = np.where(width == 0, 1.0, width).astype(a.value.dtype)
    mean = 3 * (a.value - b.value) / safe + a.slope + b.slope
    square = mean * mean - a.slope * b.slope
    root = np.sign(safe) * np.sqrt(np.where(square > 0, square, 0))
    divisor = b.slope - a.slope + 2 * root
    inner = b.t - safe * (b.slope + root - mean) / np.where(divisor == 0, 1, divisor)
    share = (inner - a.t) / safe
    known = np.logical_and(np.isfinite(share), np.logical_and(square > 0, divisor != 0))
    share = np.clip(np.where(known, share, 0.5), 0.1, 0.9)
    return a.t + share * width
