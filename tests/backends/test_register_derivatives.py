"""Derivatives of loops over arrays: every part of an adjoint is added where it belongs, in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs


def steps(f: Any, *args: Any) -> list[str]:
    text: str = f.lower(*args).stages["steps"]
    return text.split("\n")


def check(f: Any, x: Any) -> None:
    """The compiled gradient, against differences; its loops have no step over whole arrays."""
    g = bs.jit(bs.grad(f))
    found = g(x)
    assert not any(line.startswith("     ") for line in steps(g, x)), "\n".join(steps(g, x))
    rng = np.random.default_rng(0)
    d = rng.normal(size=x.shape)
    value, h = bs.jit(f), 1e-6
    slope = (value(x + h * d) - value(x - h * d)) / (2 * h)
    assert np.sum(found * d) == pytest.approx(float(slope), rel=1e-5, abs=1e-7)


def test_elimination() -> None:
    def determinant(A: Any) -> Any:
        n = A.shape[0]
        B, d = A * 1.0, 1.0
        for k in range(n):
            d = d * B[k, k]
            for i in range(k + 1, n):
                f = B[i, k] / B[k, k]
                for j in range(k, n):
                    B[i, j] = B[i, j] - f * B[k, j]
        return d

    A = np.random.default_rng(1).normal(size=(9, 9)) + 3 * np.eye(9)
    check(determinant, A)
    found = bs.jit(bs.grad(determinant))(A)
    np.testing.assert_allclose(found, np.linalg.det(A) * np.linalg.inv(A).T, rtol=1e-9)


def test_reads_in_branches_of_inner_loops() -> None:
    def f(A: Any) -> Any:
        s = 0.0
        for i in range(20):
            for j in range(20):
                if A[i, j] > 0.1:  # noqa: SIM108 - a branch is what this is about
                    s = s * 0.99 + A[i, j] * A[j, i]
                else:
                    s = s - A[i, 0] * A[j, j] ** 2
        return s

    check(f, np.random.default_rng(2).normal(size=(20, 20)))


def test_an_array_read_where_it_was_written() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        for i in range(1, 50):
            y[i] = y[i - 1] * np.sin(y[i]) + y[49 - i]
            if y[i] > 0.5:
                y[i - 1] = y[i] * x[i]
        total = 0.0
        for i in range(50):
            total = total * 0.9 + y[i] * y[i]
        return total

    check(f, np.random.default_rng(3).normal(size=50))


def test_a_walk_of_unknown_length() -> None:
    def f(x: Any) -> Any:
        i, s = 0, 0.0
        while i < 40:
            s = s + x[i] * x[(i * 7) % 40]
            if x[i] > 0.0:  # noqa: SIM108 - a branch is what this is about
                i = i + 2
            else:
                i = i + 1
        return s

    check(f, np.random.default_rng(4).normal(size=40))
