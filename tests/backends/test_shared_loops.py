"""Loops that stay loops, their rounds shared among threads: which ones, and that nobody sees it."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import sweep

n = 500
X = np.random.default_rng(0).normal(size=n)


@pytest.fixture(autouse=True)
def _short_ones_too(monkeypatch):
    monkeypatch.setattr(sweep, "LONG", 1e-7)
    before = bs.get_threads()
    yield
    bs.set_threads(before)


def root(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        t = 1.0
        while abs(t * t - abs(x[i])) > 1e-10:
            t = 0.5 * (t + abs(x[i]) / t)
        y[i] = t
    return y


def one_side(x):
    y = np.ones(len(x))
    for i in range(len(x)):
        if x[i] > 1:
            y[i] = np.sin(x[i]) * np.exp(x[i]) + y[i]
    return y


def in_place(x):
    x = x.copy()
    for i in range(2, len(x)):
        if x[i] > 0.5:
            x[i] = np.sin(x[i]) * np.exp(x[i])
            x[i] += np.cos(x[i])
    return x


def backwards(x):
    y = x * 2
    for i in range(len(x)):
        if x[i] > 0:
            y[len(x) - 1 - i] -= np.sin(x[i]) * np.tanh(x[i])
    return y


def rows(x):
    y = np.zeros((len(x), 30))
    for i in range(len(x)):
        t = x[i]
        for j in range(30):
            t = np.sin(t) + 0.3 if t > 0 else np.exp(t) * np.cos(t)
            y[i, j] = t
    return y


def through_others(x):
    """Entries of a fixed array may be read anywhere."""
    y = np.zeros(len(x))
    for i in range(len(x)):
        k = i
        while x[k] > 0 and k > 0:
            k -= 1
        y[i] = x[k] * k
    return y


def totals(x):
    """Rounds that hand on nothing but sums and extremes leave these to a later pass."""
    total, most, least = 0.0, -np.inf, 5.0
    for i in range(len(x)):
        t = 1.0
        while abs(t * t - abs(x[i])) > 1e-10:
            t = 0.5 * (t + abs(x[i]) / t)
        total += t
        most = max(most, t * x[i])
        if t < least:
            least = t
    return np.array([total, most, least])


FREE = [root, one_side, in_place, backwards, rows, through_others]


def recurrence(x):
    y = np.zeros(len(x))
    y[0] = x[0]
    for i in range(1, len(x)):
        if x[i] > 0:
            y[i] = np.sin(y[i - 1]) * np.exp(x[i])
    return y


def neighbours(x):
    """What the next round reads, this one writes."""
    x = x.copy()
    for i in range(len(x) - 1):
        if x[i] > 0:
            x[i + 1] = np.sin(x[i]) * np.exp(-x[i])
    return x


def anywhere(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        k = i
        while x[k] > 0 and k > 0:
            k -= 1
        if x[i] > -1:
            y[k] = np.sin(x[i]) * np.exp(x[i])
    return y


def counted(x):
    s = 0
    y = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] > 0:
            s = s + 1
            y[i] = np.sin(x[i]) * np.exp(s / 100)
    return y


BOUND = [recurrence, neighbours, anywhere, counted]


def loops(f, x):
    steps = bs.jit(f).lower(x).stages["steps"]
    return [line for line in steps.split("\n") if "loop in registers" in line]


def same_on_any_number(f, x):
    expected, compiled = f(x), bs.jit(f)
    for number in (1, 2, 4):
        bs.set_threads(number)
        found = compiled(x)
        if number == 1:
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
            one = found
        np.testing.assert_array_equal(found, one)


@pytest.mark.parametrize("f", FREE)
def test_rounds_that_are_free_of_each_other_are_shared(f):
    (line,) = loops(f, X)
    assert "shared among threads" in line
    same_on_any_number(f, X)


def test_sums_and_extremes():
    (line,) = loops(totals, X)
    assert "shared among threads" in line
    expected, compiled = totals(X), bs.jit(totals)
    for number in (1, 2, 4):  # partial sums depend on the number of threads
        bs.set_threads(number)
        np.testing.assert_allclose(compiled(X), expected, rtol=1e-12)
        np.testing.assert_array_equal(compiled(X), compiled(X))
    gradient = bs.grad(lambda x: np.sum(totals(x)))
    np.testing.assert_allclose(bs.jit(gradient)(X), gradient(X), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("f", BOUND)
def test_rounds_that_need_each_other_are_not(f):
    assert loops(f, X)
    assert not any("shared" in line for line in loops(f, X))
    same_on_any_number(f, X)


@pytest.mark.parametrize("f", FREE)
def test_gradients(f):
    g = bs.grad(lambda x: np.sum(f(x) ** 2))
    same_on_any_number(g, X)


def test_short_loops_are_left_alone(monkeypatch):
    monkeypatch.setattr(sweep, "LONG", 200e-6)
    assert not any("shared" in line for line in loops(one_side, X))


@pytest.mark.parametrize("places", [(0,), (n - 1,), (3, n // 2), (n // 2, n - 1)])
def test_the_first_round_that_fails_tells(places):
    """On any number of threads, with the user's line."""

    def f(x, at, other):
        y = np.zeros(len(x))
        for i in range(len(x)):
            t = x[i]
            while t > 0.1:
                t = 0.5 * t
            if i % 2 == 0:
                y[i] = t * x[at[i]]
            else:
                y[i] = t * np.sin(other[at[i]]) * np.exp(t)
        return y

    at, short = np.arange(n) % 7, np.ones(100)
    compiled = bs.jit(f)
    assert "shared" in compiled.lower(X, at, short).stages["steps"]
    wrong = at.copy()
    wrong[list(places)] = 1000
    size = n if places[0] % 2 == 0 else 100
    for number in (1, 2, 4):
        bs.set_threads(number)
        np.testing.assert_allclose(compiled(X, at, short), f(X, at, short), rtol=1e-12)
        with pytest.raises(
            IndexError, match=rf"size {size}.*test_shared_loops\.py:\d+: y\[i\] = t"
        ):
            compiled(X, wrong, short)
