"""Native element-wise mathematics beside NumPy's (SciPy's) and PyTorch's: one array, one thread.

    python benchmarks/mathematics.py [function …] [--size 1000000] [--turns 7]

Every peer writes into an array made beforehand (except PyTorch's softplus and logsigmoid, which take
none). Arguments are where a function does its work: a normal spread for most, positive numbers for
logarithms, (−1, 1) for the arcs that need it. sin, cos and tan have a second row, "wide", of arguments
beyond the range of the cheap reduction.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import best_times, machine, show_row
from scipy import special

from backsolve.backends.native.mathematics import BINARY, EMITTERS, NARROW, kernels

try:
    import torch
except ImportError:
    torch = None

SCIPY: dict[str, Any] = {
    "sigmoid": special.expit,
    "log_sigmoid": special.log_expit,
    "softplus": lambda a, out: np.logaddexp(a, a.dtype.type(0), out=out),
    "rsqrt": lambda a, out: np.divide(a.dtype.type(1), np.sqrt(a, out=out), out=out),
    "erf": special.erf,
    "erfc": special.erfc,
}
POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "power"}
UNIT = {"arcsin", "arccos", "arctanh"}


def arguments(name: str, dtype: Any, size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, size)) * 3
    if name in POSITIVE:
        a = np.exp(a)
    elif name in UNIT:
        a = np.tanh(a)
    elif name == "arccosh":
        a = 1 + np.exp(a)
    return [v.astype(dtype) for v in ((a, b) if name in BINARY else (a,))]


def torch_call(name: str, inputs: list[np.ndarray], out: np.ndarray) -> Callable[[], Any] | None:
    if torch is None:
        return None
    tensors, target = [torch.from_numpy(a) for a in inputs], torch.from_numpy(out)
    if name == "softplus":
        return lambda: torch.nn.functional.softplus(tensors[0])
    if name == "log_sigmoid":
        return lambda: torch.nn.functional.logsigmoid(tensors[0])
    f = getattr(torch, {"power": "pow"}.get(name, name), None)
    return None if f is None else lambda: f(*tensors, out=target)


def contest(name: str, inputs: list[np.ndarray], turns: int) -> dict[str, float]:
    out, numpy_out, torch_out = (np.empty_like(inputs[0]) for _ in range(3))
    kernel = (kernels.binary if name in BINARY else kernels.unary)(name, inputs[0].dtype)
    numpy_run = SCIPY.get(name) or getattr(np, name)
    contestants: dict[str, Callable[[], Any]] = {
        "backsolve": lambda: kernel(*inputs, out=out),
        "numpy": lambda: numpy_run(*inputs, out=numpy_out),
    }
    torch_run = torch_call(name, inputs, torch_out)
    if torch_run is not None:
        contestants["torch"] = torch_run
    return best_times(contestants, turns=turns, target=0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("functions", nargs="*", default=list(EMITTERS))
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    if torch is not None:
        torch.set_num_threads(1)
    print(f"{options.size} elements, one thread, {machine()}\n")
    print("| function | backsolve | NumPy or SciPy | PyTorch |\n|---|---|---|---|")
    for dtype in (np.float64, np.float32):
        for name in options.functions:
            inputs = arguments(name, dtype, options.size)
            title = f"{name} {np.dtype(dtype).name}"
            print(show_row(title, contest(name, inputs, options.turns)), flush=True)
            if name in NARROW:
                inputs = [a * dtype(1e12) for a in inputs]
                print(show_row(f"{title} wide", contest(name, inputs, options.turns)), flush=True)


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        main()
