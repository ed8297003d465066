"""Branches in rounds that do not need each other: done on whole arrays, as Python does them one by one."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs

X = np.random.default_rng(0).normal(size=100)


def both_sides_write(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] > 0:
            y[i] = x[i] ** 2
        else:
            y[i] = -x[i]
    return np.sum(y * np.arange(len(x)))


def stencil(u):
    new = u.copy()
    for i in range(1, len(u) - 1):
        if u[i] > 0:
            new[i] = u[i] - 0.1 * u[i] * (u[i] - u[i - 1])
        else:
            new[i] = u[i] - 0.1 * u[i] * (u[i + 1] - u[i])
    return np.sum(new**2)


def edges(x):
    """An index that is outside where its side is not taken."""
    y = np.zeros(len(x))
    for i in range(len(x)):
        if i > 0 and x[i] > 0:
            y[i] = x[i - 1] * 3
        else:
            y[i] = x[len(x) - 1 - i] * x[i]
    return np.sum(y**3)


def other_places(x):
    y = np.zeros((len(x), 2))
    for i in range(len(x)):
        if x[i] > 0.3:
            y[i, 0] = np.exp(-x[i])
        elif x[i] > -0.3:
            y[i, 1] = x[i] ** 2
        else:
            y[i, 1] = np.sin(x[i])
    return np.sum(y**2)


def sums(x):
    low, high = 0.0, 0.0
    for v in x:
        if v > 0:
            high += np.exp(-v)
        else:
            low -= np.exp(v) * v
    return low * high


def nested(x):
    total = 0.0
    for i in range(len(x)):
        if x[i] > 0:  # noqa: SIM108
            t = np.exp(-x[i]) if x[i] > 1 else 2 * x[i]
        else:
            t = np.sin(x[i])
        total += t
    return total


def recurrence(x):
    s = 0.0
    for v in x:
        if v > s:  # noqa: SIM108
            s = s + np.exp(-v)
        else:
            s = 0.5 * s + np.exp(v)
    return s


def one_side_writes(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] > 0:
            y[i] = np.exp(-x[i]) * x[i]
    return np.sum(y**2)


def clipped(x):
    x = x.copy()
    for i in range(len(x)):
        if x[i] < 0:
            x[i] = 0.1 * x[i]
    return np.sum(x * np.arange(len(x)))


def one_side_adds(x):
    h = np.ones(20)
    for i in range(len(x)):
        if x[i] > 0.2:
            h[i % 20] += np.exp(x[i])
    return np.sum(h**2)


def one_side_sums(x):
    s = 1.0
    for v in x:
        if v > 0:
            s += np.sqrt(v) / (1 + v)
    return s * s


def rare_and_long(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] > 2:
            y[i] = np.sin(x[i]) * np.exp(x[i])
    return np.sum(y)


ONE_SIDE = [one_side_writes, clipped, one_side_adds, one_side_sums]
CASES = [
    *(both_sides_write, stencil, edges, other_places, sums, nested, recurrence),
    *(*ONE_SIDE, rare_and_long),
]


@pytest.mark.parametrize("f", CASES)
def test_values_and_derivatives(f):
    compiled = bs.jit(f)
    assert compiled(X) == pytest.approx(f(X), rel=1e-12)
    bs.testing.check_grads(compiled, [X], order=1)
    np.testing.assert_allclose(bs.jit(bs.grad(f))(X), bs.grad(f)(X), rtol=1e-10, atol=1e-13)
    v = np.ones_like(X)
    hvp = bs.jit(lambda x: bs.hvp(f)(x, v))(X)
    np.testing.assert_allclose(hvp, bs.hvp(f)(X, v), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "f", [both_sides_write, stencil, nested, one_side_writes, one_side_adds, clipped]
)
def test_no_loop_is_left(f):
    for g in (bs.jit(f), bs.jit(bs.grad(f))):
        assert "loop in" not in g.lower(X).stages["steps"]


def smallest(x):
    least, count = 9.0, 0
    for v in x:
        if v * v < least:
            least = v * v
        if v > 0:
            count += 1
    return least * count


@pytest.mark.parametrize("f", [one_side_sums, smallest])
def test_no_loop_is_left_of_a_sum(f):
    assert bs.jit(f)(X) == pytest.approx(f(X), rel=1e-12)
    assert "loop in" not in bs.jit(f).lower(X).stages["steps"]


@pytest.mark.parametrize("f", [recurrence, rare_and_long])
def test_what_stays_a_loop(f):
    """Rounds that need each other; and a long side that may seldom be taken."""
    assert "loop in" in bs.jit(f).lower(X).stages["steps"]


def test_an_index_outside_on_the_only_side():
    def f(x, at):
        h = np.zeros(5)
        for i in range(len(x)):
            if x[i] > 0:
                h[at[i]] += x[i]
        return h

    outside = np.where(X > 0, 3, 1000)
    compiled = bs.jit(f)
    assert "loop in" not in compiled.lower(X, outside).stages["steps"]
    np.testing.assert_allclose(compiled(X, outside), f(X, outside), rtol=1e-13)
    with pytest.raises(IndexError, match="size 5"):
        compiled(X, np.full(100, 5))


def test_a_division_on_a_side_that_is_not_taken():
    def f(x, n):
        y = np.zeros(len(x))
        for i in range(len(x)):
            if n[i] > 0:
                y[i] = x[i] * (12 // n[i])
            else:
                y[i] = np.exp(x[i])
        return y

    n = np.arange(100) % 5
    np.testing.assert_allclose(bs.jit(f)(X, n), f(X, n), rtol=1e-13)


def test_an_index_on_the_side_that_is_taken_is_checked():
    def f(x, at):
        y = np.zeros(len(x))
        for i in range(len(x)):
            if x[i] > 0:
                y[i] = x[at[i]]
            else:
                y[i] = 2 * x[i]
        return y

    outside = np.where(X > 0, 3, 1000)
    np.testing.assert_array_equal(bs.jit(f)(X, outside), f(X, outside))
    with pytest.raises(IndexError):
        bs.jit(f)(X, np.full(100, 1000))
