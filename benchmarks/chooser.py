"""Jacobians of 50 varied functions by every way, and by the one that is chosen.

    python benchmarks/chooser.py                        as they are called
    python benchmarks/chooser.py compiled               inside jit
    python benchmarks/chooser.py batched                small ones inside jit(vmap), for 1,000 points
    python benchmarks/chooser.py compiled applied       others: linear algebra, signals, physics, networks
    python benchmarks/chooser.py compiled loops         others, with loops
    python benchmarks/chooser.py compiled large         others, of millions of entries
    python benchmarks/chooser.py [compiled | batched] random 0 50 so many random functions, of this seed
    python benchmarks/chooser.py measured …             method="measured" in place of "auto"

The ratio is the time of method="auto" over the better one of plain forward and plain reverse: near or
below 1 if the chooser does not lose. Both plain ways are made twice: how far the two differ is the noise.
Compiled, the last column tells whose Program the chosen one is. Where it is not that of the better plain way,
and took more than 1.06 of its time, both are timed three times more, at leisure: the median counts as lost.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import batched_functions
import numpy as np
from applied_functions import applied
from batched_functions import network
from further_functions import large, loops
from harness import best_times, count_own_time, on_one_thread
from random_functions import random_cases

import backsolve as bs

RNG = np.random.default_rng(0)
CHOSEN = "measured" if "measured" in sys.argv else "auto"
WAYS = ("forward", "reverse", CHOSEN)
AGAIN = ("forward again", "reverse again")
ROUNDS = 15
AT_LEISURE = 60  # rounds, of those that seem to lose
LOST = 1.06
POINTS = 1000  # of a batch
SHORT = 40  # entries of an array of one point
Case = tuple[str, Callable[[Any], Any], Any]
OTHERS = {"applied": applied, "loops": loops, "large": large}


def waves(x: Any) -> Any:
    return np.sin(x) * np.exp(-x) + x**2


def stencil(u: Any) -> Any:
    v = np.concatenate([[0.0], u, [0.0]])
    return (v[:-2] - 2 * v[1:-1] + v[2:]) / 1e-2 + np.exp(u)


def grid(u: Any) -> Any:
    return (
        np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u + u**3
    )


def chain(n: int, steps: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for _ in range(steps):
            x = x + 0.1 * np.sin(x)
        return x

    return f


def cases() -> Iterator[Case]:
    for n in (1, 10, 100, 300, 600, 1000):
        yield f"elementwise {n}", waves, np.linspace(0, 1, n)
        yield f"stencil {n}", stencil, np.linspace(0, 1, n)
    for n in (3, 10, 20, 30):
        yield f"grid {n} × {n}", grid, RNG.normal(size=(n, n))
    for widths in ((10, 10), (50, 50, 50), (300, 300, 300), (500, 3, 500), (200, 3, 200, 3, 200)):
        yield f"square net {'-'.join(map(str, widths))}", network(*widths), np.ones(widths[0])
    for widths in ((2, 50, 200), (5, 300, 1000), (1, 100, 100), (20, 20, 2000), (3, 3, 3, 500)):
        yield f"tall net {'-'.join(map(str, widths))}", network(*widths), np.ones(widths[0])
    for widths in ((200, 50, 2), (1000, 300, 5), (100, 100, 1), (2000, 20, 20), (500, 3, 3, 3)):
        yield f"wide net {'-'.join(map(str, widths))}", network(*widths), np.ones(widths[0])
    for n, steps in ((1, 50), (5, 50), (50, 20), (400, 10), (800, 5)):
        yield f"chain {n}, {steps} steps", chain(n, steps), np.linspace(0, 1, n)
    for n in (10, 500, 5000):
        yield f"scalar of {n}", lambda x: waves(x).sum(), np.linspace(0, 1, n)
        yield f"log-sum-exp of {n}", lambda x: np.log(np.exp(x).sum()), np.linspace(0, 1, n)
    for n in (10, 500, 5000):
        grown = np.linspace(0, 1, n)
        yield f"curve of {n}", lambda t, g=grown: waves(t * g), 0.5
    for n in (20, 400):
        yield f"running sum {n}", lambda x: np.cumsum(np.sin(x)), np.linspace(0, 1, n)
        yield f"softmax {n}", lambda x: np.exp(x) / np.exp(x).sum(), np.linspace(0, 1, n)
    yield "gather 900", lambda x: np.sin(x[::3]) * x[1::3] * x[2::3], np.linspace(0, 1, 900)


def batched_cases() -> Iterator[Case]:
    for name, f, n in batched_functions.cases():
        yield name, f, np.linspace(0.5, 1, n)


def made(f: Callable[[Any], Any], wrap: Callable[[Any], Any]) -> dict[str, Any]:
    """Jacobians, by the names of their ways; the plain ones twice."""
    return {name: wrap(bs.jacobian(f, method=name.split()[0])) for name in (*WAYS, *AGAIN)}


def times(ways: dict[str, Any], x: Any, rounds: int = ROUNDS) -> dict[str, float]:
    """Milliseconds. A turn is several calls: the first one finds the caches as the way before left them."""
    runs = {name: partial(J, x) for name, J in ways.items()}
    for run in runs.values():  # first calls, in which all is compiled, tell nothing of a turn
        run()
    return {way: 1e3 * t for way, t in best_times(runs, turns=rounds, target=0.02).items()}


def whose(ways: dict[str, Any], x: Any) -> list[str]:
    """The plain ways whose Program the chosen one is, but for the numbers of its variables."""
    programs = {way: _numbered(ways[way].lower(x).stages["rewritten"]) for way in WAYS}
    return [way for way in WAYS[:2] if programs[way] == programs[CHOSEN]]


def _numbered(program: Any) -> str:
    """Its text, with variables numbered as they are met: Programs with loops are equal to themselves alone."""
    order: dict[str, str] = {}
    return re.sub(r"\bv\d+", lambda m: order.setdefault(m[0], f"v{len(order)}"), str(program))


def at_leisure(ways: dict[str, Any], x: Any) -> float:
    """The ratio once more: the median of three."""
    ratios = []
    for _ in range(3):
        found = times({way: ways[way] for way in WAYS}, x, AT_LEISURE)
        ratios.append(found[CHOSEN] / min(found[way] for way in WAYS[:2]))
    return float(np.median(ratios))


def _batched(J: Any) -> Any:
    return bs.jit(bs.vmap(J))


def _as_it_is(J: Any) -> Any:
    return J


def main() -> None:
    on_one_thread()
    count_own_time()
    bs.set_threads(1)
    is_batched = "batched" in sys.argv
    is_compiled = is_batched or "compiled" in sys.argv
    some = batched_cases() if is_batched else cases()
    for word, others in OTHERS.items():
        if word in sys.argv:
            some = others()
    if "random" in sys.argv:
        seed, count = map(int, sys.argv[sys.argv.index("random") + 1 :])
        some = random_cases(count, seed, SHORT) if is_batched else random_cases(count, seed)
    print(f"{'function':<28} {'forward':>9} {'reverse':>9} {CHOSEN:>9}  ratio  noise")
    ratios, noises, alike, lost = [], [], 0, {}
    wrap = _batched if is_batched else bs.jit if is_compiled else _as_it_is
    for name, f, x in some:
        if is_batched:
            x = x + 0.1 * RNG.normal(size=(POINTS, *np.shape(x))).astype(np.asarray(x).dtype)
        ways = made(f, wrap)
        found = times(ways, x)
        better = min(WAYS[:2], key=lambda way: found[way])
        ratio = found[CHOSEN] / found[better]
        noise = found[f"{better} again"] / found[better]
        ratios.append(ratio)
        noises.append(max(noise, 1 / noise))
        numbers = " ".join(f"{found[way]:9.4f}" for way in WAYS)
        same = whose(ways, x) if is_compiled else []
        chosen = " and ".join(same) if is_compiled else bs.explain_cost(f, x).chosen
        if ratio > LOST:
            alike += better in same
            if better not in same and (again := at_leisure(ways, x)) > LOST:
                lost[name] = round(again, 2)
        print(f"{name:<28} {numbers}  {ratio:5.2f}  {noise:5.2f}  {chosen}", flush=True)
    print(
        f"{len(ratios)} functions: {CHOSEN} over the better plain way {np.median(ratios):.2f} in the median, "
        f"{min(ratios):.2f} at best, {max(ratios):.2f} at worst; "
        f"the same code twice differs by {np.median(noises):.2f} in the median, {max(noises):.2f} at worst"
    )
    above = sum(ratio > LOST for ratio in ratios)
    print(
        f"{above} above {LOST}, {alike} of them by the very Program of the better way; lost at leisure: {lost}"
    )


if __name__ == "__main__":
    main()
