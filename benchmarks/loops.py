"""Plain Python loops: values beside Numba and Python itself, and what the gradient costs on top.

Each program is written once, with loops, branches and element assignment, and compiled by `bs.jit` and by
`numba.njit` as it is; Numba has no gradients. All in float64 and on one thread; first calls, which compile,
apart.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
from harness import best_times, header, machine, text, versions

import backsolve as bs


def shortest_paths(D: Any) -> Any:
    D = D.copy()
    n = D.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if D[i, k] + D[k, j] < D[i, j]:
                    D[i, j] = D[i, k] + D[k, j]
    return np.sum(D * D)


def time_warping(x: Any, y: Any) -> Any:
    n, m = len(x), len(y)
    R = np.full((n + 1, m + 1), 1e10)
    R[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            a, b, c = -R[i - 1, j - 1], -R[i - 1, j], -R[i, j - 1]
            top = max(a, b, c)
            soft = top + np.log(np.exp(a - top) + np.exp(b - top) + np.exp(c - top))
            R[i, j] = (x[i - 1] - y[j - 1]) ** 2 - soft
    return R[n, m]


def tridiagonal(d: Any, b: Any, a: Any, c: Any) -> Any:
    n = len(d)
    up, right = np.zeros(n), np.zeros(n)
    up[0], right[0] = c[0] / b[0], d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i] * up[i - 1]
        up[i] = c[i] / m
        right[i] = (d[i] - a[i] * right[i - 1]) / m
    total, x = 0.0, 0.0
    for i in range(n - 1, -1, -1):
        x = right[i] - up[i] * x
        total += x * x
    return total


def insertion_sort(x: Any) -> Any:
    x = x.copy()
    for i in range(1, len(x)):
        key, j = x[i], i - 1
        while j >= 0 and x[j] > key:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = key
    return np.sum(x * np.arange(len(x)))


def upwind(u: Any) -> Any:
    u = u.copy()
    for _ in range(50):
        new = u.copy()
        for i in range(1, len(u) - 1):
            if u[i] > 0:
                new[i] = u[i] - 0.1 * u[i] * (u[i] - u[i - 1])
            else:
                new[i] = u[i] - 0.1 * u[i] * (u[i + 1] - u[i])
        u = new
    return np.sum(u**2)


def bodies(x: Any) -> Any:
    energy = 0.0
    for i in range(x.shape[0]):
        for j in range(i + 1, x.shape[0]):
            r = 0.0
            for d in range(3):
                r += (x[i, d] - x[j, d]) ** 2
            energy += 1 / np.sqrt(r + 0.01)
    return energy


def convolution(image: Any, kernel: Any) -> Any:
    n, m = image.shape
    out = np.zeros((n - 2, m - 2))
    for i in range(n - 2):
        for j in range(m - 2):
            s = 0.0
            for a in range(3):
                for b in range(3):
                    s += image[i + a, j + b] * kernel[a, b]
            out[i, j] = max(s, 0.0)
    return np.sum(out**2)


def escape(c: Any) -> Any:
    total = 0.0
    for i in range(c.shape[0]):
        x, y, k = 0.0, 0.0, 0
        while x * x + y * y < 4.0 and k < 50:
            x, y = x * x - y * y + c[i, 0], 2 * x * y + c[i, 1]
            k += 1
        total += k + x
    return total


def programs() -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    normal = np.random.default_rng(0).normal
    n = 20_000
    return {
        "shortest paths, 60 nodes": (shortest_paths, [np.abs(normal(size=(60, 60))) + 0.1]),
        "soft time warping, 300 × 300": (time_warping, [normal(size=300), normal(size=300)]),
        "tridiagonal system, 20,000": (
            tridiagonal,
            [normal(size=n), normal(size=n) + 4, 0.3 * normal(size=n), 0.3 * normal(size=n)],
        ),
        "insertion sort, 1,000": (insertion_sort, [normal(size=1000)]),
        "upwind scheme, 2,000 × 50": (upwind, [normal(size=2000)]),
        "300 bodies": (bodies, [normal(size=(300, 3))]),
        "convolution 200 × 200": (convolution, [normal(size=(200, 200)), normal(size=(3, 3))]),
        "escape times, 5,000": (escape, [normal(size=(5000, 2))]),
    }


def first_call(f: Callable[..., Any], args: list[Any]) -> tuple[Any, float]:
    start = time.process_time()
    return f(*args), time.process_time() - start


def main() -> None:
    print(f"{machine()}; one thread; {versions(['numpy', 'llvmlite', 'numba'])}\n")
    columns = ("value: Numba", "Python", "ours", "gradient", "first calls: ours, gradient, Numba")
    print(header("program", *columns))
    for title, (f, args) in programs().items():
        if sys.argv[1:] and not any(word in title for word in sys.argv[1:]):
            continue
        ours, numbas = bs.jit(f), numba.njit(f)
        gradient = bs.jit(bs.grad(f, argnums=tuple(range(len(args)))))
        expected, python = first_call(f, args)
        value, first = first_call(ours, args)
        _, slope = first_call(gradient, args)
        theirs, numbas_first = first_call(numbas, args)
        np.testing.assert_allclose([value, theirs], expected, rtol=1e-9)
        runs = {"ours": ours, "Numba": numbas, "gradient": gradient}
        times = best_times({name: partial(g, *args) for name, g in runs.items()})
        mine = times["ours"]
        cells = (
            f"{times['Numba'] / mine:.2f}×",
            f"{python / mine:.0f}×",
            text(mine),
            f"{text(times['gradient'])} ({times['gradient'] / mine:.1f}×)",
            f"{first:.2f}, {slope:.2f}, {numbas_first:.2f} s",
        )
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
