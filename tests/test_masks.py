"""Masks that depend on traced values: an update by one number is compiled, a length that varies is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import InPlaceError, TracedValueError

X = np.array([[0.7, -1.2, 1.4], [-0.3, 2.1, 0.2]])


def several(x: Any) -> Any:
    y = x * 2
    y[x < 0] = 0
    y[x > 1] *= 3
    y[x > 0.5] += x[0, 0]
    return np.sum(y**2)


def whole_rows(x: Any) -> Any:
    y = np.zeros((2, 3))
    y[:] = x
    m = x[:, 0] > 0
    y[m] -= 2.0
    y[~m] /= x[1, 1]
    return np.sum(y**2)


def into_an_array(x: Any) -> Any:
    z = np.ones((2, 3))
    z[x > 0] *= x[0, 0]
    return np.sum(z * x)


def in_a_loop(x: Any) -> Any:
    y, s = x * 1.0, 0.0
    for _ in range(12):
        y[y > 0.3] *= 0.5
        s = s + y.sum()
    return s


def in_a_dict(x: Any) -> Any:
    d = {"a": x * 1.0}
    d["a"][x > 0] **= 2
    return d["a"].sum()


def root_where_positive(x: Any) -> Any:
    y = x * 1.0
    y[x > 0] **= 0.5  # the slope of a root of the others is not a number
    return np.where(x > 0, y, 0.0).sum()


@pytest.mark.parametrize(
    "f", [several, whole_rows, into_an_array, in_a_loop, in_a_dict, root_where_positive]
)
def test_an_update_by_a_traced_mask(f: Callable[[Any], Any]) -> None:
    np.testing.assert_allclose(bs.jit(f)(X), f(X.copy()))
    h = 1e-6
    steps = [(f(X + h * e) - f(X - h * e)) / (2 * h) for e in np.eye(6).reshape(6, 2, 3)]
    for gradient in (bs.grad(f), bs.jit(bs.grad(f)), bs.grad(bs.jit(f))):
        np.testing.assert_allclose(gradient(X), np.reshape(steps, X.shape), rtol=1e-6, atol=1e-8)


def test_what_has_no_known_length_is_named() -> None:
    with pytest.raises(TracedValueError, match="how many entries it chooses"):
        bs.jit(lambda x: x[x > 0].sum())(X)

    def f(x: Any) -> Any:
        y = x * 1.0
        y[x > 0] += np.ones(3)
        return y

    with pytest.raises(TracedValueError, match="one number for all entries"):
        bs.jit(f)(X[0])


def test_an_update_keeps_the_dtype_or_is_an_error() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(3, int)
        y[x > 0] += 1.5
        return y

    with pytest.raises(InPlaceError, match="cannot turn int64 into float64"):
        bs.jit(f)(X[0])
