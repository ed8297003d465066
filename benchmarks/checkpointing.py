"""Chains differentiated in few kept states: forward steps really run, beside the least possible.

Forward steps are counted by the step itself, the first sweep included; the steps that are recorded to be
reversed, each once, apart. (Of equinox's checkpointed loop 1.3 to 1.4 times the optimum is told; it is not run
here.) The last lines are the same loop inside `bs.jit`, which is done in pieces: what it stores, and the time
beside no budget.

    python benchmarks/checkpointing.py [most steps]
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import backsolve as bs
from backsolve.solve.revolve import fewest_steps

CASES = [(1_000, 10), (10_000, 20), (100_000, 50)]


class Counted:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, i: Any, s: Any) -> Any:
        self.calls += 1
        return s + 0.001 * np.sin(s)


def by_slots(steps: int, slots: int, x: Any) -> None:
    step = Counted()
    f = bs.checkpoint(lambda x: bs.fori_loop(0, steps, step, x).sum(), slots=slots)
    start = time.perf_counter()
    bs.grad(f)(x)
    taken = time.perf_counter() - start
    forward, best = step.calls - steps, fewest_steps(steps, slots)
    print(
        f"{steps:>8,} {slots:>6} {forward:>10,} {best:>10,} {forward / best:>7.3f} {steps:>9,} "
        f"{f.report.peak_bytes:>9,} {taken:>8.2f} s"
    )


def compiled(steps: int, x: Any) -> None:
    def plain(x: Any) -> Any:
        return bs.fori_loop(0, steps, lambda i, s: s + 0.001 * np.sin(s), x).sum()

    for memory in (None, 1_000_000, 100_000, 10_000, 50 * x.nbytes):
        f = plain if memory is None else bs.checkpoint(plain, memory=memory)
        g = bs.jit(bs.grad(f))
        g(x)
        start = time.perf_counter()
        g(x)
        taken = time.perf_counter() - start
        stored = g.stats()["specialisations"][0]["arena_bytes"]
        print(
            f"jit {steps:>8,} steps, memory={memory}: stores {stored:,} bytes, {taken * 1e3:.1f} ms"
        )


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    x = np.linspace(0.1, 1.0, 8)
    print("   steps  slots    forward    optimum   ratio  recorded   bytes")
    for steps, slots in CASES:
        if steps <= most:
            by_slots(steps, slots, x)
    for steps, _ in CASES:
        if steps <= most:
            compiled(steps, x)


if __name__ == "__main__":
    main()
