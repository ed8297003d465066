"""Sparse Jacobians and Hessians: set-up, compile and evaluation, beside JAX, asdex, sparsejac, CasADi, by hand.

    python benchmarks/sparse.py [words…]       problems with these words in the title

Set-up is finding the pattern and planning; for ours it is the run on types in which rows are eliminated, and
compiling is the rest of the first call. JAX coloured by hand is given our pattern and our colouring for
nothing. Every evaluation is compared with ours before it is timed. CPU time, one thread.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import best_times, clock, count_own_time, header, machine, on_one_thread, text
from sparse_problems import PROBLEMS, Problem

import backsolve as bs
from backsolve.planned import Coloured, Compiled
from backsolve.solve.colouring import coloured
from backsolve.solve.compressed import Whole

LIMIT = 200_000  # entries of the argument, from which on asdex and sparsejac take minutes to set up
Ready = tuple[float, float, Callable[[], Any], Callable[[Any], Any]]  # set-up, compile, run, as csr


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = clock()
    found = run()
    return clock() - start, found


def ours(p: Problem, method: str) -> tuple[Ready, Any]:
    f = p.f(np)
    planning: list[float] = []
    way = Coloured if method == "colour" else Compiled
    traced = way._traced

    def watched(self: Any, *args: Any) -> Any:
        seconds, found = timed(lambda: traced(self, *args))
        planning.append(seconds)
        return found

    way._traced = watched
    try:
        whole, plan = timed(lambda: bs.sparsity(f, p.at, hessian=p.hessian, method=method))
    finally:
        way._traced = traced
    J = (bs.hessian if p.hessian else bs.jacobian)(f, sparse=plan)
    set_up = sum(planning)
    return (set_up, whole - set_up, lambda: J(p.at), lambda A: A), plan


def by_jax(p: Problem, plan: Any) -> Ready:
    """J S by vmap of jvp for our colours of the columns, and one gather."""
    import jax
    import jax.numpy as jnp

    f = p.f(jnp)
    g = jax.grad(f) if p.hessian else f
    start = clock()
    colours = coloured(Whole.of(plan.layouts).pattern, "star" if p.hessian else "column")
    S = np.asarray(colours.columns[None] == np.arange(colours.counts[0])[:, None], float)
    seeds = S.reshape(-1, *p.at.shape)
    source = colours.source
    set_up = clock() - start

    @jax.jit
    def data(x: Any) -> Any:
        stack = jax.vmap(lambda v: jax.jvp(g, (x,), (v,))[1])(seeds)
        return stack.reshape(-1)[source]

    x = jnp.asarray(p.at)
    compiling, _ = timed(lambda: data(x).block_until_ready())

    def matrix(numbers: Any) -> Any:
        pattern = plan.pattern.astype(float)
        pattern.data = np.array(numbers)
        return pattern

    return set_up, compiling, lambda: data(x).block_until_ready(), matrix


def by_asdex(p: Problem, plan: Any) -> Ready:
    import asdex
    import jax
    import jax.numpy as jnp

    f = p.f(jnp)
    flat = lambda z: jnp.ravel(f(z.reshape(p.at.shape)))
    x = jnp.asarray(p.at).ravel()
    if p.hessian:
        set_up, J = timed(lambda: asdex.hessian(f, x))
    else:
        set_up, J = timed(lambda: asdex.jacobian(flat, x))
    J = jax.jit(J)
    compiling, _ = timed(lambda: J(x).data.block_until_ready())
    return set_up, compiling, lambda: J(x).data.block_until_ready(), lambda _: _scipy(J(x))


def by_sparsejac(p: Problem, plan: Any) -> Ready:
    import jax
    import jax.numpy as jnp
    import sparsejac
    from jax.experimental.sparse import BCOO

    f = p.f(jnp)
    flat = jax.grad(f) if p.hessian else lambda z: jnp.ravel(f(z.reshape(p.at.shape)))
    x = jnp.asarray(p.at).ravel()
    pattern = BCOO.from_scipy_sparse(plan.pattern.astype(float))
    set_up, J = timed(lambda: sparsejac.jacfwd(flat, pattern))
    J = jax.jit(J)
    compiling, _ = timed(lambda: J(x).data.block_until_ready())
    return set_up, compiling, lambda: J(x).data.block_until_ready(), lambda _: _scipy(J(x))


def by_casadi(p: Problem, kind: str) -> Ready:
    """In CasADi's own interpreter, on its own buffers: no conversion of arrays."""
    import casadi
    from sparse_casadi import derivative, evaluated

    set_up, J = timed(lambda: derivative(p, getattr(casadi, kind)))
    return set_up, 0.0, *evaluated(J, p.at)


def _scipy(A: Any) -> Any:
    import scipy.sparse as sp

    i, j = np.asarray(A.indices).T
    return sp.csr_array((np.asarray(A.data), (i, j)), shape=A.shape)


def by_hand(p: Problem, plan: Any) -> Ready:
    assert p.by_hand is not None
    set_up, J = timed(lambda: p.by_hand(p.at))
    return set_up, 0.0, lambda: J(p.at), lambda A: A


def contestants(p: Problem) -> dict[str, Callable[[Problem, Any], Ready]]:
    found: dict[str, Callable[[Problem, Any], Ready]] = {}
    if importlib.util.find_spec("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
        found["JAX, coloured by hand"] = by_jax
        if importlib.util.find_spec("asdex") and p.at.size <= LIMIT:
            found["asdex"] = by_asdex
        if importlib.util.find_spec("sparsejac") and p.at.size <= LIMIT // 10:
            found["sparsejac"] = by_sparsejac
    if importlib.util.find_spec("casadi"):
        found["CasADi, SX"] = lambda p, _: by_casadi(p, "SX")
        found["CasADi, MX"] = lambda p, _: by_casadi(p, "MX")
    if p.by_hand is not None:
        found["NumPy, by hand"] = by_hand
    return found


def compare(p: Problem) -> None:
    ready: dict[str, Ready] = {}
    ready["backsolve"], plan = ours(p, "eliminate")
    expected = ready["backsolve"][2]()
    if p.at.size <= LIMIT:
        ready["backsolve, coloured"], _ = ours(p, "colour")
    for name, make in contestants(p).items():
        ready[name] = make(p, plan)
    for name, (_, _, run, matrix) in ready.items():
        difference = abs(matrix(run()) - expected)
        assert difference.max() <= 1e-8 * abs(expected).max(), f"{name} differs on {p.title}"
    times = best_times({name: r[2] for name, r in ready.items()}, turns=7, budget=5.0)
    for name, (set_up, compiling, *_) in ready.items():
        goal = f"{text(p.goal[0])} / {text(p.goal[1])}" if name == "backsolve" else ""
        print(
            f"| {p.title} | {name} | {text(set_up)} | {text(compiling)} | {text(times[name])} | {goal} |",
            flush=True,
        )


def main() -> None:
    on_one_thread()
    count_own_time()
    words = sys.argv[1:]
    bs.jacobian(lambda x: x * x, sparse=True)(np.ones(3))  # what the first compilation of all loads
    print(machine(), "\n")
    print(header("problem", "by", "set-up", "compile", "evaluation", "goal: set-up / evaluation"))
    for p in PROBLEMS:
        if all(w in p.title for w in words):
            compare(p)


if __name__ == "__main__":
    main()
