"""Functions with sparse Jacobians and Hessians, written once for NumPy, JAX and CasADi; derivatives by hand.

Bratu's problem and Broyden's banded function (Moré, Garbow, Hillstrom 1981), the Brusselator on a periodic
square (Hairer, Wanner 1996), and a cart with a pole swung up, transcribed by the trapezoidal rule (Kelly 2017).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Problem:
    title: str
    f: Callable[[Any], Callable[[Any], Any]]  # of the library's numpy
    at: Any
    goal: tuple[float, float]  # seconds to set up and to evaluate
    hessian: bool = False
    by_hand: Callable[[Any], Callable[[Any], Any]] | None = None  # planned at x, then evaluated


# ---- functions


def bratu(m: Any) -> Callable[[Any], Any]:
    def f(u: Any) -> Any:
        h = 1 / (u.shape[0] + 1)
        v = m.concatenate([m.zeros(1), u, m.zeros(1)])
        return (v[:-2] - 2 * v[1:-1] + v[2:]) / h**2 + m.exp(u)

    return f


def bratu_by_hand(x: Any) -> Callable[[Any], Any]:
    n = x.size
    h = 1 / (n + 1)
    J = sp.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1]).tocsr()
    J.data[:] = 1 / h**2
    diagonal = np.flatnonzero(J.indices == np.repeat(np.arange(n), np.diff(J.indptr)))

    def run(u: Any) -> Any:
        data = J.data.copy()
        data[diagonal] = np.exp(u) - 2 / h**2
        return sp.csr_array((data, J.indices, J.indptr), shape=J.shape)

    return run


def brusselator(m: Any) -> Callable[[Any], Any]:
    def f(y: Any) -> Any:
        u, v = y[0], y[1]
        k = 0.1 * u.shape[0] ** 2

        def diffusion(a: Any) -> Any:
            return k * (
                m.roll(a, 1, 0) + m.roll(a, -1, 0) + m.roll(a, 1, 1) + m.roll(a, -1, 1) - 4 * a
            )

        reaction = u * u * v
        return m.stack([1 + reaction - 4.4 * u + diffusion(u), 3.4 * u - reaction + diffusion(v)])

    return f


def brusselator_by_hand(y: Any) -> Callable[[Any], Any]:
    n = y.shape[1]
    k, size = 0.1 * n**2, n * n
    ring = sp.csr_array(np.roll(np.eye(n), 1, 0) + np.roll(np.eye(n), -1, 0))
    one = sp.eye_array(n)
    diffusion = k * (sp.kron(ring, one) + sp.kron(one, ring))
    grid = sp.eye_array(size)
    J = sp.block_array([[diffusion + grid, grid], [grid, diffusion + grid]]).tocsr()
    J.sort_indices()
    rows = np.repeat(np.arange(2 * size), np.diff(J.indptr))
    top, left = rows < size, J.indices < size
    at = np.flatnonzero(J.indices % size == rows % size)
    of = [at[(top == t)[at] & (left == c)[at]] for t in (True, False) for c in (True, False)]

    def run(y: Any) -> Any:
        u, v = y[0].ravel(), y[1].ravel()
        square, mixed = u * u, 2 * u * v
        data = J.data.copy()
        data[of[0]] = mixed - (4.4 + 4 * k)
        data[of[1]] = square
        data[of[2]] = 3.4 - mixed
        data[of[3]] = -4 * k - square
        return sp.csr_array((data, J.indices, J.indptr), shape=J.shape)

    return run


def broyden(m: Any) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        n = x.shape[0]
        p = m.concatenate([m.zeros(5), x * (1 + x), m.zeros(1)])
        return x * (2 + 5 * x * x) + 1 - sum(p[k : k + n] for k in range(7) if k != 5)

    return f


def broyden_by_hand(x: Any) -> Callable[[Any], Any]:
    n = x.size
    J = sp.diags_array([np.ones(n - abs(k)) for k in range(-5, 2)], offsets=range(-5, 2)).tocsr()
    rows = np.repeat(np.arange(n), np.diff(J.indptr))
    diagonal = np.flatnonzero(J.indices == rows)

    def run(x: Any) -> Any:
        data = (-1 - 2 * x)[J.indices]
        data[diagonal] = 2 + 15 * x * x
        return sp.csr_array((data, J.indices, J.indptr), shape=J.shape)

    return run


def cart_pole(m: Any) -> Callable[[Any], Any]:
    """Defects of the trapezoidal rule between the points of a swing-up, and its ends."""

    def f(z: Any) -> Any:
        y = z.reshape(5, -1)
        q, a, v, w, force = y[0], y[1], y[2], y[3], y[4]
        mass, pole, length, g, h = 1.0, 0.3, 0.5, 9.81, 2.0 / (q.shape[0] - 1)
        s, c = m.sin(a), m.cos(a)
        below = mass + pole * s * s
        dv = (length * pole * s * w * w + force + pole * g * c * s) / below
        dw = -(length * pole * c * s * w * w + force * c + (mass + pole) * g * s) / (length * below)

        def defect(x: Any, dx: Any) -> Any:
            return x[1:] - x[:-1] - (h / 2) * (dx[1:] + dx[:-1])

        ends = [q[:1], a[:1], v[:1], w[:1], q[-1:] - 1, a[-1:] - np.pi, v[-1:], w[-1:]]
        return m.concatenate([defect(q, v), defect(a, w), defect(v, dv), defect(w, dw), *ends])

    return f


def cart_pole_lagrangian(m: Any) -> Callable[[Any], Any]:
    defects = cart_pole(m)

    def f(z: Any) -> Any:
        c = defects(z)
        multipliers = m.array(np.cos(np.arange(c.shape[0])))
        return m.sum(z.reshape(5, -1)[4] ** 2) + m.sum(multipliers * c)

    return f


def _points(*shape: int) -> Any:
    return np.random.default_rng(0).uniform(0.2, 1, shape)


PROBLEMS = [
    Problem("Bratu, n = 1e3", bratu, _points(1000), (30e-3, 15e-6), by_hand=bratu_by_hand),
    Problem("Bratu, n = 1e6", bratu, _points(1_000_000), (0.4, 13e-3), by_hand=bratu_by_hand),
    Problem(
        "Brusselator 64²",
        brusselator,
        _points(2, 64, 64),
        (50e-3, 0.1e-3),
        by_hand=brusselator_by_hand,
    ),
    Problem(
        "Brusselator 256²",
        brusselator,
        _points(2, 256, 256),
        (0.1, 1e-3),
        by_hand=brusselator_by_hand,
    ),
    Problem("cart-pole, N = 1000", cart_pole, _points(5 * 1001), (50e-3, 0.1e-3)),
    Problem(
        "its Lagrangian's Hessian", cart_pole_lagrangian, _points(5 * 1001), (50e-3, 0.1e-3), True
    ),
    Problem(
        "Broyden banded, n = 1e5", broyden, _points(100_000), (0.1, 3e-3), by_hand=broyden_by_hand
    ),
]
