"""Long chains: bs.recurrence by a loop, a scan and Newton's method, beside compiled loops and JAX's scans.

    python benchmarks/scan.py [longest]

Milliseconds for the value and the gradient of Σ h² by the inputs; the least of three, after one call that
compiles. Loops over steps in Python run up to 10,000 steps.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import backsolve as bs

try:
    import jax

    jax.config.update("jax_enable_x64", True)
except ImportError:
    jax = None

W = 0.3 * np.random.default_rng(1).normal(size=(4, 4))
STEPS: dict[str, tuple[Callable[..., Any], str]] = {
    "diagonal, 4": (lambda m, h, x: 0.9 * h + m.sin(x), "scan"),
    "dense, 4 x 4": (lambda m, h, x: m.asarray(W) @ h + x, "scan"),
    "tanh network, 4": (lambda m, h, x: m.tanh(m.asarray(W) @ h + x), "newton"),
}
LONGEST_LOOP = 10_000


def milliseconds(run: Callable[[], Any]) -> str:
    run()
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return f"{1e3 * best:10.2f}"


def main() -> None:
    longest = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    print("step | T | loop | ours at once | jit loop | jit at once | jax scan | jax associative")
    for name, (step, method) in STEPS.items():
        for count in (100, 1_000, 10_000, 100_000):
            if count > longest:
                continue
            xs = np.random.default_rng(0).normal(size=(count, 4))
            one = lambda h, x, step=step: step(np, h, x)
            loss = lambda way, one=one: (
                lambda x: (bs.recurrence(one, np.zeros(4), x, way) ** 2).sum()
            )
            runs: list[Any] = [bs.grad(loss("sequential")) if count <= LONGEST_LOOP else None]
            runs.append(bs.grad(loss(method)))
            runs += [bs.jit(bs.grad(loss(way))) for way in ("sequential", method)]
            columns = [
                "         -" if g is None else milliseconds(lambda g=g, xs=xs: g(xs)) for g in runs
            ]
            columns += of_jax(step, xs, method == "scan")
            print(name, count, *columns, sep=" | ", flush=True)


def of_jax(step: Callable[..., Any], xs: Any, linear: bool) -> list[str]:
    if jax is None:
        return ["not there"] * 2
    jnp = jax.numpy

    def loop(x: Any) -> Any:
        return (jax.lax.scan(lambda h, e: (step(jnp, h, e),) * 2, jnp.zeros(4), x)[1] ** 2).sum()

    def pairs(x: Any) -> Any:
        factors = jax.vmap(jax.jacfwd(lambda h, e: step(jnp, h, e)), (None, 0))(jnp.zeros(4), x)
        terms = jax.vmap(lambda e: step(jnp, jnp.zeros(4), e))(x)
        join = lambda p, q: (q[0] @ p[0], jnp.einsum("tij,tj->ti", q[0], p[1]) + q[1])
        return (jax.lax.associative_scan(join, (factors, terms))[1] ** 2).sum()

    found = []
    for f in (loop, pairs) if linear else (loop,):
        g = jax.jit(jax.grad(f))
        found.append(milliseconds(lambda g=g: jax.block_until_ready(g(xs))))
    return found if linear else [*found, "         -"]


if __name__ == "__main__":
    main()
