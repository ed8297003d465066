"""Functions that write into NumPy arrays, differentiated without being compiled."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import backsolve as bs
from backsolve import errors
from backsolve.writers import writes_arrays

X = np.array([1.0, 2.0, 3.0])


def squares(x):
    y = np.zeros(3)
    for i in range(3):
        y[i] = x[i] ** 2
    return y


def calls_it(x):
    return np.sum(squares(x))


class Model:
    def __init__(self, scale):
        self.scale = scale

    def method(self, x):
        return self.scale * calls_it(x)

    __call__ = method


def scaled(scale, x):
    return scale * calls_it(x)


@pytest.mark.parametrize(
    "f", [Model(2.0).method, Model(2.0), functools.partial(scaled, 2.0), lambda x: 2 * calls_it(x)]
)
def test_found_through_names(f):
    assert writes_arrays(f)
    np.testing.assert_allclose(bs.grad(f)(X), 4 * X)


def test_found_through_a_variable_from_outside():
    def outer(inner):
        return lambda x: inner(x) * 2

    assert not writes_arrays(outer(np.sum))
    assert not writes_arrays(outer(lambda x: x.sum()))
    assert writes_arrays(outer(calls_it))


def test_functions_that_are_written_anew(monkeypatch):
    def inner(x):
        return x * 2

    monkeypatch.setitem(globals(), "redefined", inner)
    f = lambda x: np.sum(redefined(x))  # noqa: F821
    np.testing.assert_array_equal(bs.grad(f)(X), [2.0, 2.0, 2.0])
    monkeypatch.setitem(globals(), "redefined", squares)
    np.testing.assert_array_equal(bs.grad(f)(X), 2 * X)


def test_values_that_do_not_vary_stay_arrays():
    seen = []

    def f(x):
        a = np.zeros(3)
        a[1] = 2.0
        seen.append(type(a))
        return np.sum(a * x)

    np.testing.assert_array_equal(bs.grad(f)(X), [0.0, 2.0, 0.0])
    assert seen == [np.ndarray]


def test_in_place_operators():
    def f(x):
        total = np.zeros(3)
        for i in range(4):
            total += i * x
        total[1] *= x[0]
        return np.sum(total)

    np.testing.assert_allclose(bs.grad(f)(X), [6 + 12, 6, 6])


def test_an_array_with_another_name_is_refused():
    def f(x):
        a = np.zeros(3)
        b = a
        a[0] = x[0]
        return np.sum(b)

    with pytest.raises(errors.InPlaceError, match="other names"):
        bs.grad(f)(X)


def test_both_modes_and_second_order():
    f = lambda x: np.sum(np.array([np.prod(squares(x)), x[0] ** 3]))
    bs.testing.check_grads(f, [X])


def test_forward_through_compiled_numbers():
    value, derivative = bs.jvp(bs.jit(lambda x: x * x), (3.0,), (1.0,))
    assert (value, derivative) == (9.0, 6.0)


def test_rows_of_an_array():
    def f(x):
        y = np.ones((3, 2))
        for i in range(3):
            y[i] += x[i]
            y[i, 1:] *= x[i]
        return np.sum(y)

    np.testing.assert_allclose(bs.grad(f)(X), 2 + 2 * X)


def test_variables_of_the_function_around():
    def f(x):
        y = np.zeros(3)

        def put(i):
            y[i] = x[i] ** 2

            def again():
                y[i] += x[i]

            again()

        for i in range(3):
            put(i)
        return np.sum(y)

    np.testing.assert_allclose(bs.grad(f)(X), 2 * X + 1)
    np.testing.assert_allclose(bs.jit(bs.grad(f))(X), 2 * X + 1)


GLOBAL = np.zeros(3)


def writes_a_global(x):
    GLOBAL[0] = x[0]
    return np.sum(GLOBAL)


def updates_a_global(x):
    GLOBAL[0] += x[0]
    return np.sum(GLOBAL)


def writes_a_variable_from_outside():
    y = np.zeros(3)

    def f(x):
        y[0] = x[0]
        return np.sum(y)

    return f


def writes_what_an_expression_gives(x):
    y = np.zeros(3)
    (y if len(x) else x)[0] = x[0]
    return np.sum(y)


def updates_an_attribute_with_another_name(x):
    box = Model(np.zeros(3))
    y = box.scale
    box.scale += x
    return np.sum(y)


def updates_an_entry_that_is_a_slice(x):
    y = np.zeros((2, 3))
    rows = [y[0]]
    rows[0] += x
    return np.sum(y)


@pytest.mark.parametrize(
    "f",
    [
        writes_a_global,
        updates_a_global,
        writes_a_variable_from_outside(),
        writes_what_an_expression_gives,
        updates_an_attribute_with_another_name,
        updates_an_entry_that_is_a_slice,
    ],
)
def test_writes_that_others_would_not_see_are_refused(f):
    with pytest.raises(errors.InPlaceError, match="other names"):
        bs.grad(f)(X)


@pytest.mark.parametrize("f", [writes_a_global, updates_a_global, writes_a_variable_from_outside()])
def test_compiled_writes_outside_of_the_function_are_refused(f):
    with pytest.raises(errors.InPlaceError, match="other names"):
        bs.jit(f)(X)


def test_copies_of_slices():
    def f(x):
        y, z = x[:2].copy(), np.array(x[::-1])
        y[0] += x[2]
        z[:] *= x
        return np.sum(y) + np.sum(z)

    np.testing.assert_allclose(bs.grad(f)(X), [1 + 2 * X[2], 1 + 2 * X[1], 1 + 2 * X[0]])


def table(x):
    y = np.zeros((2, 3))
    y[1] = x
    return y


def updates_rows_of_a_loop(x):
    y = table(x)
    for row in y:
        row += x
    return np.sum(y)


def updates_rows_with_names(x):
    y = table(x)
    first, _ = y
    first += x
    return np.sum(y)


def writes_into_the_real_part(x):
    y = table(x)
    z = np.real(y)
    z[0] = x
    return np.sum(y)


@pytest.mark.parametrize(
    "f", [updates_rows_of_a_loop, updates_rows_with_names, writes_into_the_real_part]
)
def test_views_that_are_written_into_spoil_the_array(f):
    for g in (bs.grad(f), bs.jit(f)):
        with pytest.raises(errors.InPlaceError, match=r"shares memory|slice of a tensor"):
            g(X)


@pytest.mark.parametrize("entries", ["one", "three"])
def test_updates_of_a_known_array_at_a_traced_place(entries):
    def f(a):
        n, s = 0, a
        while s > 1.04:
            n += 1
            y = np.arange(5.0)
            if entries == "one":
                y[n % 2] += s
            else:
                y[n % 2 : n % 2 + 3] += s
            s = s - y[1] - 0.1 * y[2]
        return s

    assert bs.jit(f)(4.0) == pytest.approx(f(4.0))
    slope = (f(4.0 + 1e-6) - f(4.0 - 1e-6)) / 2e-6
    for way in (bs.grad(f), bs.jit(bs.grad(f)), bs.grad(bs.jit(f))):
        assert way(4.0) == pytest.approx(slope, abs=1e-6)
