"""Chains differentiated in few kept states: forward steps really run, beside the least possible.

Forward steps are counted by the step itself, the first sweep included; the steps that are recorded to be
reversed, each once, apart. (Of equinox's checkpointed loop 1.3 to 1.4 times the optimum is told; it is not run
here.) A loop that ends by a condition is compared with the optimum for the number of steps that it took. Then,
with states of 80 kB, the most memory that Python really held, for the first and the second derivative, and for
a dense Jacobian of 40 rows. The last lines are the same loop inside `bs.jit`, which is done in pieces: what it
stores, and the time beside no budget; the first and the second derivative; loops between products; one choice
among eight loops, and eight choices one after the other.

    python benchmarks/checkpointing.py [most steps]
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import backsolve as bs
from backsolve.errors import BudgetError
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


def by_condition(steps: int, slots: int, x: Any) -> None:
    step = Counted()
    run = lambda x: bs.while_loop(
        lambda s: s[1] < steps, lambda s: (step(0, s[0]), s[1] + 1), (x, 0)
    )[0].sum()
    f = bs.checkpoint(run, slots=slots)
    bs.grad(f)(x)
    forward, best = step.calls - steps, fewest_steps(steps, slots)
    print(f"while {steps:>8,} {slots:>6} {forward:>10,} {best:>10,} {forward / best:>7.3f}")


def measured(steps: int, memory: int) -> None:
    x = np.linspace(0.1, 1.0, 10_000)
    f = bs.checkpoint(
        lambda x: bs.fori_loop(0, steps, lambda i, s: s + 0.001 * np.sin(s), x).sum(), memory=memory
    )
    ways = {
        "first": bs.grad(f),
        "second": bs.grad(lambda x: (bs.grad(f)(x) ** 2).sum()),
    }
    for order, g in ways.items():
        g(x)  # the first call loads what all others use
        tracemalloc.start()
        g(x)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        whole = steps * x.nbytes
        print(
            f"{order} derivative, {steps:,} steps in {memory:,} bytes: Python held {peak:,} at most "
            f"(states alone: {whole:,})"
        )


def dense(steps: int, slots: int) -> None:
    x = np.linspace(0.1, 1.0, 2_000)
    step = Counted()
    plain = lambda x: bs.fori_loop(0, steps, step, x)[:40]
    for name, f in {"slots": bs.checkpoint(plain, slots=slots), "no budget": plain}.items():
        step.calls = 0
        tracemalloc.start()
        bs.jacobian(f, method="reverse")(x)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(
            f"Jacobian of {steps} steps, {name}: {step.calls} calls of the step, Python held {peak:,}"
        )


def mixed(x: Any) -> Any:
    turn = lambda x: np.sin(x @ (np.eye(64) + 0.01))
    x = turn(turn(turn(turn(turn(turn(turn(turn(x))))))))
    x = bs.fori_loop(0, 200, lambda i, s: s + 0.01 * np.sin(s), x)
    x = turn(turn(turn(turn(turn(turn(turn(turn(x))))))))
    return bs.fori_loop(0, 100, lambda i, s: s + 0.01 * np.cos(s), turn(turn(x))).sum()


def loop_of(k: int) -> Callable[[Any], Any]:
    """Loops of as many lengths, whose tapes have no type in common."""
    step = lambda i, s: np.sin(s) * (1.01 + k / 1e4)
    return lambda x: bs.fori_loop(0, 300 + k, step, x)


def choice(x: Any) -> Any:
    pick = loop_of(7)
    for k in reversed(range(7)):
        pick = lambda x, k=k, other=pick: bs.cond(x[0] > 1 - (k + 1) / 8, loop_of(k), other, x)
    return (pick(x) ** 2).sum()


def choices(x: Any) -> Any:
    for k in range(8):
        x = bs.cond(x[k] > 0.05, loop_of(k), np.cos, x)
    return (x**2).sum()


def compiled(plain: Any, name: str, x: Any, budgets: Any) -> None:
    second = lambda f: lambda x: bs.jvp(bs.grad(f), (x,), (np.cos(x),))[1]
    for order, derivative in {"first": bs.grad, "second": second}.items():
        _compiled(plain, f"{name}, {order} derivative", x, budgets, derivative)


def _compiled(plain: Any, name: str, x: Any, budgets: Any, derivative: Any) -> None:
    for memory in budgets:
        f = plain if memory is None else bs.checkpoint(plain, memory=memory)
        g = bs.jit(derivative(f))
        try:
            g(x)
        except BudgetError as refused:
            print(str(refused).splitlines()[0])
            continue
        times = []
        for _ in range(5):
            start = time.perf_counter()
            g(x)
            times.append(time.perf_counter() - start)
        stored = g.stats()["specialisations"][0]["arena_bytes"]
        print(f"jit, {name}, memory={memory}: stores {stored:,} bytes, {min(times) * 1e3:.1f} ms")


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    x = np.linspace(0.1, 1.0, 8)
    print("   steps  slots    forward    optimum   ratio  recorded   bytes")
    for steps, slots in CASES:
        if steps <= most:
            by_slots(steps, slots, x)
    for steps, slots in CASES:
        if steps <= most:
            by_condition(steps, slots, x)
    measured(1_000, 2_000_000)
    dense(200, 10)
    for steps, _ in CASES:
        if steps <= most:
            loop = lambda x, n=steps: bs.fori_loop(0, n, Counted(), x).sum()
            compiled(loop, f"{steps:,} steps", x, (None, 1_000_000, 100_000, 10_000, 3_200))
    y = np.linspace(0.1, 1.0, 4_096).reshape(64, 64)
    budgets = (None, *[n * y.nbytes for n in (100, 50, 40, 20)])
    compiled(mixed, "loops and products of 64 × 64", y, budgets)
    z = np.linspace(0.1, 1.0, 10_000)
    budgets = (None, *[n * z.nbytes for n in (600, 300, 100, 50)])
    compiled(choice, "one of eight loops, states of 80 kB", z, budgets)
    compiled(choices, "eight choices in a row, states of 80 kB", z, budgets)


if __name__ == "__main__":
    main()
