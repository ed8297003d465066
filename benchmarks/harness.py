"""Timing side by side: contestants take turns, the best of several turns counts, ratios are shown.

Also what the machine itself can do, measured in the same run: the speed of BLAS and of copying.
"""

from __future__ import annotations

import importlib.metadata as metadata
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable

import numpy as np

Run = Callable[[], object]
_clock: list[Callable[[], float]] = [time.perf_counter]


def clock() -> float:
    return _clock[0]()


def count_own_time() -> None:
    """From now on, the time of this process alone: for one thread, on a core that others use too."""
    _clock[0] = time.process_time


def best_times(
    contestants: dict[str, Run], turns: int = 15, target: float = 0.03, budget: float = 10.0
) -> dict[str, float]:
    """Seconds a call, each contestant's best turn; the turns are interleaved on a noisy machine.

    A turn is as many calls as fit into `target` seconds. Slow contestants get fewer turns: about as many
    as fit into `budget` seconds, of which the first call after a warm one is the first.
    """
    counts, best = {}, {}
    for name, run in contestants.items():
        start = clock()
        run()
        if clock() - start < 1:
            start = clock()
            run()
        best[name] = max(clock() - start, 1e-7)
        counts[name] = max(1, int(target / best[name]))
    round_takes = sum(best[name] * counts[name] for name in contestants)
    for _ in range(min(turns, max(1, int(budget / round_takes)))):
        for name, run in contestants.items():
            start = clock()
            for _ in range(counts[name]):
                run()
            best[name] = min(best[name], (clock() - start) / counts[name])
    return best


def show_row(title: str, times: dict[str, float], ours: str = "backsolve") -> str:
    """One table row: our time, and every peer's time as a multiple of it."""
    peers = [f"{t / times[ours]:.2f}× ({text(t)})" for name, t in times.items() if name != ours]
    return f"| {title} | {text(times[ours])} | {' | '.join(peers)} |"


def text(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def header(*columns: str) -> str:
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def machine() -> str:
    return f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"


def versions(names: Iterable[str]) -> str:
    return ", ".join(f"{n} {metadata.version(n)}" for n in names)


def environment(threads: int) -> dict[str, str]:
    """The environment of a process in which every library may use so many threads."""
    env = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    if threads == 1:
        env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    return env


def keep_to_cores(threads: int) -> None:
    """Let this process use so many cores: XLA takes all it sees, whatever its flags say."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


def on_one_thread() -> None:
    """Start this script again if a library may use more: BLAS reads that as it is loaded, with NumPy."""
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        os.execve(sys.executable, [sys.executable, *sys.argv], environment(1))
    keep_to_cores(1)


# ---- what the machine can do, in this process and with its threads


_best: dict[str, float] = {}


def _fastest(what: str, work: float, run: Run) -> float:
    """Work a second; the best of all measurements of this process, for a machine that others share."""
    seconds = best_times({what: run}, turns=5)[what]
    _best[what] = max(_best.get(what, 0.0), work / seconds)
    return _best[what]


def blas_speed(dtype: str) -> float:
    """Multiplications and additions a second, in a product of 1024 × 1024 matrices."""
    n = 1024
    a, b = np.random.default_rng(0).normal(size=(2, n, n)).astype(dtype)
    out = np.empty_like(a)
    return _fastest(dtype, 2 * n**3, lambda: np.matmul(a, b, out=out))


def copy_speed() -> float:
    """Bytes read and written a second, in a copy of an array that no cache holds."""
    a = np.ones(1 << 23)
    out = np.empty_like(a)
    return _fastest("copy", 2 * a.nbytes, lambda: np.copyto(out, a))


def limit(flops: float, nbytes: float, dtype: str) -> tuple[float, str]:
    """No faster than this: the products at the speed of BLAS, or the arrays at that of copying."""
    limits = [(nbytes / copy_speed(), "copy")]
    if flops:
        limits.append((flops / blas_speed(dtype), "BLAS"))
    return max(limits)
