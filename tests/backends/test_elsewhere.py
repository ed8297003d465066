"""Rows without native code inside of compiled programs."""

from __future__ import annotations

import threading
from functools import cache

import numpy as np
import pytest

import backsolve as bs
from backsolve.operators import Diagonal
from backsolve.primitive import primitive

RNG = np.random.default_rng(0)
WAVES = RNG.normal(size=(3, 4))
REST = RNG.normal(size=(3, 4))


@cache
def squares():
    """A row of the user; made by the first test, for rows that exist before are tested as rows."""
    return primitive(
        "squares_of_the_user", lambda a: np.square(a), blocks=(lambda a: Diagonal(2 * a),)
    )


def squared(a, b):
    return np.sin(squares()(a * 2)).sum() + np.cos(b).sum()


def expected_of(a, b):
    return np.sin(4 * a * a).sum() + np.cos(b).sum()


def test_the_rest_of_the_program_is_compiled():
    f = bs.jit(squared)
    np.testing.assert_allclose(f(WAVES, REST), expected_of(WAVES, REST), rtol=1e-12)
    (made,) = f.stats()["specialisations"]
    assert made["native"]
    assert made["elsewhere"] == 1
    assert made["kernels"] >= 1
    assert "squares_of_the_user by NumPy" in str(f.lower(WAVES, REST))


def test_gradients_and_loops():
    def f(a, b):
        total = 0.0
        for k in range(3):
            total = total + (squares()(a[k] + k) * b[k]).sum() ** 2
        return total

    expected = bs.grad(f, argnums=(0, 1))(WAVES, REST)
    for got in (bs.jit(bs.grad(f, argnums=(0, 1))), bs.grad(bs.jit(f), argnums=(0, 1))):
        for x, y in zip(got(WAVES, REST), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10)


def test_its_exception_is_raised():
    def checked(a):
        if a.min() < 0:
            raise ArithmeticError("below zero")
        return a + 1

    row = primitive("checked_by_the_user", checked)
    f = bs.jit(lambda x: 2 * row(x))
    np.testing.assert_array_equal(f(np.ones(3)), [4.0, 4.0, 4.0])
    with pytest.raises(ArithmeticError, match="below zero"):
        f(-np.ones(3))
    np.testing.assert_array_equal(f(np.ones(3)), [4.0, 4.0, 4.0])


def test_a_row_of_the_user():
    cube = primitive("cube_of_the_user", lambda a: a**3, blocks=(lambda a: Diagonal(3 * a**2),))
    f = bs.jit(bs.grad(lambda x: np.sum(np.exp(cube(x)))))
    x = np.linspace(0.0, 1.0, 5)
    np.testing.assert_allclose(f(x), 3 * x**2 * np.exp(x**3), rtol=1e-12)
    assert f.stats()["specialisations"][0]["elsewhere"]


def test_many_threads_at_once():
    f, wrong = bs.jit(squared), []

    def work(k):
        a = WAVES * k
        expected = expected_of(a, REST)
        for _ in range(50):
            if not np.isclose(f(a, REST), expected):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
