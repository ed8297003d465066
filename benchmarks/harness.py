"""Timing side by side: contestants take turns, the best of several turns counts, ratios are shown."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable


def best_times(
    contestants: dict[str, Callable[[], object]], turns: int = 15, target: float = 0.03
) -> dict[str, float]:
    """Seconds a call, each contestant's best turn; the turns are interleaved on a noisy machine."""
    counts = {}
    for name, run in contestants.items():
        run()
        start = time.perf_counter()
        run()
        once = max(time.perf_counter() - start, 1e-7)
        counts[name] = max(1, int(target / once))
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(turns):
        for name, run in contestants.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                run()
            best[name] = min(best[name], (time.perf_counter() - start) / counts[name])
    return best


def show_row(title: str, times: dict[str, float], ours: str = "backsolve") -> str:
    """One table row: our time, and every peer's time as a multiple of it."""
    peers = [f"{t / times[ours]:.2f}× ({_text(t)})" for name, t in times.items() if name != ours]
    return f"| {title} | {_text(times[ours])} | {' | '.join(peers)} |"


def _text(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def machine() -> str:
    return f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
