"""Fourier transforms and a gradient through one, compiled, beside NumPy and jax.jit, on one thread.

    python benchmarks/fourier.py                    # all
    python benchmarks/fourier.py rfft float32       # those whose title has these words

The gradient is that of Σ k |rfft(x)_k|²; NumPy's is written out by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax  # reads the environment
import jax.numpy as jnp
import numpy as np
from harness import best_times, header, machine, on_one_thread, show_row, versions

import backsolve as bs

LENGTHS = (10, 1000, 1009, 1 << 12, 3**9, 100_000, 1_000_000)
BATCHES = {(1000, 1000): (0, 1), (10_000, 16): (1,), (64, 64, 64): (1,)}


def power(xp: Any, x: Any) -> Any:
    y = xp.fft.rfft(x)
    return xp.sum(xp.abs(y) ** 2 * np.arange(y.shape[0], dtype=x.dtype))


def power_gradient(x: Any) -> Any:
    y, n = np.fft.rfft(x), x.shape[0]
    g = 2 * y * np.arange(y.shape[0], dtype=x.dtype)
    weights = np.full(y.shape[0], 0.5, x.dtype)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return np.fft.irfft(g * weights, n, norm="forward")


def programs() -> Iterator[tuple[str, Any, Any, Any, Any]]:
    """A title, the function for us, NumPy and JAX, and its argument."""
    rng = np.random.default_rng(0)

    def everywhere(name: str, *args: Any, **options: Any) -> list[Any]:
        return [lambda x, m=m: getattr(m.fft, name)(x, *args, **options) for m in (np, np, jnp)]

    for real, dtype in (("float64", "complex128"), ("float32", "complex64")):
        for n in LENGTHS:
            x = rng.normal(size=n).astype(real)
            z = (x + 1j * rng.normal(size=n)).astype(dtype)
            half = z[: n // 2 + 1].copy()
            yield f"fft {n} {dtype}", *everywhere("fft"), z
            yield f"rfft {n} {real}", *everywhere("rfft"), x
            yield f"irfft {n} {real}", *everywhere("irfft", n), half
            slopes = bs.grad(partial(power, np)), power_gradient, jax.grad(partial(power, jnp))
            yield f"gradient {n} {real}", *slopes, x
        for shape, axes in BATCHES.items():
            x = rng.normal(size=shape).astype(real)
            for axis in axes:
                yield f"rfft {shape} along {axis} {real}", *everywhere("rfft", axis=axis), x


def main() -> None:
    bs.set_threads(1)
    on_one_thread()
    jax.config.update("jax_enable_x64", True)
    print(f"{machine()}; one thread; {versions(['numpy', 'llvmlite', 'jax'])}\n")
    print(header("program", "backsolve", "NumPy", "jax.jit"))
    for title, ours, numpys, theirs, x in programs():
        if not all(word in title for word in sys.argv[1:]):
            continue
        compiled, jitted = bs.jit(ours), jax.jit(theirs)
        expected = np.asarray(numpys(x))
        loose = 1e-10 if x.dtype.itemsize >= 8 and x.dtype != np.complex64 else 1e-3
        scale = np.abs(expected).max()
        np.testing.assert_allclose(compiled(x) / scale, expected / scale, atol=loose)
        runs = {
            "backsolve": partial(compiled, x),
            "NumPy": partial(numpys, x),
            "jax.jit": lambda f=jitted, x=x: f(x).block_until_ready(),
        }
        print(show_row(title, best_times(runs, turns=9, target=0.01, budget=2.0)), flush=True)


if __name__ == "__main__":
    main()
