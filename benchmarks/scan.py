"""Long chains: bs.recurrence by a loop, a scan and Newton's method, beside compiled loops and JAX's scans.

    python benchmarks/scan.py [longest]

Milliseconds for the value and the gradient of Σ h² by the inputs; the least of three, after one call that
compiles. Loops over steps in Python run up to 10,000 steps.

Then Jacobians of plain Python loops, which are no recurrence: eager forward and reverse substitution beside the
scan that finds their rounds, with the run of the function itself in all of them; and JAX's jacrev through its
compiled scan.
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
    plain_loops(longest)


def euler(m: Any, x: Any, _: Any) -> Any:
    return x + 0.01 * m.sin(1.3 * x)


def network(m: Any, x: Any, W: Any) -> Any:
    return m.tanh(W @ x) + 0.1 * x


PLAIN: dict[str, tuple[Callable[..., Any], int]] = {
    "euler, 1": (euler, 1),
    "euler, 1000 entries": (euler, 1000),
    "tanh network, 2": (network, 2),
    "tanh network, 4": (network, 4),
    "tanh network, 16": (network, 16),
}


def plain_loops(longest: int) -> None:
    """The last state by the first one; of networks by the weights, too, which all steps share."""
    print("loop | T | forward | reverse | scan | jax.jit(jacrev) of lax.scan")
    for name, (step, n) in PLAIN.items():
        for count in (30, 100, 1_000):
            if count > longest or count * n > 100_000:
                continue
            x = np.random.default_rng(0).normal(size=n)
            weights = np.random.default_rng(1).normal(size=(n, n)) / np.sqrt(n)

            def loop(x: Any, W: Any, step: Any = step, count: int = count) -> Any:
                for _ in range(count):
                    x = step(np, x, W)
                return x

            by = (0, 1) if step is network else 0
            runs = [bs.jacobian(loop, by, method=m) for m in ("forward", "reverse", "scan")]
            columns = [milliseconds(lambda g=g, x=x, W=weights: g(x, W)) for g in runs]
            print(
                name, count, *columns, jax_loop(step, count, by, x, weights), sep=" | ", flush=True
            )


def jax_loop(step: Callable[..., Any], count: int, by: Any, x: Any, W: Any) -> str:
    if jax is None:
        return "not there"
    last = lambda x, W: jax.lax.scan(
        lambda h, _: (step(jax.numpy, h, W), None), x, None, length=count
    )[0]
    g = jax.jit(jax.jacrev(last, argnums=by))
    return milliseconds(lambda: jax.block_until_ready(g(x, W)))


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
