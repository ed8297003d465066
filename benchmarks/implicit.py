"""Gradients of implicit functions, beside what one writes by hand in JAX and PyTorch.

    OMP_NUM_THREADS=1 python benchmarks/implicit.py

A root by Newton's method, a fixed point by iteration, a linear system by conjugate gradients; solution and
gradient to the same tolerance. Peers have their rule written out (`jax.custom_vjp`, `torch.autograd.Function`)
but for JAX's `cg`, which has one. Milliseconds a call, the best of many, one thread, float64, compiled before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from peers import jax, jnp, torch

import backsolve as bs

RNG = np.random.default_rng(0)
TOL = 1e-10


def compared(name: str, calls: dict[str, Callable[[], Any]]) -> None:
    """Turn by turn, so that what else the machine does falls upon all of them."""
    results = {k: np.asarray(call()) for k, call in calls.items()}
    first = next(iter(results.values()))
    for k, found in results.items():
        np.testing.assert_allclose(found, first, rtol=1e-6, atol=1e-8, err_msg=f"{name}, {k}")
    best, end = dict.fromkeys(calls, np.inf), time.perf_counter() + 2.0 * len(calls)
    while time.perf_counter() < end:
        for k, call in calls.items():
            start = time.perf_counter()
            call()
            best[k] = min(best[k], time.perf_counter() - start)
    print(name.ljust(40), "  ".join(f"{k} {1e3 * v:9.3f}" for k, v in best.items()))


# ---- a root: x³ + A x = p, by Newton's method


def root(n: int) -> None:
    A, p = RNG.normal(size=(n, n)) / n + 2 * np.eye(n), RNG.normal(size=n)
    F = lambda x, p: x**3 + A @ x - p
    ours = bs.jit(bs.grad(lambda p: np.sum(bs.root(F, np.zeros(n), p, tol=TOL) ** 2)))
    calls: dict[str, Callable[[], Any]] = {"backsolve": lambda: ours(p)}
    if jax is not None:
        theirs, jp = jax_root(jnp.asarray(A)), jnp.asarray(p)
        calls["jax"] = lambda: theirs(jp).block_until_ready()
    if torch is not None:
        tA, tp = torch.tensor(A), torch.tensor(p)
        calls["torch"] = lambda: torch_root(tA, tp)
    compared(f"root, {n} unknowns", calls)


def jax_root(A: Any) -> Any:
    slope = lambda x: jnp.diag(3 * x**2) + A

    @jax.custom_vjp
    def solve(p: Any) -> Any:
        def body(state: Any) -> Any:
            x, _ = state
            d = jnp.linalg.solve(slope(x), p - x**3 - A @ x)
            return x + d, jnp.linalg.norm(d) / (1 + jnp.linalg.norm(x))

        start = jnp.zeros_like(p), jnp.inf
        return jax.lax.while_loop(lambda s: s[1] > TOL, body, start)[0]

    def ahead(p: Any) -> Any:
        x = solve(p)
        return x, x

    solve.defvjp(ahead, lambda x, g: (jnp.linalg.solve(slope(x).T, g),))
    return jax.jit(jax.grad(lambda p: jnp.sum(solve(p) ** 2)))


def torch_root(A: Any, p: Any) -> Any:
    slope = lambda x: torch.diag(3 * x**2) + A

    class Root(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, p: Any) -> Any:
            x, error = torch.zeros_like(p), np.inf
            while error > TOL:
                d = torch.linalg.solve(slope(x), p - x**3 - A @ x)
                x, error = x + d, float(torch.linalg.norm(d) / (1 + torch.linalg.norm(x)))
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return torch.linalg.solve(slope(ctx.saved_tensors[0]).T, g)

    p = p.clone().requires_grad_()
    return torch.autograd.grad((Root.apply(p) ** 2).sum(), p)[0]


# ---- a fixed point: z = tanh(z Wᵀ + u) for a batch


def fixed_point(batch: int, n: int) -> None:
    W, u = RNG.normal(size=(n, n)) * 0.4 / np.sqrt(n), RNG.normal(size=(batch, n))
    f = lambda z, W: np.tanh(z @ W.T + u)
    loss = lambda W: np.sum(bs.fixed_point(f, np.zeros((batch, n)), W, tol=TOL) ** 2)
    ours = bs.jit(bs.grad(loss))
    calls: dict[str, Callable[[], Any]] = {"backsolve": lambda: ours(W)}
    if jax is not None:
        theirs, jW = jax_fixed_point(jnp.asarray(u)), jnp.asarray(W)
        calls["jax"] = lambda: theirs(jW).block_until_ready()
    if torch is not None:
        tW, tu = torch.tensor(W), torch.tensor(u)
        calls["torch"] = lambda: torch_fixed_point(tW, tu)
    compared(f"fixed point, {batch} × {n} unknowns", calls)


def jax_fixed_point(u: Any) -> Any:
    def settle(f: Any, z: Any) -> Any:
        def goes_on(state: Any) -> Any:
            before, z = state
            return jnp.linalg.norm(z - before) > TOL * (1 + jnp.linalg.norm(z))

        return jax.lax.while_loop(goes_on, lambda s: (s[1], f(s[1])), (z, f(z)))[1]

    @jax.custom_vjp
    def solve(W: Any) -> Any:
        return settle(lambda z: jnp.tanh(z @ W.T + u), jnp.zeros_like(u))

    def ahead(W: Any) -> Any:
        z = solve(W)
        return z, (W, z)

    def back(kept: Any, g: Any) -> Any:
        W, z = kept
        slope = 1 - z * z
        v = settle(lambda v: g + (v * slope) @ W, g) * slope
        return (v.T @ z,)

    solve.defvjp(ahead, back)
    return jax.jit(jax.grad(lambda W: jnp.sum(solve(W) ** 2)))


def torch_fixed_point(W: Any, u: Any) -> Any:
    def settle(f: Any, z: Any) -> Any:
        before, z = z, f(z)
        while torch.linalg.norm(z - before) > TOL * (1 + torch.linalg.norm(z)):
            before, z = z, f(z)
        return z

    class Fixed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, W: Any) -> Any:
            z = settle(lambda z: torch.tanh(z @ W.T + u), torch.zeros_like(u))
            ctx.save_for_backward(W, z)
            return z

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            W, z = ctx.saved_tensors
            slope = 1 - z * z
            v = settle(lambda v: g + (v * slope) @ W, g) * slope
            return v.T @ z

    W = W.clone().requires_grad_()
    return torch.autograd.grad((Fixed.apply(W) ** 2).sum(), W)[0]


# ---- a linear system: −Δu + k u = b on a square, by conjugate gradients


def stencil(v: Any, k: Any, xp: Any) -> Any:
    padded = xp.pad(v, 1) if xp is not torch else torch.nn.functional.pad(v, (1, 1, 1, 1))
    around = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2]
    return (4 + k) * v - around


def linear_solve(n: int) -> None:
    k, b = RNG.uniform(0.01, 0.1, (n, n)), RNG.normal(size=(n, n))

    def loss(k: Any) -> Any:
        u = bs.linear_solve(lambda v: stencil(v, k, np), b, method="cg", tol=TOL)
        return np.sum(u * u)

    ours = bs.jit(bs.grad(loss))
    calls: dict[str, Callable[[], Any]] = {"backsolve": lambda: ours(k)}
    if jax is not None:
        jb, jk = jnp.asarray(b), jnp.asarray(k)

        def of_jax(k: Any) -> Any:
            u = jax.scipy.sparse.linalg.cg(lambda v: stencil(v, k, jnp), jb, tol=TOL)[0]
            return jnp.sum(u * u)

        theirs = jax.jit(jax.grad(of_jax))
        calls["jax"] = lambda: theirs(jk).block_until_ready()
    if torch is not None:
        tb, tk = torch.tensor(b), torch.tensor(k)
        calls["torch"] = lambda: torch_linear_solve(tk, tb)
    compared(f"linear system by CG, {n} × {n}", calls)


def torch_linear_solve(k: Any, b: Any) -> Any:
    def cg(k: Any, b: Any) -> Any:
        x, r, p = torch.zeros_like(b), b, b
        square, limit = (r * r).sum(), TOL**2 * (b * b).sum()
        while square > limit:
            Ap = stencil(p, k, torch)
            t = square / (p * Ap).sum()
            x, r = x + t * p, r - t * Ap
            new = (r * r).sum()
            p, square = r + new / square * p, new
        return x

    class Solve(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, k: Any) -> Any:
            u = cg(k, b)
            ctx.save_for_backward(k, u)
            return u

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            k, u = ctx.saved_tensors
            return -cg(k, g) * u

    k = k.clone().requires_grad_()
    return torch.autograd.grad((Solve.apply(k) ** 2).sum(), k)[0]


if __name__ == "__main__":
    for unknowns in (10, 100):
        root(unknowns)
    for examples in (1, 64):
        fixed_point(examples, 128)
    for side in (32, 128):
        linear_solve(side)
