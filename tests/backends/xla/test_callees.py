"""What calls itself for smaller arguments: each level is translated once, however often it is called."""

import re

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.xla import callees

pytest.importorskip("jax")

X = np.linspace(0.1, 2.0, 16)


def fourier(x):
    n = len(x)
    if n == 1:
        return x
    even, odd = fourier(x[::2]), fourier(x[1::2])
    turned = np.exp(-2j * np.pi * np.arange(n // 2) / n) * odd
    return np.concatenate([even + turned, even - turned])


def power(x):
    return np.sum(np.abs(fourier(x.astype(complex))) ** 4)


def inward(x):
    """Calls that wait for each other."""
    if len(x) == 1:
        return np.sin(x)
    return np.concatenate([inward(np.cos(inward(x[1:]))), x[:1] * 2])


def value_and_gradient(f):
    return lambda *args: (f(*args), bs.grad(f)(*args))


def text_of(f, *args):
    return bs.jit(f, backend="xla").lower(*args).stages["stablehlo"]


def functions(text):
    return len(re.findall(r"func\.func private @(fourier|inward)", text))


def check(f, *args):
    expected = bs.jit(f)(*args)
    for y, e in zip(bs.jit(f, backend="xla")(*args), expected, strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-10, atol=1e-10)


def test_calls_that_do_not_wait_for_each_other_are_one():
    text = text_of(power, X)
    assert functions(text) == 4  # of 8, 4, 2 and 1 numbers
    assert text.count("call @fourier") == 4
    bound = text.count("\n")
    longer = text_of(power, np.linspace(0.1, 2.0, 64)).count("\n")
    assert (
        longer < 2 * bound
    )  # a function more for each level, where there are four times as many calls
    check(value_and_gradient(power), X)
    np.testing.assert_allclose(
        bs.jit(fourier, backend="xla")(X + 0j), np.fft.fft(X), rtol=1e-12, atol=1e-12
    )


def test_calls_that_wait_for_each_other_share_their_code():
    text = text_of(inward, X[:6])
    assert functions(text) == 5
    assert text.count("call @inward") == 10  # not 2 + 4 + 8 + 16 + 32
    check(value_and_gradient(lambda x: np.sum(inward(x) ** 2)), X[:6])


def test_large_calls_are_made_one_after_the_other(monkeypatch):
    monkeypatch.setattr(callees, "_MOST_HELD", 64)
    text = text_of(power, X)
    assert functions(text) == 4
    assert text.count("call @fourier") > 4
    check(value_and_gradient(power), X)


def picked(x, i):
    if len(x) == 2:
        return x[i]
    return picked(x[: len(x) // 2], i) * 3 + picked(x[len(x) // 2 :], i)


def test_the_failure_that_comes_first_in_the_program_counts():
    def f(x, i, n):
        y = picked(x, i)
        assert n > 0, "n is not positive"
        return y + np.sum(x) / n

    one, zero = np.float64(1), np.float64(0)
    compiled = bs.jit(f, backend="xla")
    at = lambda i: np.int64(i)
    np.testing.assert_allclose(compiled(X, at(1), one), bs.jit(f)(X, at(1), one))
    with pytest.raises(IndexError):
        compiled(X, at(2), one)
    with pytest.raises(AssertionError, match="n is not positive"):
        compiled(X, at(1), zero)
    with pytest.raises(IndexError):
        compiled(X, at(2), zero)


def test_rows_on_the_host_in_calls_that_are_one(judged):
    def halves(x):
        if len(x) == 1:
            return judged(x)
        return halves(x[: len(x) // 2]) - halves(x[len(x) // 2 :])

    compiled = bs.jit(halves, backend="xla")
    np.testing.assert_allclose(compiled(X[:8]), bs.jit(halves, backend="numpy")(X[:8]))
    with pytest.raises(KeyError, match="a refusal of its own"):
        compiled(X[:8] + 2)
