"""Assertions about traced values: the compiled function raises, with the user's message and line."""

import itertools

import numpy as np
import pytest

import backsolve as bs
from backsolve import errors

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "native"])


def plain(x):
    assert x < 3, "too large"
    return x * x


def nothing_said(x):
    assert x < 3
    return x * x


def in_a_branch(x):
    if x > 1:
        assert x < 3, "too large"
        y = x * x
    else:
        y = x
    return y


def in_a_loop(x):
    s = 0.0
    for i in range(20):
        if i > 3:
            assert s < 50, "too large"
        s = s + x
    return s


def in_a_loop_without_end(x):
    n = 0
    while x != 1:
        assert x < 3, "too large"
        x = x - 1 if x < 3 else x + 1
        n += 1
    return x + n


def helper(t):
    assert t < 3, "too large"
    return t < 10


def in_a_condition(x):
    while helper(x) and x < 2.5:
        x = x * 1.25
    return x


def in_a_recursion(x, n=3):
    assert x < 8, "too large"
    if n <= 0:
        return x
    return in_a_recursion(x * 1.1 + x * x * 0.05, n - 1) + x


def in_a_scan(x):
    def step(s, t):
        assert t < 8, "too large"
        return s + t, s

    return bs.scan(step, 0.0, x * np.arange(4.0))[0]


def in_a_cond(x):
    def large(t):
        assert t < 3, "too large"
        return t

    return bs.cond(x > 1, large, lambda t: t * 2, x)


def under_a_checkpoint(x):
    return bs.checkpoint(plain)(x)


def in_two_places(x):
    assert x > -5, "too small"
    for i in range(12):
        assert x + i < 14.5, "too large"
    return x


CASES = [plain, in_a_branch, in_a_loop, in_a_loop_without_end, in_a_condition, in_a_recursion]
CASES += [in_a_scan, in_a_cond, under_a_checkpoint, in_two_places]


@BACKENDS
@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_a_failing_assertion_raises(f, backend):
    fine, wrong = (2.0, 4.0) if f is in_a_loop_without_end else (2.01, 4.01)
    assert bs.jit(f, backend=backend)(fine) == pytest.approx(f(fine))
    slope = (f(fine + 1e-6) - f(fine - 1e-6)) / 2e-6 if f is not in_a_loop_without_end else 1.0
    for derived in (bs.grad(f), lambda x: bs.jvp(f, (x,), (1.0,))[1]):
        assert bs.jit(derived, backend=backend)(fine) == pytest.approx(slope, rel=1e-6)
    vf = bs.jit(bs.vmap(f), backend=backend)
    assert vf(np.array([fine, fine])) == pytest.approx([f(fine)] * 2)
    calls = [
        lambda: bs.jit(f, backend=backend)(wrong),
        lambda: bs.jit(bs.grad(f), backend=backend)(wrong),
        lambda: bs.grad(bs.jit(f, backend=backend))(wrong),
        lambda: bs.jit(bs.grad(bs.grad(f)), backend=backend)(wrong),
        lambda: vf(np.array([fine, wrong])),
        lambda: bs.vmap(f)(np.array([fine, wrong])),
        lambda: bs.jit(bs.vmap(bs.grad(f)), backend=backend)(np.array([wrong, fine])),
    ]
    for call in calls:
        with pytest.raises(AssertionError, match=r"too large, at .*test_asserts.py:\d+: assert"):
            call()
    with pytest.raises(AssertionError, match="too large"):
        f(wrong)


@BACKENDS
def test_unsafe_takes_assertions_to_hold(backend):
    for f in (plain, in_a_loop):
        assert bs.jit(f, backend=backend, unsafe=True)(4.0) == (16.0 if f is plain else 80.0)
    program = bs.jit(in_a_loop, unsafe=True).lower(4.0).stages["program"]
    assert "check" not in program
    assert "where" not in program
    with pytest.raises(AssertionError):
        bs.jit(plain, backend=backend)(4.0)


def test_what_is_said():
    with pytest.raises(AssertionError, match=r"an assertion fails, at .*assert x < 3"):
        bs.jit(nothing_said)(4.0)

    def formatted(x, name):
        assert x < 3, f"{name} is {x:.3f}"
        return x

    with pytest.raises(AssertionError, match="only the run knows"):
        bs.jit(formatted, static_argnums=1)(4.0, "x")

    def named(x, name):
        assert x < 3, f"{name} is too large"
        return x

    with pytest.raises(AssertionError, match="height is too large"):
        bs.jit(named, static_argnums=1)(4.0, "height")


@BACKENDS
def test_an_assertion_comes_before_the_index_that_it_guards(backend):
    def f(x, i):
        assert 0 <= i < len(x), "no such place"
        return x[i] * 2

    x = np.arange(3.0)
    assert bs.jit(f, backend=backend)(x, 2) == 4.0
    with pytest.raises(AssertionError, match="no such place"):
        bs.jit(f, backend=backend)(x, 7)


@BACKENDS
def test_the_first_of_two_that_fail(backend):
    def f(x):
        s = 0.0
        for i in range(20):
            assert x * i < 30, "late"
            assert x < 4, "early"
            s = s + x
        return s

    for x in (4.0, 2.0):
        with pytest.raises(AssertionError) as expected:
            f(x)
        with pytest.raises(AssertionError, match=str(expected.value).partition("\n")[0]):
            bs.jit(f, backend=backend)(x)


def test_known_assertions_are_pythons_own():
    def f(x, n):
        assert n > 0, "none"
        assert x.shape == (3,), f"{x.shape}"
        return x * n

    assert bs.jit(f, static_argnums=1)(np.ones(3), 2)[0] == 2.0
    with pytest.raises(AssertionError, match=r"^none$"):
        bs.jit(f, static_argnums=1)(np.ones(3), 0)
    with pytest.raises(AssertionError, match=r"^\(4,\)$"):
        bs.jit(f, static_argnums=1)(np.ones(4), 2)


def test_arrays_need_all_or_any():
    def f(x):
        assert (x > 0).all(), "not positive"
        return x.sum()

    assert bs.jit(f)(np.ones(3)) == 3.0
    with pytest.raises(AssertionError, match="not positive"):
        bs.jit(f)(np.array([1.0, -1.0]))

    def g(x):
        assert x > 0
        return x.sum()

    with pytest.raises(errors.ControlFlowError, match="ambiguous"):
        bs.jit(g)(np.ones(3))


def test_loops_around_an_assertion_are_recorded_once_each():
    runs = itertools.count()

    def root(x):
        next(runs)
        assert x > 0, "not positive"
        return np.sqrt(x)

    def one(x):
        return bs.while_loop(lambda y: y < 4, lambda y: root(y) + y, x)

    def two(x):
        return bs.while_loop(lambda y: y < 8, lambda y: one(y) + y, x)

    def three(x):
        return bs.while_loop(lambda y: y < 16, lambda y: two(y) + y, x)

    def four(x):
        return bs.while_loop(lambda y: y < 32, lambda y: three(y) + y, x)

    expected = four(1.0)
    before = next(runs)
    f = bs.jit(four)
    np.testing.assert_allclose(f(1.0), expected)
    assert next(runs) - before < 10  # by twice a level: 48
    with pytest.raises(AssertionError, match="not positive"):
        f(-1.0)
