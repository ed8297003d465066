"""Dense Jacobians and Hessians, as they are called and compiled, beside PyTorch's, autograd's and JAX's.

    python benchmarks/dense.py              # all
    python benchmarks/dense.py stencil      # those whose title has these words

One thread, float64. Peers' columns are the better one of their two ways (jacfwd and jacrev; of Hessians
hessian alone), as multiples of our time: above 1 we are ahead. `torch.func` is not compiled, `jax` is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import autograd
import autograd.numpy as anp
import jax
import jax.numpy as jnp
import numpy as np
import torch
from harness import best_times, count_own_time, header, machine, on_one_thread, text, versions

import backsolve as bs

RNG = np.random.default_rng(0)
Function = Callable[[Any, Any], Any]  # of a namespace and x


def waves(m: Any, x: Any) -> Any:
    return m.sin(x) * m.exp(-x) + x**2


def stencil(m: Any, u: Any) -> Any:
    return (u[:-2] - 2 * u[1:-1] + u[2:]) * 100.0 + m.exp(u[1:-1])


def network(*widths: int) -> Function:
    pairs = list(zip(widths, widths[1:], strict=False))
    weights = [RNG.normal(size=(b, a)) / np.sqrt(a) for a, b in pairs]
    kept = {torch: [torch.tensor(W) for W in weights]}

    def f(m: Any, x: Any) -> Any:
        for W in kept.get(m, weights):
            x = m.tanh(m.matmul(W, x))
        return x

    return f


def softplus_loss(m: Any, x: Any) -> Any:
    y = m.exp(x)
    return m.sum(y * y[..., ::-1] if m is not torch else y * y.flip(0)) + m.log(m.sum(y))


JACOBIANS: dict[str, tuple[Function, int]] = {
    "entry by entry, 10 numbers": (waves, 10),
    "entry by entry, 300": (waves, 300),
    "stencil, 10": (stencil, 10),
    "stencil, 300": (stencil, 300),
    "net 10-10": (network(10, 10), 10),
    "net 50-50-50": (network(50, 50, 50), 50),
    "tall net 2-50-200": (network(2, 50, 200), 2),
    "wide net 200-50-2": (network(200, 50, 2), 200),
}
HESSIANS: dict[str, tuple[Function, int]] = {
    "Hessian, 10 numbers": (softplus_loss, 10),
    "Hessian, 100 numbers": (softplus_loss, 100),
}


def contestants(f: Function, x: Any, is_hessian: bool) -> dict[str, dict[str, Callable[[], Any]]]:
    """By whose it is: the ways to run it."""
    tx, jx = torch.tensor(x), jnp.asarray(x)
    on = {m: partial(f, m) for m in (np, torch, anp, jnp)}
    if is_hessian:
        ours, of_torch = bs.hessian(on[np]), [torch.func.hessian]
        of_autograd, of_jax = autograd.hessian, [jax.hessian]
    else:
        ours, of_torch = bs.jacobian(on[np]), [torch.func.jacrev, torch.func.jacfwd]
        of_autograd, of_jax = autograd.jacobian, [jax.jacrev, jax.jacfwd]
    compiled = bs.jit(ours)
    found: dict[str, dict[str, Callable[[], Any]]] = {
        "backsolve": {"": lambda: ours(x)},
        "torch.func": {w.__name__: partial(w(on[torch]), tx) for w in of_torch},
        "autograd": {"": partial(of_autograd(on[anp]), x)},
        "backsolve, jit": {"": lambda: compiled(x)},
        "jax.jit": {},
    }
    for way in of_jax:
        g = jax.jit(way(on[jnp]))
        found["jax.jit"][way.__name__] = lambda g=g: g(jx).block_until_ready()
    return found


def compare(title: str, f: Function, n: int, is_hessian: bool) -> None:
    x = np.linspace(0.1, 1.0, n)
    ways = contestants(f, x, is_hessian)
    expected = ways["backsolve"][""]()
    runs = {}
    for name, by in ways.items():
        for way, run in by.items():
            np.testing.assert_allclose(np.asarray(run()), expected, rtol=1e-8, atol=1e-8)
            runs[f"{name} {way}"] = run
    times = best_times(runs, turns=15, target=0.02)
    best = {name: min(times[f"{name} {way}"] for way in by) for name, by in ways.items()}
    eager, compiled = best["backsolve"], best["backsolve, jit"]
    peers = [f"{best[name] / eager:.2f}×" for name in ("torch.func", "autograd")]
    jits = [text(compiled), f"{best['jax.jit'] / compiled:.2f}×"]
    print(f"| {title} | {text(eager)} | {' | '.join([*peers, *jits])} |", flush=True)


def main() -> None:
    on_one_thread()
    count_own_time()
    torch.set_num_threads(1)
    bs.set_threads(1)
    jax.config.update("jax_enable_x64", True)
    names = ("numpy", "torch", "autograd", "jax")
    print(f"{machine()}, one thread; {versions(names)}\n")
    print(header("as it is called", "backsolve", "torch.func", "autograd", "`jit`", "jax.jit"))
    for is_hessian, some in ((False, JACOBIANS), (True, HESSIANS)):
        for title, (f, n) in some.items():
            if all(word in title for word in sys.argv[1:]):
                compare(title, f, n, is_hessian)


if __name__ == "__main__":
    main()
