"""Rounds that call something and hand on sums and signs alone: all at once (backends/xla/rounds.py)."""

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.xla import callees

pytest.importorskip("jax")

X = np.linspace(0.1, 2.0, 10)


def determinant(A):
    if len(A) == 1:
        return A[0, 0]
    total, sign = 0.0, 1.0
    for j in range(len(A)):
        total = total + sign * A[0, j] * determinant(np.delete(A[1:], j, axis=1))
        sign = -sign
    return total


def half(x):
    """Calls itself."""
    if len(x) == 1:
        return np.sin(x[0])
    return half(x[: len(x) // 2]) * half(x[len(x) // 2 :]) + x[0]


def has_loops(f, *args):
    return "stablehlo.while" in bs.jit(f, backend="xla").lower(*args).stages["stablehlo"]


def check(f, *args):
    for y, e in zip(bs.jit(f, backend="xla")(*args), bs.jit(f)(*args), strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-10, atol=1e-10)


def test_a_determinant_by_minors_has_no_loop_however_many_may_be_held(monkeypatch):
    A = np.cos(np.arange(36.0)).reshape(6, 6) + np.eye(6)
    both = bs.value_and_grad(determinant)
    value, slope = bs.jit(both, backend="xla")(A)
    np.testing.assert_allclose(value, np.linalg.det(A), rtol=1e-12)
    np.testing.assert_allclose(slope, np.linalg.det(A) * np.linalg.inv(A).T, rtol=1e-10)
    assert not has_loops(both, A)
    monkeypatch.setattr(callees, "_MOST_HELD", 64)
    assert has_loops(both, A)
    np.testing.assert_allclose(bs.jit(both, backend="xla")(A)[1], slope, rtol=1e-10)


def of_sums(x):
    """Signs, and sums of several terms: numbers, arrays and integers."""
    total, away, sign, count = 3.0, x * 2.0, -x[0], 7
    for j in range(11):
        y = half(x[:4] * (j + 1.0) + sign)
        away = away - x * y - sign
        total = y * sign + total - y * x[1]
        count = count + 2
        sign = -sign
    return total * np.sum(away * x) * count + sign


def test_sums_and_signs():
    def f(x):
        slope = bs.grad(of_sums)
        return of_sums(x), slope(x), bs.jvp(slope, (x,), (np.cos(x),))[1]

    assert not has_loops(of_sums, X)
    check(f, X)


def of_what_it_has(x):
    total = x[0]
    for j in range(11):
        total = total + half(x[:4] * total) / (j + 2.0)
    return total


def of_twice_what_it_has(x):
    total = x[0]
    for j in range(11):
        y = half(x[:4] + j)
        total = total + total + y
    return total / 1000


def keeps_each_sum(x):
    total, kept = x[0], np.zeros(11)
    for j in range(11):
        total = total + half(x[:4] + j)
        kept[j] = total
    return np.sum(kept**2)


def subtracts_from_something(x):
    total = x[0]
    for j in range(11):
        total = half(x[:4] + j) - total
    return total


@pytest.mark.parametrize(
    "f", [of_what_it_has, of_twice_what_it_has, keeps_each_sum, subtracts_from_something]
)
def test_what_waits_for_the_round_before(f):
    assert has_loops(f, X)
    check(lambda x: (f(x), bs.grad(f)(x)), X)


def reads(x, z, i, j):
    """Fails where k + i or k + j is too large."""
    total = 0.0
    for k in range(11):
        total = total + half(x[:4]) * x[k + i] * z[k + j]
    return total


def test_the_first_round_that_fails_counts():
    f = bs.jit(reads, backend="xla")
    x, z, at = np.linspace(0.0, 1.0, 12), np.linspace(1.0, 2.0, 13), lambda i: np.int64(i)
    assert not has_loops(reads, x, z, at(0), at(0))
    np.testing.assert_allclose(f(x, z, at(1), at(2)), bs.jit(reads)(x, z, at(1), at(2)))
    with pytest.raises(IndexError, match="size 12"):
        f(x, z, at(3), at(2))
    with pytest.raises(IndexError, match="size 13"):
        f(x, z, at(2), at(6))
    with pytest.raises(IndexError, match="size 12"):
        f(x, z, at(6), at(3))
