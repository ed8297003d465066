"""Derivatives of high order along a line: Taylor mode beside jax.experimental.jet and nested forward mode.

    OMP_NUM_THREADS=1 python benchmarks/taylor.py

Compiled, one thread, float64: milliseconds a call (the best of several), and seconds to compile. Nested
forward mode doubles with each order, so it ends at order 6. Peers that are not installed are left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import numpy as np

import backsolve as bs

try:
    import jax
    import jax.numpy as jnp
    from jax.experimental import jet as jax_jet

    jax.config.update("jax_enable_x64", True)
except ImportError:
    jax = None

RNG = np.random.default_rng(0)
ORDERS = (1, 2, 4, 6, 8)
NESTED = 6
WIDTH, BATCH = 64, 32
W = [RNG.normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH) for _ in range(3)]
A, B = RNG.normal(size=(2, WIDTH, WIDTH)) / np.sqrt(WIDTH)


def network(x: Any, np: Any) -> Any:
    for w in W:
        x = np.tanh(x @ w)
    return x.sum()


def elementary(x: Any, np: Any) -> Any:
    return (np.exp(np.sin(x)) * np.log(2 + np.cos(x)) / np.sqrt(1 + x * x)).sum()


def bilinear(x: Any, np: Any) -> Any:
    """Three operands that vary."""
    return np.einsum("bi,bj,ij->", np.sin(x), x, A + np.cos(x[0]) * B)


PROBLEMS = {"network": network, "elementary": elementary, "bilinear": bilinear}


def best(call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of the first call, which compiles, and milliseconds of the best one."""
    begin = time.perf_counter()
    call()
    first = time.perf_counter() - begin
    found, end = [], time.perf_counter() + 0.5
    while time.perf_counter() < end or len(found) < 3:
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return first, 1e3 * min(found)


def nested(jvp: Any, f: Callable[[Any], Any], x: Any, v: Any, order: int) -> Any:
    def along(t: Any) -> Any:
        return f(x + t * v)

    def slope(g: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda t: jvp(g, (t,), (1.0,))[1]

    for _ in range(order):
        along = slope(along)
    return along(0.0)


def measure(name: str, order: int) -> None:
    f = PROBLEMS[name]
    x, v = RNG.normal(size=(2, BATCH, WIDTH))
    zeros = [np.zeros_like(x)] * (order - 1)
    ours = bs.jit(lambda x, v: bs.jet(lambda x: f(x, np), (x,), [[v, *zeros]])[1])
    times = {"jet": best(lambda: ours(x, v))}
    if order <= NESTED:
        by_nesting = bs.jit(lambda x, v: nested(bs.jvp, lambda x: f(x, np), x, v, order))
        times["nested"] = best(lambda: by_nesting(x, v))
    if jax is not None:
        jx, jv = jnp.asarray(x), jnp.asarray(v)
        none = [jnp.zeros_like(jx)] * (order - 1)
        of_jax = jax.jit(lambda x, v: jax_jet.jet(lambda x: f(x, jnp), (x,), [[v, *none]])[1])
        try:
            times["jax jet"] = best(lambda: jax.block_until_ready(of_jax(jx, jv)))
            np.testing.assert_allclose(ours(x, v), of_jax(jx, jv), rtol=1e-7, atol=1e-6)
        except NotImplementedError:
            print(f"  jax.experimental.jet has no rule for a part of {name}")
        if order <= NESTED:
            deep = jax.jit(lambda x, v: nested(jax.jvp, lambda x: f(x, jnp), x, v, order))
            times["jax nested"] = best(lambda: deep(jx, jv).block_until_ready())
            np.testing.assert_allclose(ours(x, v)[-1], deep(jx, jv), rtol=1e-7, atol=1e-6)
    shown = "  ".join(f"{k} {t:8.3f} ms ({c:5.2f} s)" for k, (c, t) in times.items())
    print(f"{name:11} order {order}  {shown}", flush=True)


if __name__ == "__main__":
    for name in PROBLEMS:
        for order in ORDERS:
            measure(name, order)
