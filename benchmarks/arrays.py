"""Functions of arrays beside NumPy, autograd, PyTorch and JAX, one by one, from 10 to 10,000,000 entries.

    python benchmarks/arrays.py [--sizes 10,1000,100000,10000000] [word in a name …]

Forward: a Tensor that needs no gradient, beside NumPy on the bare array: what our own bookkeeping adds.
Gradient: of the sum of the result, eager beside autograd and PyTorch, compiled beside jax.jit. One thread,
float64, and the process's own time. At the end the outliers: forward slower than NumPy by a tenth and by more
than a call's own 5 µs, gradients slower than a peer's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import autograd
import autograd.numpy as anp
import jax
import numpy as np
import torch
from harness import best_times, count_own_time, machine, text

import backsolve as bs

jax.config.update("jax_enable_x64", True)
torch.set_num_threads(1)
bs.set_threads(1)
CALL = 5e-6  # seconds that a call may take by itself


def square(x: Any, np_: Any) -> Any:
    """The entries as a square matrix, or most of them."""
    n = int(np.sqrt(x.shape[0]))
    return np_.reshape(x[: n * n], (n, n))


def definite(x: Any, np_: Any) -> Any:
    A = square(x, np_)
    t = np_.transpose if np_ is not torch else lambda a: a.T
    return A @ t(A) / A.shape[0] + np_.eye(
        A.shape[0], **({"dtype": A.dtype} if np_ is torch else {})
    )


# name -> (function of (np_, x), PyTorch's if it is spelled otherwise, the most entries)
Function = Callable[[Any, Any], Any]
MATRICES = 250_000
FUNCTIONS: dict[str, tuple[Function, Function | None, int]] = {
    "add": (lambda np_, x: x + x, None, 10**7),
    "multiply": (lambda np_, x: x * 1.5, None, 10**7),
    "divide": (lambda np_, x: 1.0 / x, None, 10**7),
    "power": (lambda np_, x: x**3, None, 10**7),
    "exp": (lambda np_, x: np_.exp(x), None, 10**7),
    "log": (lambda np_, x: np_.log(x), None, 10**7),
    "sin": (lambda np_, x: np_.sin(x), None, 10**7),
    "tanh": (lambda np_, x: np_.tanh(x), None, 10**7),
    "sqrt": (lambda np_, x: np_.sqrt(x), None, 10**7),
    "maximum": (
        lambda np_, x: np_.maximum(x, 1.0),
        lambda np_, x: torch.clamp(x, min=1.0),
        10**7,
    ),
    "where": (
        lambda np_, x: np_.where(x > 1.0, x * x, x),
        None,
        10**7,
    ),
    "sum": (lambda np_, x: np_.sum(x), None, 10**7),
    "mean": (lambda np_, x: np_.mean(x), None, 10**7),
    "var": (lambda np_, x: np_.var(x), lambda np_, x: torch.var(x, correction=0), 10**7),
    "prod": (lambda np_, x: np_.prod(x), None, 10**6),
    "max": (lambda np_, x: np_.max(x), None, 10**7),
    "cumsum": (lambda np_, x: np_.cumsum(x), lambda np_, x: torch.cumsum(x, 0), 10**7),
    "sort": (lambda np_, x: np_.sort(x), lambda np_, x: torch.sort(x).values, 10**6),
    "diff": (lambda np_, x: x[1:] - x[:-1], None, 10**7),
    "reverse": (lambda np_, x: x[::-1] * 2.0, lambda np_, x: torch.flip(x, (0,)) * 2.0, 10**7),
    "gather": (lambda np_, x: x[np.arange(0, x.shape[0], 3)], None, 10**7),
    "concatenate": (
        lambda np_, x: np_.concatenate([x, x]),
        lambda np_, x: torch.cat([x, x]),
        10**7,
    ),
    "sum of columns": (lambda np_, x: np_.sum(square(x, np_), 0), None, 10**7),
    "transpose": (
        lambda np_, x: np_.transpose(square(x, np_)) * 2.0,
        lambda np_, x: square(x, torch).T * 2.0,
        10**7,
    ),
    "matmul": (lambda np_, x: square(x, np_) @ square(x, np_), None, MATRICES),
    "outer": (lambda np_, x: np_.outer(x, x), None, 1000),
    "einsum": (
        lambda np_, x: np_.einsum("ij,kj->ik", square(x, np_), square(x, np_)),
        None,
        MATRICES,
    ),
    "norm": (lambda np_, x: np_.sqrt(np_.sum(x * x)), None, 10**7),
    "solve": (
        lambda np_, x: np_.linalg.solve(definite(x, np_), x[: int(np.sqrt(x.shape[0]))]),
        None,
        MATRICES,
    ),
    "inv": (lambda np_, x: np_.linalg.inv(definite(x, np_)), None, MATRICES),
    "cholesky": (lambda np_, x: np_.linalg.cholesky(definite(x, np_)), None, MATRICES),
    "slogdet": (lambda np_, x: np_.linalg.slogdet(definite(x, np_))[1], None, MATRICES),
    "eigvalsh": (
        lambda np_, x: np_.linalg.eigh(definite(x, np_))[0],
        None,
        MATRICES,
    ),
    "svd": (lambda np_, x: np_.linalg.svd(definite(x, np_))[1], None, MATRICES),
    "qr": (lambda np_, x: np_.linalg.qr(definite(x, np_))[1], None, MATRICES),
    "fft": (lambda np_, x: np_.abs(np_.fft.fft(x)), None, 10**6),
    "rfft": (lambda np_, x: np_.abs(np_.fft.rfft(x)), None, 10**6),
}


def scalar(np_: Any, f: Function) -> Any:
    return lambda x: np_.sum(f(np_, x))


def contest(name: str, n: int) -> dict[str, float]:
    f, theirs, _ = FUNCTIONS[name]
    x = np.random.default_rng(0).uniform(0.5, 1.5, n)
    tensor, torch_f = bs.tensor(x), theirs or f
    xj, xt = jax.numpy.asarray(x), torch.tensor(x, requires_grad=True)
    ours, compiled = bs.grad(scalar(np, f)), bs.jit(bs.grad(scalar(np, f)))
    jitted = jax.jit(jax.grad(scalar(jax.numpy, f)))
    expected = np.asarray(jitted(xj))
    size = max(float(np.max(np.abs(expected))), 1e-300)
    for got in (ours(x), compiled(x)):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * size)

    def run_torch() -> Any:
        return torch.autograd.grad(torch_f(torch, xt).sum(), xt)[0]

    contestants: dict[str, Callable[[], Any]] = {
        "numpy": lambda: f(np, x),
        "tensor": lambda: f(np, tensor),
        "gradient": lambda: ours(x),
        "torch": run_torch,
        "compiled": lambda: compiled(x),
        "jax": lambda: jax.block_until_ready(jitted(xj)),
    }
    peer = autograd.grad(scalar(anp, f))
    try:
        peer(x)
    except (NotImplementedError, TypeError, AttributeError):
        pass  # autograd has no derivative of it
    else:
        contestants["autograd"] = lambda: peer(x)
    return best_times(contestants, turns=5, target=0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*")
    parser.add_argument("--sizes", default="10,1000,100000,10000000")
    options = parser.parse_args()
    count_own_time()
    print(f"{machine()}, one thread, float64. Ours, and peers' times as multiples of it.\n")
    print(
        "| function, entries | forward | NumPy | gradient | autograd | PyTorch | compiled | jax.jit |"
    )
    print("|---|---|---|---|---|---|---|---|")
    outliers = []
    for name, (_, _, most) in FUNCTIONS.items():
        if options.only and not any(word in name for word in options.only):
            continue
        for n in dict.fromkeys(min(int(s), most) for s in options.sizes.split(",")):
            t = contest(name, n)
            cells = [f"{name}, {n:,}", text(t["tensor"]), f"{t['numpy'] / t['tensor']:.2f}×"]
            cells.append(text(t["gradient"]))
            cells.append(f"{t['autograd'] / t['gradient']:.2f}×" if "autograd" in t else "–")
            cells.append(f"{t['torch'] / t['gradient']:.2f}×")
            cells += [text(t["compiled"]), f"{t['jax'] / t['compiled']:.2f}×"]
            print(f"| {' | '.join(cells)} |", flush=True)
            if t["tensor"] > 1.1 * t["numpy"] + CALL:
                outliers.append(
                    f"{name}, {n:,}: forward {t['tensor'] / t['numpy']:.2f} of NumPy's time"
                )
            for mine, peers in (("gradient", ("autograd", "torch")), ("compiled", ("jax",))):
                for peer in peers:
                    if peer in t and t[mine] > 1.1 * t[peer]:
                        ratio = t[mine] / t[peer]
                        outliers.append(f"{name}, {n:,}: {mine} {ratio:.2f} of {peer}'s time")
    print("\nOutliers:\n")
    for line in outliers or ["none"]:
        print(f"- {line}")


if __name__ == "__main__":
    main()
