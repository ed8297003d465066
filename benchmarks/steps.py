"""How long each step of compiled Jacobians takes, beside its price: where prices are wrong, and fitting them.

    python benchmarks/steps.py 13/24            one random batched function (seed/number), both plain ways
    python benchmarks/steps.py one 41/7         the same of one point
    python benchmarks/steps.py fit 3 40 7 40    rates fitted to so many batched functions of these seeds

The processor's counter is read before and after each step, inside of sweeps too; the least of many runs counts,
both ways taking turns. Steps of one point are short beside reading the counter, some 10 ns.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from chooser import POINTS, SHORT
from harness import on_one_thread
from llvmlite import binding, ir
from random_functions import random_cases
from scipy.optimize import nnls

import backsolve as bs
from backsolve.backends.native import build
from backsolve.backends.native import compile as native
from backsolve.backends.native.pricing import Counted
from backsolve.backends.native.rates import RATES
from backsolve.backends.native.steps import Site, Step
from backsolve.backends.native.sweep import Sweep
from backsolve.ir import Program
from backsolve.rewrite import rewrite_for_machines

INT = ir.IntType(64)
MOST = 4096  # steps of a Program
ROUNDS, TURN = 40, 6e-3  # of measuring, and seconds of one
SHORTEST = 2e-6  # seconds of a step that rates are fitted to
KEPT = 2.0  # steps' worth of doubt about a rate as it is
_ticks = (ctypes.c_int64 * MOST)()


@dataclass
class Timed:
    """One step: what it takes, and what is counted of it in all slices of its sweep."""

    step: Step
    depth: int  # 1 inside of a sweep
    seconds: float
    counted: Counted


# ---- the counter


def now(b: ir.IRBuilder) -> ir.Value:
    """Ticks: of arm64's virtual counter, which every program may read, else LLVM's choice."""
    kind = ir.FunctionType(INT, [])
    if platform.machine() in ("aarch64", "arm64"):
        binding.initialize_native_asmparser()
        return b.asm(kind, "mrs $0, cntvct_el0", "=r", [], True)
    name = "llvm.readcyclecounter"
    return b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name), [])


def ticks_a_second() -> float:
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(INT, []), "ticks")
    b = ir.IRBuilder(function.append_basic_block())
    b.ret(now(b))
    engine, _ = build.load(str(module))
    read = ctypes.CFUNCTYPE(ctypes.c_int64)(engine.get_function_address("ticks"))
    first, start = read(), time.perf_counter()
    time.sleep(0.2)
    return (read() - first) / (time.perf_counter() - start)


def count_ticks(step: Step, place: int) -> None:
    """From now on the step is emitted with what adds up its ticks."""
    emit = step.emit

    def counting(site: Site) -> None:
        start = now(site.b)
        emit(site)
        taken = site.b.sub(now(site.b), start)
        at = site.b.inttoptr(INT(ctypes.addressof(_ticks) + 8 * place), INT.as_pointer())
        site.b.store(site.b.add(site.b.load(at), taken), at)

    step.emit = counting


class Watched:
    """A Program compiled with counters from `first` on."""

    def __init__(self, program: Program, first: int):
        self.first = first
        self.steps: list[
            tuple[Step, Step, int]
        ] = []  # step, what it is a part of, how often it runs
        as_it_is = native.scheduled

        def scheduled(*args: Any, **kwargs: Any) -> Any:
            self.schedule, donors = as_it_is(*args, **kwargs)
            for step in self.schedule.steps:
                self._watch(step, step, 1)
                for inner in step.steps if isinstance(step, Sweep) else ():
                    self._watch(inner, step, step.count)
            return self.schedule, donors

        native.scheduled = scheduled
        try:
            self.call = native.compile_program(program).call
        finally:
            native.scheduled = as_it_is
        self.ticks = np.full(len(self.steps), np.inf)

    def _watch(self, step: Step, whole: Step, times: int) -> None:
        count_ticks(step, self.first + len(self.steps))
        self.steps.append((step, whole, times))

    def run(self, x: Any, count: int) -> None:
        places = slice(self.first, self.first + len(self.steps))
        _ticks[places] = [0] * len(self.steps)
        for _ in range(count):
            self.call(x)
        self.ticks = np.minimum(self.ticks, np.array(_ticks[places]) / count)

    def timed(self, rate: float) -> Iterator[Timed]:
        for (step, whole, times), ticks in zip(self.steps, self.ticks, strict=True):
            counted = Counted([], dict(self.schedule.constants))
            counted.nbytes = sum(x.nbytes for x in dict.fromkeys(whole.buffers()))
            counted.step(step, times)
            yield Timed(step, int(step is not whole), ticks / rate, counted)


def measured(f: Any, x: Any, is_batched: bool, rate: float) -> dict[str, list[Timed]]:
    """The steps of both plain ways."""
    found = {}
    for k, way in enumerate(("forward", "reverse")):
        J = bs.jacobian(f, method=way)
        compiled = bs.jit(bs.vmap(J) if is_batched else J)
        compiled(x)
        (special,) = compiled._known.values()
        found[way] = Watched(rewrite_for_machines(special.program), k * MOST // 2)
    for watched in found.values():
        start = time.perf_counter()
        watched.call(x)
        taken = time.perf_counter() - start
    for _ in range(ROUNDS):
        for watched in found.values():
            watched.run(x, max(1, int(TURN / taken)))
    return {way: [*watched.timed(rate)] for way, watched in found.items()}


# ---- what is asked for


def case(seed: int, k: int, is_batched: bool) -> tuple[str, Any, Any]:
    *_, (name, f, x) = random_cases(k + 1, seed, *([SHORT] if is_batched else []))
    if is_batched:
        x = x + 0.1 * np.random.default_rng(0).normal(size=(POINTS, *x.shape))
    return name, f, x


def show(seed: int, k: int, is_batched: bool) -> None:
    rate = ticks_a_second()
    name, f, x = case(seed, k, is_batched)
    print(name)
    for way, steps in measured(f, x, is_batched, rate).items():
        whole = sum(t.seconds for t in steps if t.depth == 0)
        priced = sum(t.counted.seconds for t in steps if t.depth == 0)
        print(f"\n{way}: {1e6 * whole:.1f} µs, priced {1e6 * priced:.1f}")
        for t in steps:
            parts = {what: RATES[what] * n for what, n in t.counted.counts.items()}
            most = sorted(parts, key=lambda what: -parts[what])[:5]
            words = ", ".join(f"{what} {1e6 * parts[what]:.1f}" for what in most)
            kind, said = type(t.step).__name__, t.step.describe().splitlines()[0][:60]
            print(
                f"{'    ' * (t.depth + 1)}{1e6 * t.seconds:8.1f} µs, priced {1e6 * t.counted.seconds:8.1f}"
                f"  {kind}: {said}  ({words})"
            )


def fit(seeds: list[tuple[int, int]]) -> None:
    """Rates that make times of steps, in relative error and doubting far ones, nearest to their prices."""
    rate = ticks_a_second()
    steps: list[Timed] = []
    for seed, count in seeds:
        for k in range(count):
            _, f, x = case(seed, k, True)
            for found in measured(f, x, True, rate).values():
                steps += [t for t in found if not isinstance(t.step, Sweep)]
    steps = [t for t in steps if t.seconds > SHORTEST and not t.counted.others]
    names = sorted({what for t in steps for what in t.counted.counts})
    counts = np.array([[t.counted.counts[what] for what in names] for t in steps])
    seconds = np.array([t.seconds for t in steps])
    rates = np.array([RATES[what] for what in names])
    level = np.median(seconds / (counts @ rates))  # of this machine
    weight = 1 / np.maximum(seconds, level * (counts @ rates))
    share = np.ones(len(names))
    own = np.sqrt(KEPT) * np.eye(len(names))
    for _ in range(30):
        off = np.abs(counts @ (share * level * rates) - seconds) * weight
        trust = weight * np.sqrt(np.minimum(1, 0.3 / np.maximum(off, 1e-9)))
        lines = np.vstack([counts * (level * rates) * trust[:, None], own])
        share, _ = nnls(lines, np.concatenate([seconds * trust, own.sum(1)]))
    before, after = (
        np.median(np.abs(np.log(np.maximum(counts @ r, 1e-12) / seconds)))
        for r in (level * rates, level * rates * share)
    )
    print(
        f"{len(steps)} steps take {level:.2f} of their prices; off by {before:.2f}, fitted {after:.2f}"
    )
    for k in np.argsort(-(counts @ np.diag(rates)).sum(0)):
        print(f"{names[k]:<22} {rates[k]:.2e} → {rates[k] * share[k]:.2e}  ({share[k]:.2f})")


def main() -> None:
    on_one_thread()
    bs.set_threads(1)
    words = sys.argv[1:]
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # code with counters is of use to this process alone
        os.environ["BACKSOLVE_CACHE_DIR"] = folder
        if words[0] == "fit":
            numbers = [*map(int, words[1:])]
            fit([*zip(numbers[::2], numbers[1::2], strict=True)])
        else:
            seed, k = map(int, words[-1].split("/"))
            show(seed, k, words[0] != "one")


if __name__ == "__main__":
    main()
