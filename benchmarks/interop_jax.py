"""Functions of ours inside JAX: what a call costs, what is kept for the backward pass, and three kernels beside
their best pure JAX.

    python benchmarks/interop_jax.py

Values and gradients agree before anything is timed. JAX compiles everything; 64 bits, one thread, and the time
of this process alone.
"""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any
from unittest import mock

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import numpy as np
from harness import best_times, count_own_time, header, machine, show_row, text, versions
from interop import CENTRES, RADII, march_together, soft_sort, trajectory
from peers import jax, jnp

import backsolve as bs
from backsolve.interop import parted

sys.path.append(str(pathlib.Path(__file__).parents[1] / "examples"))
from ray_marcher import FAR, MOST, NEAR, camera, march
from soft_dtw import BORDER, series, soft_dtw
from soft_rank import soft_rank

function = bs.interop.jax.function


def called(f: Any, *args: Any) -> Any:
    """Compiled by JAX, called until the results are there."""
    compiled = jax.jit(f)
    return lambda: jax.block_until_ready(compiled(*args))


# ---- what a call costs


def small(x: Any, w: Any) -> Any:
    return np.sum(np.tanh(x * w))


def calls() -> None:
    x, w = jnp.linspace(0.0, 1.0, 10), jnp.linspace(1.0, 2.0, 10)

    @jax.custom_vjp
    def by_hand(x: Any, w: Any) -> Any:
        return jax.pure_callback(small, jax.ShapeDtypeStruct((), x.dtype), x, w)

    def slopes(x: Any, w: Any, seed: Any) -> Any:
        x, w = np.asarray(x), np.asarray(w)
        slope = (1 - np.tanh(x * w) ** 2) * np.asarray(seed)
        return slope * w, slope * x

    def pulled(saved: Any, seed: Any) -> Any:
        forms = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in saved]
        return jax.pure_callback(slopes, tuple(forms), *saved, seed)

    by_hand.defvjp(lambda x, w: (by_hand(x, w), (x, w)), pulled)
    versions = {
        "JAX": lambda x, w: jnp.sum(jnp.tanh(x * w)),
        "**ours, native**": function(small, backend="native"),
        "ours, in XLA's operations": function(small, backend="xla"),
        "jax.pure_callback of NumPy, its derivative by hand": by_hand,
    }
    values = {name: called(f, x, w) for name, f in versions.items()}
    both = {
        name: called(jax.value_and_grad(f, argnums=(0, 1)), x, w) for name, f in versions.items()
    }
    agree("calls", both)
    print(header("sum(tanh(x w)) of 10 numbers, in jax.jit", "value", "value and gradients"))
    forward, all_of_it = best_times(values, turns=40), best_times(both, turns=40)
    for name in versions:
        print(f"| {name} | {text(forward[name])} | {text(all_of_it[name])} |", flush=True)
    print()


# ---- functions of many results: what is kept for the backward pass, beside computing it anew there


def many_results() -> None:
    print(header("many results, value and gradients", "kept", "computed anew"))
    rng = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape))
    rays, scene = camera(64), (jnp.asarray(CENTRES), jnp.asarray(RADII))
    cases = {
        "soft sort of 300": (soft_sort, (draw(300),)),
        "soft ranks of 1000": (lambda x: soft_rank(x, 0.1), (draw(1000),)),
        "ODE, 200 states of 20": (trajectory, (draw(20), draw(20, 20) / 5)),
        "64 × 64 rays, 32 steps": (lambda c, r: march_together(c, r, rays), scene),
        "64 × 64 rays, early exit": (lambda c, r: march(c, r, rays), scene),
    }
    for name, (f, args) in cases.items():
        places = tuple(range(len(args)))
        runs = [
            called(jax.value_and_grad(lambda *xs, f=g: (f(*xs) ** 2).sum(), places), *args)
            for g in (function(f, backend="native"), function(f, backend="native"))
        ]
        contestants = dict(zip(("backsolve", "anew"), runs, strict=True))
        with mock.patch.object(parted, "_pays", return_value=False):
            contestants["anew"]()  # compiles
        agree(name, contestants)
        print(show_row(name, best_times(contestants)), flush=True)
    print()


# ---- the three kernels, as one writes them in JAX


def dtw_of_jax(x: Any, y: Any, gamma: float) -> Any:
    """A scan over anti-diagonals: R[i, d − i] by i."""
    n, m = len(x), len(y)
    i = jnp.arange(1, n + 1)

    def step(diagonals: Any, d: Any) -> Any:
        older, last = diagonals
        j = d - i
        inside = (j >= 1) & (j <= m)
        cost = (x - y[jnp.clip(j - 1, 0, m - 1)]) ** 2
        ways = jnp.stack([older[:-1], last[:-1], last[1:]])
        low = ways.min(0)
        new = cost + low - gamma * jnp.log(jnp.exp((low - ways) / gamma).sum(0))
        new = jnp.concatenate([jnp.full(1, BORDER), jnp.where(inside, new, BORDER)])
        return (last, new), None

    border = jnp.full(n + 1, BORDER)
    (_, last), _ = jax.lax.scan(step, (border.at[0].set(0.0), border), jnp.arange(2, n + m + 1))
    return last[n]


