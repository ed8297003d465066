"""Jacobians, Laplacians, products with Hessians, for gpu.py and gpu_bytes.py: ours, and as one asks of JAX.

Each entry of STRUCTURES takes whether sizes are to be small and gives what makes each contestant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Makers = dict[str, Callable[[], Any]]
_rng = np.random.default_rng(0)


def _normal(*shape: int) -> Any:
    return _rng.normal(size=shape).astype(np.float32)


def _makers(ours: Callable[[Any], Any], jaxs: Callable[[Any], Any], *arrays: Any) -> Makers:
    """Of ours(backsolve) and jaxs(jax), both functions of the arrays."""

    def of_ours() -> Any:
        import jax

        import backsolve as bs

        f, given = bs.jit(ours(bs), backend="xla"), [jax.device_put(a) for a in arrays]
        return lambda: f(*given)

    def of_jax() -> Any:
        import jax

        f, given = jax.jit(jaxs(jax)), [jax.device_put(a) for a in arrays]
        return lambda: f(*given)

    return {"backsolve": of_ours, "jax.jit": of_jax}


# ---- functions, of arrays of either library


def _network(np: Any, w: Any, x: Any) -> Any:
    for a in w[:-1]:
        x = np.tanh(x @ a)
    return x @ w[-1]


def _weights(*sizes: int) -> list[Any]:
    return [_normal(a, b) / np.float32(a**0.5) for a, b in zip(sizes, sizes[1:], strict=False)]


def _stencil(np: Any, u: Any) -> Any:
    inner = u[:-2] - 2 * u[1:-1] + u[2:] + np.exp(u[1:-1])
    return np.concatenate([u[:1], inner, u[-1:]])


# ---- what is asked of them


def elementwise(small: bool) -> Makers:
    x = _normal(64 if small else 8192)
    f = lambda np: lambda x: np.sin(x) * np.exp(-x)
    return _makers(lambda bs: bs.jacobian(f(np)), lambda jax: jax.jacfwd(f(jax.numpy)), x)


def stencil(small: bool) -> Makers:
    u = _normal(64 if small else 8192)
    f = lambda np: lambda u: _stencil(np, u)
    return _makers(lambda bs: bs.jacobian(f(np)), lambda jax: jax.jacfwd(f(jax.numpy)), u)


def jacobians(small: bool) -> Makers:
    """Of ten outputs at each of many points."""
    n, width, points = (8, 16, 32) if small else (64, 512, 8192)
    w, x = _weights(n, width, width, 10), _normal(points, n)
    f = lambda np: lambda x, *w: _network(np, w, x)
    axes = (0, *[None] * len(w))
    return _makers(
        lambda bs: bs.vmap(bs.jacobian(f(np)), in_axes=axes),
        lambda jax: jax.vmap(jax.jacrev(f(jax.numpy)), in_axes=axes),
        *(x, *w),
    )


def laplacian(small: bool) -> Makers:
    n, width, points = (8, 16, 32) if small else (64, 256, 1024)
    w, x = _weights(n, width, width, width, 1), _normal(points, n)
    f = lambda np: lambda x, *w: _network(np, w, x)[0]
    axes = (0, *[None] * len(w))

    def by_hessian(jax: Any) -> Any:
        h = jax.hessian(f(jax.numpy))
        return jax.vmap(lambda x, *w: jax.numpy.trace(h(x, *w)), in_axes=axes)

    return _makers(lambda bs: bs.vmap(bs.laplacian(f(np)), in_axes=axes), by_hessian, *(x, *w))


def product(small: bool) -> Makers:
    """H v of the loss of a network, with respect to its first weights."""
    n, width, points = (8, 16, 32) if small else (1024, 1024, 8192)
    (a, *w), x = _weights(n, width, width, 1), _normal(points, n)
    v = _normal(*a.shape)
    loss = lambda np, x, w: lambda a: np.mean(_network(np, [a, *w], x) ** 2)

    def ours(bs: Any) -> Any:
        return lambda a, v, x, *w: bs.hvp(loss(np, x, w))(a, v)

    def jaxs(jax: Any) -> Any:
        def run(a: Any, v: Any, x: Any, *w: Any) -> Any:
            return jax.jvp(jax.grad(loss(jax.numpy, x, w)), (a,), (v,))[1]

        return run

    return _makers(ours, jaxs, a, v, x, *w)


STRUCTURES: dict[str, Callable[[bool], Makers]] = {
    "Jacobian of an element-wise function, 8,192": elementwise,
    "Jacobian of a stencil, 8,192": stencil,
    "Jacobians of a network 64-512-512-10 at 8,192 points": jacobians,
    "Laplacians of a network 64-256-256-256-1 at 1,024 points": laplacian,
    "Hessian times vector, network of 1,024, 8,192 points": product,
}
