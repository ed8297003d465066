"""Training steps and models: small networks, logistic regression, attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Workload, gradient, torch_gradient

rng = np.random.default_rng(0)


def mlp(sizes: tuple[int, ...], batch: int, adam: bool) -> Workload:
    X = rng.normal(size=(batch, sizes[0])).astype(np.float32)
    Y = rng.normal(size=(batch, sizes[-1])).astype(np.float32)
    weights: list[np.ndarray] = []
    for n, m in zip(sizes, sizes[1:], strict=False):
        weights += [(rng.normal(size=(n, m)) / np.sqrt(n)).astype("f4"), np.zeros(m, "f4")]
    count = len(weights)
    state = [np.zeros_like(w) for w in weights * 2] if adam else []

    def step(grad: Any, np_: Any, X: Any, Y: Any) -> Any:
        def loss(*params: Any) -> Any:
            h = X
            for k in range(0, count - 2, 2):
                h = np_.tanh(h @ params[k] + params[k + 1])
            return np_.mean((h @ params[-2] + params[-1] - Y) ** 2)

        def run(*everything: Any) -> Any:
            params = everything[:count]
            grads = grad(loss, tuple(range(count)))(*params)
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

        return run

    def in_torch(torch: Any) -> Any:
        tensors = [torch.tensor(w, requires_grad=True) for w in weights]
        kind = torch.optim.Adam if adam else torch.optim.SGD
        optimiser = kind(tensors, lr=1e-3 if adam else 0.01)
        tX, tY = torch.from_numpy(X), torch.from_numpy(Y)

        def eager() -> None:
            h = tX
            for k in range(0, count - 2, 2):
                h = torch.tanh(h @ tensors[k] + tensors[k + 1])
            loss = ((h @ tensors[-2] + tensors[-1] - tY) ** 2).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

        pure = step(torch.func.grad, torch, tX, tY)
        return eager, pure, [torch.from_numpy(a) for a in (*weights, *state)]

    products = sum(n * m for n, m in zip(sizes, sizes[1:], strict=False))
    first = sizes[0] * sizes[1]  # no gradient with respect to the data
    nbytes = 2 * sum(a.nbytes for a in (*weights, *state))
    return Workload(
        [*weights, *state],
        lambda lib: step(lib.grad, lib.np, X, Y),
        in_torch,
        flops=2 * batch * (3 * products - first),
        nbytes=nbytes,
    )


def logistic(n: int, d: int, hessian: bool = False) -> Workload:
    X, w, v = rng.normal(size=(n, d)), rng.normal(size=d), rng.normal(size=d)
    y = (rng.random(n) < 0.5).astype(float)

    def f(lib: Any) -> Any:
        def run(w: Any) -> Any:
            z = X @ w
            return lib.np.mean(lib.np.logaddexp(0.0, z) - y * z)

        return run

    def loss(torch: Any) -> Any:
        tX, ty = torch.from_numpy(X), torch.from_numpy(y)
        zero = torch.zeros((), dtype=torch.float64)

        def run(t: Any) -> Any:
            z = tX @ t
            return (torch.logaddexp(zero, z) - ty * z).mean()

        return run

    # X is read once at best, rows at a time; w and v are small.
    if not hessian:
        return Workload([w], gradient(f, 1), torch_gradient(loss, [w]), nbytes=X.nbytes)

    def in_torch(torch: Any) -> Any:
        tensors = [torch.from_numpy(w), torch.from_numpy(v)]
        run = loss(torch)

        def eager() -> Any:
            leaf = tensors[0].detach().requires_grad_()
            (g,) = torch.autograd.grad(run(leaf), leaf, create_graph=True)
            return torch.autograd.grad(g @ tensors[1], leaf)[0]

        def pure(t: Any, u: Any) -> Any:
            return torch.func.jvp(torch.func.grad(run), (t,), (u,))[1]

        return eager, pure, tensors

    return Workload([w, v], lambda lib: lib.hvp(f(lib)), in_torch, nbytes=X.nbytes)


def attention(batch: int, heads: int, length: int, width: int) -> Workload:
    """By each library's fastest way to it; PyTorch's and ours is a function of its own."""
    shape = (batch, heads, length, width)
    args = [rng.normal(size=shape).astype(np.float32) for _ in range(3)]

    def f(lib: Any) -> Any:
        def run(q: Any, k: Any, v: Any) -> Any:
            y = lib.causal_attention(q, k, v)
            return lib.np.sum(y * y)

        return run

    def loss(torch: Any) -> Any:
        attend = torch.nn.functional.scaled_dot_product_attention

        def run(q: Any, k: Any, v: Any) -> Any:
            y = attend(q, k, v, is_causal=True)
            return (y * y).sum()

        return run

    # Six products of n × n × d, of which a causal mask needs one half.
    flops = 6 * batch * heads * length * length * width
    nbytes = 2 * sum(a.nbytes for a in args)
    return Workload(args, gradient(f, 3), torch_gradient(loss, args), flops, nbytes)
