"""Second derivatives by structure beside nested differentiation: Laplacians, norms of gradients, products.

    OMP_NUM_THREADS=1 python benchmarks/second.py

Milliseconds a call, the best of several, one thread, float64; compilation apart. Peers that are
not installed are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from peers import jax, jnp, torch

import backsolve as bs

RNG = np.random.default_rng(0)
WIDTH, BATCH = 64, 64


def best(call: Callable[[], Any]) -> float:
    """Milliseconds, after a first call that compiles."""
    call()
    found, end = [], time.perf_counter() + 1.5
    while time.perf_counter() < end or len(found) < 3:
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return 1e3 * min(found)


def weights(n: int) -> list[Any]:
    sizes = [n, WIDTH, WIDTH, WIDTH]
    made: list[Any] = [
        RNG.normal(size=(b, a)) / np.sqrt(a) for a, b in zip(sizes, sizes[1:], strict=False)
    ]
    return [*made, RNG.normal(size=WIDTH)]


def show(name: str, times: dict[str, float]) -> None:
    print(name.ljust(44), "  ".join(f"{k} {v:9.3f}" for k, v in times.items()))


def laplacian(n: int) -> None:
    """Of a network of three hidden layers, for a batch of points."""
    w, xs = weights(n), RNG.normal(size=(BATCH, n))

    def net(x: Any, np: Any, w: Any) -> Any:
        for a in w[:-1]:
            x = np.tanh(a @ x)
        return w[-1] @ x

    ours = bs.jit(bs.vmap(bs.laplacian(lambda x: net(x, np, w))))
    nested = bs.jit(bs.vmap(lambda x: np.trace(bs.hessian(lambda x: net(x, np, w))(x))))
    times = {"ahead": best(lambda: ours(xs)), "nested": best(lambda: nested(xs))}
    if jax is not None:
        jw, jx = [jnp.asarray(a) for a in w], jnp.asarray(xs)
        theirs = jax.jit(jax.vmap(lambda x: jnp.trace(jax.hessian(lambda x: net(x, jnp, jw))(x))))
        times["jax"] = best(lambda: theirs(jx).block_until_ready())
        np.testing.assert_allclose(ours(xs), theirs(jx), rtol=1e-8, atol=1e-10)
    if torch is not None:
        tw, tx = [torch.tensor(a) for a in w], torch.tensor(xs)
        hessian = torch.func.vmap(torch.func.hessian(lambda x: net(x, torch, tw)))
        times["torch"] = best(lambda: torch.diagonal(hessian(tx), dim1=-2, dim2=-1).sum(-1))
    show(f"Laplacian, {n} inputs, {BATCH} points", times)


def norms(n: int) -> None:
    w, xs = weights(n), RNG.normal(size=(BATCH, n))

    def loss(w: Any, x: Any, np: Any = np) -> Any:
        for a in w[:-1]:
            x = np.tanh(a @ x)
        return (w[-1] @ x) ** 2

    ours = bs.jit(bs.per_sample_norms(loss, squared=True))
    times = {"factors": best(lambda: ours(w, xs))}
    if jax is not None:
        jw, jx = [jnp.asarray(a) for a in w], jnp.asarray(xs)

        def of_one(w: Any, x: Any) -> Any:
            return sum(jnp.sum(g * g) for g in jax.grad(lambda w, x: loss(w, x, jnp))(w, x))

        theirs = jax.jit(jax.vmap(of_one, in_axes=(None, 0)))
        times["jax"] = best(lambda: theirs(jw, jx).block_until_ready())
        np.testing.assert_allclose(ours(w, xs), theirs(jw, jx), rtol=1e-8)
    if torch is not None:
        tw, tx = [torch.tensor(a) for a in w], torch.tensor(xs)
        each = torch.func.vmap(torch.func.grad(lambda w, x: loss(w, x, torch)), in_dims=(None, 0))
        times["torch"] = best(lambda: sum((g**2).flatten(1).sum(1) for g in each(tw, tx)))
    show(f"norms of {BATCH} gradients, {n} inputs", times)


def products(n: int) -> None:
    w, xs = weights(n), RNG.normal(size=(BATCH, n))
    v = [RNG.normal(size=a.shape) for a in w]

    def model(w: Any, x: Any, np: Any = np) -> Any:
        for a in w[:-1]:
            x = np.tanh(x @ a.T)
        return x @ w[-1]

    def times_of(w: Any, v: Any) -> Any:
        return bs.fisher(model, "bernoulli")(w, xs) @ v

    ours = bs.jit(times_of)
    times = {"operator": best(lambda: ours(w, v))}
    if jax is not None:
        jw, jv, jx = [jnp.asarray(a) for a in w], [jnp.asarray(a) for a in v], jnp.asarray(xs)

        def product(w: Any, v: Any) -> Any:
            outputs = lambda w: model(w, jx, jnp)
            z, change = jax.jvp(outputs, (w,), (v,))
            curved = jax.jvp(jax.grad(lambda z: jnp.sum(jnp.logaddexp(0.0, z))), (z,), (change,))[1]
            return jax.vjp(outputs, w)[1](curved)[0]

        theirs = jax.jit(product)
        times["jax"] = best(lambda: jax.block_until_ready(theirs(jw, jv)))
        for a, b in zip(ours(w, v), theirs(jw, jv), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    if torch is not None:
        tw, tv, tx = [torch.tensor(a) for a in w], [torch.tensor(a) for a in v], torch.tensor(xs)

        def of_torch() -> Any:
            outputs = lambda *w: model(w, tx, torch)
            z, change = torch.func.jvp(outputs, tuple(tw), tuple(tv))
            p = torch.sigmoid(z)
            return torch.func.vjp(outputs, *tw)[1](p * (1 - p) * change)

        times["torch"] = best(of_torch)
    show(f"Gauss-Newton product, {n} inputs, {BATCH} examples", times)


def factors(n: int) -> None:
    """K-FAC's A and G of all layers of a classifier, without sampling."""
    w, xs = weights(n), RNG.normal(size=(BATCH, n))
    w[-1] = RNG.normal(size=(10, WIDTH)) / 8

    def model(w: Any, x: Any, np: Any = np) -> Any:
        for a in w[:-1]:
            x = np.tanh(x @ a.T)
        return x @ w[-1].T

    def of_ours(w: Any) -> Any:
        return [(f.A, f.G) for f in bs.fisher(model)(w, xs).kfac().blocks]

    ours = bs.jit(of_ours)
    times = {"kfac": best(lambda: ours(w))}
    if jax is not None:
        jw, jx = [jnp.asarray(a) for a in w], jnp.asarray(xs)

        def run(w: Any, zeros: Any) -> Any:
            x, met = jx, []
            for k, a in enumerate(w):
                met.append(x)
                x = x @ a.T + zeros[k]
                x = jnp.tanh(x) if k < len(w) - 1 else x
            return x, met

        def of_jax(w: Any) -> Any:
            zeros = [jnp.zeros((BATCH, a.shape[0])) for a in w]
            z, pull, met = jax.vjp(lambda zeros: run(w, zeros), zeros, has_aux=True)
            s = jax.nn.softmax(z)
            # H = R Rᵀ with R = (diag(s) − s sᵀ) / √s
            R = (jnp.eye(10) * s[:, :, None] - s[:, :, None] * s[:, None, :]) / jnp.sqrt(s)[:, None]
            (back,) = jax.vmap(pull)(jnp.moveaxis(R, 2, 0))
            return [
                (a.T @ a / BATCH, jnp.einsum("cno,cnp->op", y, y) / BATCH)
                for a, y in zip(met, back, strict=True)
            ]

        theirs = jax.jit(of_jax)
        times["jax"] = best(lambda: jax.block_until_ready(theirs(jw)))
        for a, b in zip(ours(w), theirs(jw), strict=True):
            np.testing.assert_allclose(a[0], b[0], rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(a[1], b[1], rtol=1e-8, atol=1e-10)
    show(f"Kronecker factors, {n} inputs, {BATCH} examples", times)


if __name__ == "__main__":
    for n in (10, 30, 100):
        laplacian(n)
    for n in (64, 512):
        norms(n)
    products(64)
    factors(64)
