"""Eager differentiation beside PyTorch eager and HIPS autograd, in one run.

Three workloads on small arrays (a chain of element-wise operations, a small MLP step, a scalar
expression) and the same two on large ones. Forward and backward together; all in float64 and on one
thread. Figures are times of our run and the peers' times as multiples of it: above 1 we are ahead.
"""

from __future__ import annotations

import importlib.metadata as metadata
import sys
from collections.abc import Callable

import autograd
import autograd.numpy as anp
import numpy as np
import torch
from harness import best_times, machine, show_row

import backsolve as bs

torch.set_num_threads(1)
Contestants = dict[str, Callable[[], object]]


def elementwise_chain(n: int, links: int) -> Contestants:
    """links × (sin, multiply, add) on n numbers."""
    x = np.random.default_rng(0).normal(size=n)

    def numpy_chain(np_):
        def f(x):
            for _ in range(links):
                x = np_.sin(x) * 0.5 + x
            return x.sum() if np_ is np else np_.sum(x)

        return f

    def run_torch():
        leaf = torch.tensor(x, requires_grad=True)
        y = leaf
        for _ in range(links):
            y = torch.sin(y) * 0.5 + y
        y.sum().backward()
        return leaf.grad

    ours, theirs = bs.grad(numpy_chain(np)), autograd.grad(numpy_chain(anp))
    np.testing.assert_allclose(ours(x), theirs(x))
    np.testing.assert_allclose(ours(x), run_torch().numpy())
    return {"backsolve": lambda: ours(x), "torch": run_torch, "autograd": lambda: theirs(x)}


def mlp_step(batch: int, sizes: tuple[int, ...]) -> Contestants:
    """One SGD step of a tanh network with squared loss."""
    rng = np.random.default_rng(0)
    pairs = list(zip(sizes, sizes[1:], strict=False))
    params = [(rng.normal(size=p) / np.sqrt(p[0]), np.zeros(p[1])) for p in pairs]
    X, Y = rng.normal(size=(batch, sizes[0])), rng.normal(size=(batch, sizes[-1]))

    def loss_with(np_):
        def loss(params):
            h = X
            for W, b in params[:-1]:
                h = np_.tanh(np_.dot(h, W) + b)
            W, b = params[-1]
            return np_.mean((np_.dot(h, W) + b - Y) ** 2)

        return loss

    def step_with(gradient):
        def step():
            g = gradient(params)
            return [
                (W - 0.01 * dW, b - 0.01 * db) for (W, b), (dW, db) in zip(params, g, strict=True)
            ]

        return step

    tensors = [torch.tensor(a, requires_grad=True) for pair in params for a in pair]
    tX, tY = torch.tensor(X), torch.tensor(Y)

    def run_torch():
        h = tX
        for k in range(0, len(tensors) - 2, 2):
            h = torch.tanh(h @ tensors[k] + tensors[k + 1])
        loss = ((h @ tensors[-2] + tensors[-1] - tY) ** 2).mean()
        grads = torch.autograd.grad(loss, tensors)
        with torch.no_grad():
            return [t - 0.01 * g for t, g in zip(tensors, grads, strict=True)]

    ours, theirs = bs.grad(loss_with(np)), autograd.grad(loss_with(anp))
    expected = run_torch()[0].numpy()
    np.testing.assert_allclose(step_with(ours)()[0][0], expected, rtol=1e-9, atol=1e-12)
    return {"backsolve": step_with(ours), "torch": run_torch, "autograd": step_with(theirs)}


def scalar_expression() -> Contestants:
    """A function of three numbers with some forty operations."""

    def f_with(np_):
        def f(p):
            x, y, z = p
            for _ in range(5):
                x = x * y + np_.sin(z)
                y = y / (1.0 + x * x) + z
                z = np_.exp(-z) * x - y
            return x + y * z

        return f

    def run_torch():
        leaves = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.3, 0.5, 0.7)]
        f_with(torch)(leaves).backward()
        return [leaf.grad for leaf in leaves]

    ours, theirs = bs.grad(f_with(np)), autograd.grad(f_with(anp))
    p = (0.3, 0.5, 0.7)
    np.testing.assert_allclose(ours(p), [float(g) for g in run_torch()])
    return {"backsolve": lambda: ours(p), "torch": run_torch, "autograd": lambda: theirs(p)}


WORKLOADS = {
    "chain of 60 element-wise operations, 10 numbers": lambda: elementwise_chain(10, 20),
    "chain of 60 element-wise operations, 1,000 numbers": lambda: elementwise_chain(1000, 20),
    "chain of 60 element-wise operations, 1,000,000 numbers": lambda: elementwise_chain(10**6, 20),
    "MLP 2-16-16-1, batch 64, SGD step": lambda: mlp_step(64, (2, 16, 16, 1)),
    "MLP 64-128-128-10, batch 32, SGD step": lambda: mlp_step(32, (64, 128, 128, 10)),
    "MLP 784-512-256-10, batch 128, SGD step": lambda: mlp_step(128, (784, 512, 256, 10)),
    "scalar expression of some 60 operations": scalar_expression,
}


def main() -> None:
    names = ("torch", "autograd")
    versions = ", ".join(f"{n} {metadata.version(n)}" for n in ("numpy", *names))
    print(f"{machine()}, one thread; {versions}\n")
    print("| forward and backward | backsolve | PyTorch eager | autograd |\n|---|---|---|---|")
    only = sys.argv[1:]
    for title, make in WORKLOADS.items():
        if not only or any(word in title for word in only):
            print(show_row(title, best_times(make())), flush=True)


if __name__ == "__main__":
    main()