def rank_of_jax(values: Any, strength: float) -> Any:
    """Which blocks merge is found by a `while_loop` that is not differentiated; their means are."""
    n = len(values)
    order = jnp.argsort(-values)
    z = values[order] / strength
    y = z - jnp.arange(n, 0, -1)
    fixed = jax.lax.stop_gradient(y)

    def out_of_order(state: Any) -> Any:
        _, blocks, sums, counts = state
        left, right = sums[blocks - 2] * counts[blocks - 1], sums[blocks - 1] * counts[blocks - 2]
        return (blocks > 1) & (left <= right)

    def step(state: Any) -> Any:
        i, blocks, sums, counts = state
        merge = out_of_order(state)
        at = jnp.where(merge, blocks - 2, blocks)
        total = jnp.where(merge, sums[blocks - 2] + sums[blocks - 1], fixed[i])
        count = jnp.where(merge, counts[blocks - 2] + counts[blocks - 1], 1)
        return i + 1 - merge, at + 1, sums.at[at].set(total), counts.at[at].set(count)

    goes_on = lambda state: (state[0] < n) | out_of_order(state)
    start = (0, 0, jnp.zeros(n), jnp.zeros(n, int))
    _, blocks, _, counts = jax.lax.while_loop(goes_on, step, start)
    counts = jnp.where(jnp.arange(n) < blocks, counts, 0)
    block = jnp.searchsorted(jnp.cumsum(counts), jnp.arange(n), side="right")
    means = jax.ops.segment_sum(y, block, n) / jnp.maximum(counts, 1)
    return jnp.zeros(n).at[order].set(z - means[block])


def _on(centres: Any, radii: Any, rays: Any, t: Any) -> Any:
    """Where the rays are after one more step, and which of them go on."""
    apart = t[:, None, None] * rays[:, None, :] - centres
    distance = jnp.sqrt((apart**2).sum(-1)) - radii
    step = -jnp.log(jnp.exp(-8.0 * distance).sum(1)) / 8.0
    moving = (step >= NEAR) & (t <= FAR)
    return jnp.where(moving, t + step, t), moving


def march_of_jax(centres: Any, radii: Any, rays: Any) -> Any:
    """All rays at once, as often as any may go: reverse mode needs a number that is known."""
    step = lambda t, _: (_on(centres, radii, rays, t)[0], None)
    return jnp.minimum(jax.lax.scan(step, jnp.zeros(len(rays)), None, length=MOST)[0], FAR)


def march_until_all_have_arrived(centres: Any, radii: Any, rays: Any) -> Any:
    """The same with early exit, which JAX cannot differentiate in reverse."""
    goes_on = lambda state: (state[0] < MOST) & state[2].any()
    step = lambda state: (state[0] + 1, *_on(centres, radii, rays, state[1]))
    start = (0, jnp.zeros(len(rays)), jnp.ones(len(rays), bool))
    return jnp.minimum(jax.lax.while_loop(goes_on, step, start)[1], FAR)


def kernels() -> None:
    print(header("kernel", "Backsolve in JAX", "JAX"))
    dtw = function(soft_dtw, backend="native")
    for pairs, n in ((1, 100), (1, 400), (32, 100)):
        given = jnp.asarray(series(2 * pairs, n))
        total = lambda f: lambda x, y: jax.vmap(lambda x, y: f(x, y, 0.1))(x, y).sum()
        name = f"soft DTW, {pairs} × {n} steps" if pairs > 1 else f"soft DTW, {n} steps"
        compare(name, total(dtw), total(dtw_of_jax), given[:pairs], given[pairs:])
    rank = function(soft_rank, backend="native")
    for n in (100, 1000, 2000):
        weights = jnp.linspace(0.0, 1.0, n)
        total = lambda f, w=weights: lambda x: (f(x, 0.1) * w).sum()
        values = jnp.asarray(np.random.default_rng(0).normal(size=n))
        compare(f"soft ranks of {n}", total(rank), total(rank_of_jax), values)
    depth = function(march, backend="native")
    centres = jnp.array([[-0.6, 0.2, 3.0], [0.5, -0.3, 3.5], [0.4, 0.8, 4.0]])
    radii = jnp.array([0.7, 0.6, 0.5])
    for size in (24, 64):
        rays = jnp.asarray(camera(size))
        total = lambda f, rays=rays: lambda c, r: f(c, r, rays).sum()
        name, args = f"ray marcher, {size} × {size} rays", (centres, radii)
        show(
            f"{name}, value, with early exit",
            called(total(depth), *args),
            called(total(march_until_all_have_arrived), *args),
        )
        compare(name, total(depth), total(march_of_jax), *args)


def compare(name: str, ours: Any, theirs: Any, *args: Any) -> None:
    both = lambda f: jax.value_and_grad(f, argnums=tuple(range(len(args))))
    show(f"{name}, value and gradients", called(both(ours), *args), called(both(theirs), *args))


def show(name: str, ours: Any, theirs: Any) -> None:
    contestants = {"backsolve": ours, "JAX": theirs}
    agree(name, contestants)
    print(show_row(name, best_times(contestants)), flush=True)


def agree(name: str, contestants: dict[str, Any]) -> None:
    first, *rest = [jax.tree.leaves(run()) for run in contestants.values()]
    for found in rest:
        for a, b in zip(first, found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8, err_msg=name)


def main() -> None:
    bs.set_threads(1)
    count_own_time()
    print(f"{machine()}; {versions(('numpy', 'jax'))}, one thread\n")
    calls()
    many_results()
    kernels()


if __name__ == "__main__":
    main()
