"""Compiled gradients and training steps beside jax.jit and PyTorch eager, in one run, on one thread.

Every workload is written once in NumPy's words and runs as `bs.jit` and as `jax.jit` (results waited
for), and by hand in PyTorch. Values are compared before anything is timed.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import importlib.metadata as metadata
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from harness import best_times, machine, show_row

import backsolve as bs

torch.set_num_threads(1)
jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
Workload = tuple[Callable[..., Any], Callable[..., Any], Callable[[], Any], list[np.ndarray]]


def gelu_sigmoid(n: int) -> Workload:
    x = rng.normal(size=n)

    def f_with(np_: Any) -> Callable[..., Any]:
        def f(x):
            return np_.sum(
                0.5
                * x
                * (1 + np_.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
                / (1 + np_.exp(-x))
            )

        return f

    def run_torch():
        t = torch.tensor(x, requires_grad=True)
        y = (
            0.5
            * t
            * (1 + torch.tanh(0.7978845608 * (t + 0.044715 * t * t * t)))
            / (1 + torch.exp(-t))
        )
        y.sum().backward()
        return t.grad

    return bs.grad(f_with(np)), jax.grad(f_with(jnp)), run_torch, [x]


def scalar_expression() -> Workload:
    def f_with(np_: Any) -> Callable[..., Any]:
        def f(p):
            x, y, z = p[0], p[1], p[2]
            for _ in range(16):
                x = x * y + np_.sin(z)
                y = y / (1.0 + x * x) + z
                z = np_.exp(-z * z) * x - y
            return x + y * z

        return f

    p = np.array([0.3, 0.5, 0.7])

    def run_torch():
        t = torch.tensor(p, requires_grad=True)
        f_with(torch)(t).backward()
        return t.grad

    return bs.grad(f_with(np)), jax.grad(f_with(jnp)), run_torch, [p]


def mlp(sizes: tuple[int, ...], batch: int, adam: bool) -> Workload:
    dtype = np.float32
    X = rng.normal(size=(batch, sizes[0])).astype(dtype)
    Y = rng.normal(size=(batch, sizes[-1])).astype(dtype)
    weights = []
    for n, m in zip(sizes, sizes[1:], strict=False):
        weights += [(rng.normal(size=(n, m)) / np.sqrt(n)).astype(dtype), np.zeros(m, dtype)]
    count = len(weights)
    state = (
        [np.zeros_like(w) for w in weights] + [np.zeros_like(w) for w in weights] if adam else []
    )

    def step_with(np_: Any, grad: Any) -> Callable[..., Any]:
        def loss(*params):
            h = X
            for k in range(0, count - 2, 2):
                h = np_.tanh(h @ params[k] + params[k + 1])
            return np_.mean((h @ params[-2] + params[-1] - Y) ** 2)

        def step(*everything):
            params = everything[:count]
            grads = grad(loss, argnums=tuple(range(count)))(*params)
            if not adam:
                return tuple(p - 0.01 * g for p, g in zip(params, grads, strict=True))
            first, second = everything[count : 2 * count], everything[2 * count :]
            first = [0.9 * m + 0.1 * g for m, g in zip(first, grads, strict=True)]
            second = [0.999 * v + 0.001 * g * g for v, g in zip(second, grads, strict=True)]
            new = [
                p - 0.001 * m / (np_.sqrt(v) + 1e-8)
                for p, m, v in zip(params, first, second, strict=True)
            ]
            return (*new, *first, *second)

        return step

    tensors = [torch.tensor(w, requires_grad=True) for w in weights]
    optimiser = torch.optim.Adam(tensors, lr=1e-3) if adam else torch.optim.SGD(tensors, lr=0.01)
    tX, tY = torch.tensor(X), torch.tensor(Y)

    def run_torch():
        h = tX
        for k in range(0, count - 2, 2):
            h = torch.tanh(h @ tensors[k] + tensors[k + 1])
        loss = ((h @ tensors[-2] + tensors[-1] - tY) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step_with(np, bs.grad), step_with(jnp, jax.grad), run_torch, [*weights, *state]


def logistic(n: int, d: int) -> Workload:
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    y = (rng.random(n) < 0.5).astype(float)

    def f_with(np_: Any) -> Callable[..., Any]:
        def f(w):
            z = X @ w
            return np_.mean(np_.logaddexp(0.0, z) - y * z)

        return f

    tX, ty = torch.tensor(X), torch.tensor(y)

    def run_torch():
        t = torch.tensor(w, requires_grad=True)
        z = tX @ t
        (torch.logaddexp(torch.zeros((), dtype=torch.float64), z) - ty * z).mean().backward()
        return t.grad

    return bs.grad(f_with(np)), jax.grad(f_with(jnp)), run_torch, [w]


def rows(kind: str, n: int, width: int) -> Workload:
    x = rng.normal(size=(n // width, width)).astype(np.float32)
    weight = rng.normal(size=width).astype(np.float32)

    def f_with(np_: Any) -> Callable[..., Any]:
        def softmax(x):
            e = np_.exp(x - np_.max(x, axis=-1, keepdims=True))
            return e / np_.sum(e, axis=-1, keepdims=True)

        def norm(x):
            c = x - np_.mean(x, axis=-1, keepdims=True)
            return c / np_.sqrt(np_.mean(c * c, axis=-1, keepdims=True) + 1e-5)

        def gelu(x):
            return 0.5 * x * (1 + np_.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

        f = {"softmax": softmax, "layer norm": norm, "gelu": gelu}[kind]
        return lambda x: np_.sum(f(x) * weight)

    function = {
        "softmax": lambda t: torch.softmax(t, -1),
        "layer norm": lambda t: torch.nn.functional.layer_norm(t, (width,)),
        "gelu": lambda t: torch.nn.functional.gelu(t, approximate="tanh"),
    }[kind]
    tw = torch.tensor(weight)

    def run_torch():
        t = torch.tensor(x, requires_grad=True)
        (function(t) * tw).sum().backward()
        return t.grad

    return bs.grad(f_with(np)), jax.grad(f_with(jnp)), run_torch, [x]


def attention(batch: int, heads: int, length: int, width: int) -> Workload:
    shape = (batch, heads, length, width)
    q, k, v = (rng.normal(size=shape).astype(np.float32) for _ in range(3))
    mask = np.tril(np.ones((length, length), bool))

    def f_with(np_: Any) -> Callable[..., Any]:
        def f(q, k, v):
            s = np_.matmul(q, np_.swapaxes(k, -1, -2)) * float(width**-0.5)
            s = np_.where(mask, s, -1e30)
            e = np_.exp(s - np_.max(s, axis=-1, keepdims=True))
            y = np_.matmul(e / np_.sum(e, axis=-1, keepdims=True), v)
            return np_.sum(y * y)

        return f

    def run_torch():
        a, b, c = (torch.tensor(x, requires_grad=True) for x in (q, k, v))
        y = torch.nn.functional.scaled_dot_product_attention(a, b, c, is_causal=True)
        (y * y).sum().backward()
        return a.grad

    ours = bs.grad(f_with(np), argnums=(0, 1, 2))
    return ours, jax.grad(f_with(jnp), argnums=(0, 1, 2)), run_torch, [q, k, v]


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "gelu·sigmoid gradient, 4 numbers": lambda: gelu_sigmoid(4),
    "gelu·sigmoid gradient, 1,000,000 numbers": lambda: gelu_sigmoid(10**6),
    "scalar expression of 200 operations, gradient": scalar_expression,
    "MLP 2-16-16-1, batch 64, SGD step": lambda: mlp((2, 16, 16, 1), 64, False),
    "MLP 64-128-128-10, batch 32, Adam step": lambda: mlp((64, 128, 128, 10), 32, True),
    "MLP 784-512-256-10, batch 128, Adam step": lambda: mlp((784, 512, 256, 10), 128, True),
    "logistic regression 100,000 × 50, gradient": lambda: logistic(100_000, 50),
    "softmax gradient, 1M": lambda: rows("softmax", 1 << 20, 256),
    "layer norm gradient, 1M": lambda: rows("layer norm", 1 << 20, 256),
    "gelu gradient, 1M": lambda: rows("gelu", 1 << 20, 256),
    "causal attention 4×8×256×64, gradient": lambda: attention(4, 8, 256, 64),
}


def prepare(workload: Workload) -> tuple[dict[str, Callable[[], Any]], float, float]:
    """The contestants, after a check of our values against JAX's, and both compile times."""
    ours, theirs, run_torch, args = workload
    mine, other = bs.jit(ours), jax.jit(theirs)
    start = time.perf_counter()
    got = mine(*args)
    middle = time.perf_counter()
    expected = jax.block_until_ready(other(*args))
    end = time.perf_counter()
    (made,) = mine.stats()["specialisations"]
    assert made["native"], made["reason"]
    pairs = zip(
        got if isinstance(got, tuple) else [got],
        expected if isinstance(expected, tuple) else [expected],
        strict=True,
    )
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)
    contestants = {
        "backsolve": lambda: mine(*args),
        "jax": lambda: jax.block_until_ready(other(*args)),
        "torch": run_torch,
    }
    return contestants, middle - start, end - middle


def main() -> None:
    versions = ", ".join(f"{n} {metadata.version(n)}" for n in ("numpy", "jax", "torch"))
    print(f"{machine()}, one thread; {versions}\n")
    print(
        "| workload | backsolve | jax.jit | PyTorch eager | first call: ours, jax.jit |\n|---|---|---|---|---|"
    )
    only = sys.argv[1:]
    for title, make in WORKLOADS.items():
        if not only or any(word in title for word in only):
            contestants, ours, theirs = prepare(make())
            row = show_row(title, best_times(contestants))
            print(f"{row} {ours:.2f} s, {theirs:.2f} s |", flush=True)


if __name__ == "__main__":
    main()
