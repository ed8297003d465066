"""Functions of arrays beside NumPy, autograd, PyTorch and JAX, one by one, from 10 to 10,000,000 entries.

    python benchmarks/arrays.py [--sizes 10,1000,100000,10000000] [word in a name …]

Forward: a Tensor that needs no gradient, beside NumPy on the bare array: what our own bookkeeping adds.
Gradient: of Σ f(x) w with a given w (a constant one would let a compiler compute the answer beforehand), eager
beside autograd and PyTorch, compiled beside jax.jit. One thread, float64, and the process's own time. At the
end the outliers: forward slower than 1.3 × NumPy and 5 µs for each operation, eager gradients slower
than the faster one of the two, compiled ones slower than jax.jit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import autograd
import autograd.numpy as anp
import jax
import numpy as np
import torch
from harness import (
    best_times,
    count_own_time,
    environment,
    header,
    keep_to_cores,
    machine,
    text,
    versions,
)

import backsolve as bs
from backsolve.hooks import Watcher, hooks

CALL = 5e-6  # seconds that an operation may take by itself
NOISE = 1.1  # what a ratio must exceed to be called slower


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
    "std": (lambda np_, x: np_.std(x), lambda np_, x: torch.std(x, correction=0), 10**7),
    "prod": (lambda np_, x: np_.prod(np_.reshape(x, (-1, 10)), 1), None, 10**7),
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
    "stack": (lambda np_, x: np_.stack([x, x], 1), None, 10**7),
    "clip": (lambda np_, x: np_.clip(x, 0.7, 1.2), None, 10**7),
    "dot": (lambda np_, x: np_.dot(x, x), None, 10**7),
    "convolve": (
        lambda np_, x: np_.convolve(x, np.linspace(1.0, 2.0, 9), "valid"),
        lambda np_, x: torch.conv1d(
            x[None, None], torch.linspace(2.0, 1.0, 9, dtype=x.dtype)[None, None]
        )[0, 0],
        10**6,
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


def contest(name: str, n: int) -> dict[str, float]:
    f, theirs, _ = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1.5, n)
    w = rng.uniform(0.5, 1.5, np.shape(f(np, x)))
    torch_f = theirs or f
    tensor = bs.tensor(x)
    xj, wj = jax.numpy.asarray(x), jax.numpy.asarray(w)
    xt, wt = torch.tensor(x, requires_grad=True), torch.tensor(w)

    def loss(np_: Any) -> Callable[[Any, Any], Any]:
        return lambda x, w: np_.sum(f(np_, x) * w)

    ours, compiled = bs.grad(loss(np)), bs.jit(bs.grad(loss(np)))
    jitted = jax.jit(jax.grad(loss(jax.numpy)))
    expected = np.asarray(jitted(xj, wj))
    size = max(float(np.max(np.abs(expected))), 1e-300)
    for got in (ours(x, w), compiled(x, w)):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * size)

    def run_torch() -> Any:
        return torch.autograd.grad((torch_f(torch, xt) * wt).sum(), xt)[0]

    contestants: dict[str, Callable[[], Any]] = {
        "numpy": lambda: f(np, x),
        "tensor": lambda: f(np, tensor),
        "gradient": lambda: ours(x, w),
        "PyTorch": run_torch,
        "compiled": lambda: compiled(x, w),
        "jax.jit": lambda: jax.block_until_ready(jitted(xj, wj)),
    }
    peer = autograd.grad(loss(anp))
    try:
        peer(x, w)
    except (NotImplementedError, TypeError, AttributeError):
        pass  # autograd has no derivative of it
    else:
        contestants["autograd"] = lambda: peer(x, w)
    return best_times(contestants, turns=4, target=0.005, budget=0.5)


class Operations(Watcher):
    """Counts the operations that a function consists of."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def on_call(self, *_: Any) -> None:
        self.count += 1


def operations(name: str) -> int:
    counter = Operations()
    hooks.add(counter)
    try:
        FUNCTIONS[name][0](np, bs.tensor(np.linspace(0.5, 1.5, 10)))
    finally:
        hooks.remove(counter)
    return max(counter.count, 1)  # sorting without a gradient tells nobody


def row(title: str, t: dict[str, float]) -> str:
    cells = [title, text(t["tensor"]), f"{t['numpy'] / t['tensor']:.2f}×", text(t["gradient"])]
    cells.append(f"{t['autograd'] / t['gradient']:.2f}×" if "autograd" in t else "–")
    cells.append(f"{t['PyTorch'] / t['gradient']:.2f}×")
    cells += [text(t["compiled"]), f"{t['jax.jit'] / t['compiled']:.2f}×"]
    return f"| {' | '.join(cells)} |"


def outliers(title: str, t: dict[str, float], operations: int) -> list[str]:
    found = []
    if t["tensor"] > 1.3 * t["numpy"] + CALL * operations:
        found.append(f"{title}: forward takes {t['tensor'] / t['numpy']:.2f} of NumPy's time")
    eager = min((peer for peer in ("autograd", "PyTorch") if peer in t), key=t.__getitem__)
    for mine, peer in (("gradient", eager), ("compiled", "jax.jit")):
        if t[mine] > NOISE * t[peer]:
            found.append(f"{title}: {mine} takes {t[mine] / t[peer]:.2f} of {peer}'s time")
    return found


def measure(only: list[str], sizes: list[int]) -> None:
    jax.config.update("jax_enable_x64", True)
    torch.set_num_threads(1)
    bs.set_threads(1)
    keep_to_cores(1)
    count_own_time()
    columns = ("forward", "NumPy", "gradient", "autograd", "PyTorch", "compiled", "jax.jit")
    print(header("function, entries", *columns), flush=True)
    slow = []
    for name, (_, _, most) in FUNCTIONS.items():
        if only and not any(word in name for word in only):
            continue
        for n in dict.fromkeys(min(size, most) for size in sizes):
            times = contest(name, n)
            print(row(f"{name}, {n:,}", times), flush=True)
            slow += outliers(f"{name}, {n:,}", times, operations(name))
    print("\nOutliers:\n")
    for line in slow or ["none"]:
        print(f"- {line}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*")
    parser.add_argument("--sizes", default="10,1000,100000,10000000")
    parser.add_argument("--worker", action="store_true", help="internal: measure in this process")
    options = parser.parse_args()
    if options.worker:
        measure(options.only, [int(n) for n in options.sizes.split(",")])
        return
    print(f"{machine()}, one thread, float64; {versions(('numpy', 'jax', 'torch', 'autograd'))}.")
    print("Our times, and the peers' as multiples of them.\n", flush=True)
    command = [sys.executable, __file__, "--worker", f"--sizes={options.sizes}", *options.only]
    subprocess.run(command, env=environment(1), check=True)


if __name__ == "__main__":
    main()
