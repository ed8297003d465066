"""Ways out of a function under traced conditions: right wherever all of them give values of one structure."""

import contextlib

import numpy as np
import pytest

import backsolve as bs
from backsolve import errors

CASES = []


def case(f):
    CASES.append(f)
    return f


@case
def of_a_tuple(x):
    if x > 0:
        return x, x * 2
    y = x + 1
    return y, y * y


@case
def of_a_dict_from_a_loop(x):
    y = 0.0
    while x < 10:
        x = x + 1
        if x > 5:
            return {"a": x, "b": (y, x)}
        y += x
    return {"a": y, "b": (x, x)}


@case
def from_two_loops(x):
    for i in range(20):
        for j in range(20):
            if x * j > 30 + i:
                return x * i + j
            if i * j > 50:
                break
        else:
            x = x + 0.1
        x = x + 0.5
    return x - 1


def first_larger(x, k):
    for i in range(12):
        if x > k:
            return x * i
        x = x + 0.7
    return -x


@case
def from_a_called_function(x):
    s = 0.0
    for k in range(15):
        t = first_larger(x, k)
        if t > 30:
            return s
        s = s + t
    return s + 1


@case
def of_nothing(x):
    def double():
        nonlocal x
        if x > 0:
            return
        x = x * 2

    double()
    return x


@case
def of_an_integer_or_a_number(x):
    if x > 0:
        if x > 10:
            return 1
        return x
    return 0


@case
def of_an_array(x):
    y = np.zeros(3)
    for i in range(3):
        if x > i:
            y[i] = x
            return y
    return y * 2


@case
def from_while_true(x):
    while True:
        if x > 5:
            return x
        if x < -5:
            return -x
        x = x * 1.5


@case
def from_a_with(x):
    with np.errstate(all="ignore"):
        if x > 0:
            return x
        for i in range(20):
            if x + i > 3:
                return x * i
    return x * 10


@case
def always_from_a_with(x):
    with np.errstate(all="ignore"):
        if x > 0:
            return x
        return x * 3


@case
def from_the_else_of_a_loop(x):
    for i in range(15):
        if x * i > 4:
            return x
    else:
        return x * 2


@case
def from_a_match(x):
    match 3:
        case 3:
            if x > 0:
                return x
            x = x + 1
        case _:
            return x
    return x * 2


@case
def from_all_of_a_match(x):
    match "kind":
        case "other":
            return x
        case _:
            if x > 0:
                return x
            return x * 3


@case
def of_a_truth(x):
    for i in range(30):  # noqa: SIM110
        if x * i > 7:
            return True
    return False


@case
def of_a_place(x):
    for i, t in enumerate(np.arange(12.0) * x):
        if t > 4:
            return i
    return -1


def parts(y):
    if isinstance(y, dict):
        return [p for key in y for p in parts(y[key])]
    return [p for e in y for p in parts(e)] if isinstance(y, tuple) else [np.ravel(y)]


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_early_returns(f, backend):
    def total(x):
        return sum((p * 1.0).sum() for p in parts(f(x)))

    points = [2.13, -1.37, 20.1]
    for x in points:
        got = bs.jit(f, backend=backend)(x)
        np.testing.assert_allclose(np.concatenate(parts(got)), np.concatenate(parts(f(x))))
    slopes = [(total(x + 1e-6) - total(x - 1e-6)) / 2e-6 for x in points]
    if np.asarray(parts(f(2.13))[0]).dtype.kind != "f":
        return  # whole numbers have no derivative
    got = [bs.jit(bs.grad(total), backend=backend)(x) for x in points]
    np.testing.assert_allclose(got, slopes, rtol=1e-5, atol=1e-7)
    each = bs.jit(bs.vmap(bs.grad(total)), backend=backend)(np.array(points))
    np.testing.assert_allclose(each, slopes, rtol=1e-5, atol=1e-7)


def falls_off(x):
    if x > 0:
        return x


def nothing_or_something(x):
    while x < 9:
        x = x * 1.5
        if x > 7:
            return
    return x


def list_or_tuple(x):
    if x > 0:
        return [x, x]
    else:
        return (x, x)


def two_words(x):
    if x > 0:
        return "yes"
    return "no"


def two_lengths(x):
    for i in range(20):
        if x > i:
            return np.ones(3) * x
    return np.ones(2)


def expression(x):
    return x if x > 0 else None


@pytest.mark.parametrize(
    ("f", "message", "line"),
    [
        (falls_off, r"`return` is float64\[\].*and None in the other", "if x > 0:"),
        (nothing_or_something, "`return` is", "return"),
        (list_or_tuple, "a list of 2 .* and a tuple of 2", "if x > 0:"),
        (two_words, "'yes' .* and 'no'", "if x > 0:"),
        (two_lengths, r"float64\[[23]\] .* and float64\[[23]\]", ""),
        (expression, r"float64\[\] if it holds and None otherwise", "x if x > 0 else None"),
    ],
)
def test_ways_out_of_different_types(f, message, line):
    with pytest.raises(errors.ControlFlowError, match=message) as caught:
        bs.jit(f)(2.0)
    assert line in str(caught.value)
    assert "test_returns.py:" in str(caught.value)


def test_a_with_that_swallows():
    def f(x):
        with contextlib.suppress(ZeroDivisionError):
            return 1 / x

    assert bs.jit(f, static_argnums=0)(0) is f(0) is None
    assert bs.jit(f, static_argnums=0)(2) == 0.5


def decorated(f):
    return f


@decorated
@decorated
def refused_in_its_own_line(x):
    if x > 0:  # noqa: SIM108
        y = x
    else:
        y = None
    return y


def test_decorators_do_not_move_lines():
    with pytest.raises(errors.ControlFlowError) as caught:
        bs.jit(refused_in_its_own_line)(2.0)
    first = refused_in_its_own_line.__code__.co_firstlineno
    assert f"test_returns.py:{first + 3}: if x > 0:" in str(caught.value)
