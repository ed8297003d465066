"""Loops, branches and calls on arrays as users write them: compiled against eager, with gradients."""

import tracemalloc

import numpy as np
import pytest

import backsolve as bs
import backsolve.numpy as bnp
from backsolve.control import call

rng = np.random.default_rng(0)


# ---- Python's integers


def test_counters_that_are_pythons_own():
    x = rng.normal(size=100)
    f = bs.jit(lambda x: bs.fori_loop(0, 9, lambda i, s: (s[0] * x + i, s[1] + 2 * i), (x, 3))[0])
    eager = bs.fori_loop(0, 9, lambda i, s: (s[0] * x + i, s[1] + 2 * i), (x, 3))[0]
    np.testing.assert_allclose(f(x), eager, rtol=1e-13)
    assert f.stats()["specialisations"][0]["native"]


def test_a_counter_that_outgrows_64_bits():
    f = bs.jit(lambda x: bs.fori_loop(0, 99, lambda i, s: (s[0] + s[1], 3 * s[1]), (x, 1))[0])
    with pytest.raises(OverflowError, match="64 bits"):
        f(np.zeros(1000))


# ---- gradients


def check_grad(f, *args, tolerance=1e-11):
    """Compiled against eager, in which loops are Python's own."""
    for g in (f, bs.grad(f, argnums=tuple(range(len(args))))):
        compiled = bs.jit(g)
        for _ in range(2):
            got, expected = compiled(*args), g(*args)
            pairs = [(got, expected)] if g is f else zip(got, expected, strict=True)
            for x, y in pairs:
                np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
        (made,) = compiled.stats()["specialisations"]
        assert made["native"], made["reason"]


A30, X30 = rng.normal(size=(30, 30)) / 8, rng.normal(size=30)


def until_small(A, s):
    small = lambda t: bnp.abs(t).sum() > 0.8 * bnp.abs(s).sum()
    return bs.while_loop(small, lambda t: bnp.sin(A @ t) * 0.9, s)


def test_gradient_of_a_while_loop():
    def f(A, x):
        y = bs.while_loop(lambda s: (s * s).sum() > 1e-3, lambda s: bnp.tanh(A @ s) * 0.9, x)
        return (y * y).sum()

    check_grad(f, A30, X30)


def test_gradient_of_a_while_loop_in_a_while_loop():
    def f(A, x):
        y = bs.while_loop(lambda s: (s * s).sum() > 1e-2, lambda s: until_small(A, s), x)
        return (y * y).sum()

    check_grad(f, A30, X30)


def test_gradient_of_a_while_loop_in_a_counted_loop():
    def f(A, x):
        return (bs.fori_loop(0, 5, lambda i, s: until_small(A, s) + 0.1, x) ** 2).sum()

    check_grad(f, A30, X30)


def test_gradient_of_loops_in_branches():
    def f(A, x):
        often = lambda s: bs.fori_loop(0, 3, lambda i, t: bnp.cos(A @ t + i), s)
        body = lambda i, s: bs.cond(s[0] > 0, lambda s: until_small(A, s), often, s)
        return (bs.fori_loop(0, 7, body, x) ** 2).sum()

    check_grad(f, A30, X30)


def test_stacks_of_a_round_are_given_back():
    """A gradient inside of a long loop: what it stores is needed for one round only."""

    def f(A, x):
        loss = lambda x: (until_small(A, x) ** 2).sum()
        return bs.fori_loop(0, 2000, lambda i, x: x - 0.01 * bs.grad(loss)(x), x)

    compiled = bs.jit(f)
    np.testing.assert_allclose(compiled(A30, X30), f(A30, X30), rtol=1e-9)
    tracemalloc.start()
    compiled(A30, X30)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 100_000  # and not 2,000 times what a round stores


# ---- calls


def applied(A, n, x):
    again = lambda: bnp.sin(A @ call(applied, A, n - 1, x))
    return bs.cond(n <= 0, lambda: x, again)


def halved(n, x):
    both = lambda: call(halved, n - 1, x * 0.5) + bnp.sin(call(halved, n - 1, bnp.cos(x)))
    return bs.cond(n <= 0, lambda: x * x, both)


def test_recursion():
    check_grad(lambda A, x: (call(applied, A, x[0] * 0 + 6, x) ** 2).sum(), A30, X30)


def test_recursion_in_two_places():
    check_grad(lambda A, x: call(halved, x[0] * 0 + 4, A @ x).sum(), A30, X30)


def test_recursion_without_end():
    f = bs.jit(lambda x: call(halved, x[0] * 0 + 1e9, x).sum())
    for _ in range(2):
        with pytest.raises(RecursionError, match="`halved` calls itself"):
            f(X30)


def test_loops_in_recursion():
    def f(n, A, x):
        inner = lambda: call(f, n - 1, A, until_small(A, x)) + until_small(A, bnp.cos(x))
        return bs.cond(n <= 0, lambda: x, inner)

    check_grad(lambda A, x: (call(f, x[0] * 0 + 3, A, x) ** 2).sum(), A30, X30)
