"""Times of several functions, measured in turns, with how far they can be believed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

_TURN = 0.02  # seconds of calls that one turn takes


@dataclass(frozen=True)
class Timing:
    """Seconds a call: the median of all turns, and half the width of their middle half."""

    seconds: float
    noise: float
    turns: int

    @property
    def share(self) -> float:
        return self.noise / self.seconds


def measured(
    contestants: dict[str, Callable[[], Any]],
    seconds: float,
    progress: Callable[[float, float], None] = lambda done, total: None,
) -> dict[str, Timing]:
    """Each gets the same number of turns, taken one after the other, so that all see the same machine."""
    counts = {name: _calls_a_turn(run) for name, run in contestants.items()}
    turns: dict[str, list[float]] = {name: [] for name in contestants}
    began = time.perf_counter()
    while (done := time.perf_counter() - began) < seconds or _least(turns) < 3:
        progress(min(done, seconds), seconds)
        for name, run in contestants.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                run()
            turns[name].append((time.perf_counter() - start) / counts[name])
    return {name: _timing(found) for name, found in turns.items()}


def _least(turns: dict[str, list[float]]) -> int:
    return min(map(len, turns.values()), default=3)


def _calls_a_turn(run: Callable[[], Any]) -> int:
    start = time.perf_counter()
    run()
    return max(1, int(_TURN / max(time.perf_counter() - start, 1e-7)))


def _timing(turns: list[float]) -> Timing:
    low, middle, high = np.quantile(turns, [0.25, 0.5, 0.75])
    return Timing(float(middle), float(high - low) / 2, len(turns))


def clock(seconds: float) -> str:
    """
    >>> clock(2.5e-6), clock(0.0123), clock(3.0)
    ('2.50 µs', '12.3 ms', '3.00 s')
    """
    for unit, size in (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3)):
        if (count := seconds / size) < 999.5:
            return f"{count:.0f} ns" if unit == "ns" else f"{_three_digits(count)} {unit}"
    return f"{_three_digits(seconds)} s"


def _three_digits(x: float) -> str:
    """
    >>> _three_digits(9.996), _three_digits(99.96), _three_digits(1234.5)
    ('10.0', '100', '1,234')
    """
    decimals = 2 if x < 9.995 else 1 if x < 99.95 else 0
    return f"{x:,.{decimals}f}"
