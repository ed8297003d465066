"""Integers and booleans in compiled code, at the edges of their range."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.testing.backends import check_compiled

INTEGERS = [np.int64, np.int32]
PAIRS = ["floor_divide", "remainder", "fmod", "gcd", "lcm", "left_shift", "right_shift"]
PAIRS += ["fmax", "fmin", "add", "subtract", "multiply", "maximum", "minimum", "less", "equal"]


def edges(dtype):
    limits = np.iinfo(dtype)
    x = np.array([0, 1, -1, 2, -3, 7, -8, 100, limits.max, limits.min, limits.min + 1], dtype)
    return [np.ascontiguousarray(g) for g in np.meshgrid(x, x)]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    "name",
    [
        "floor_divide",
        "remainder",
        "fmod",
        "gcd",
        "lcm",
        "left_shift",
        "right_shift",
        "maximum",
        "minimum",
        "less",
        "equal",
    ],
)
def test_pairs(name, dtype):
    x, y = edges(dtype)
    if name in ("floor_divide", "remainder", "fmod"):
        x, y = x[1:], np.where(y[1:] == 0, dtype(1), y[1:])
    assert check_compiled(getattr(np, name), [x, y], name)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    "name", ["absolute", "sign", "floor", "ceil", "trunc", "isnan", "isinf", "isfinite"]
)
def test_one(name, dtype):
    assert check_compiled(getattr(np, name), [edges(dtype)[0][0]], name)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_powers(dtype):
    x, _ = edges(dtype)
    n = np.broadcast_to(np.array([0, 1, 2, 3, 5, 31, 32, 63, 64, 65, 100], dtype), x.shape).copy()
    assert check_compiled(np.power, [x.T.copy(), n])
    assert check_compiled(lambda x: x**3 + x**2 + x**0, [x])


def test_a_negative_power_is_an_error():
    f = bs.jit(np.power)
    np.testing.assert_array_equal(f(np.array([2, 3]), np.array([3, 0])), [8, 1])
    assert f.stats()["specialisations"][0]["native"]
    with pytest.raises(ValueError, match="negative integer powers"):
        f(np.array([2, 3]), np.array([3, -1]))
    with pytest.raises(ValueError, match="negative integer powers"):
        bs.jit(lambda x: x**-1)(np.array([2]))


@pytest.mark.parametrize("dtype", ["i1", "i4", "i8", "u1", "u8"])
@pytest.mark.parametrize("divide", [np.floor_divide, np.remainder, np.fmod])
def test_division_by_zero_is_an_error(divide, dtype):
    x = np.array([5, 5, 7], dtype)
    f = bs.jit(divide)
    np.testing.assert_array_equal(f(x, np.array([2, 1, 3], dtype)), divide(x, [2, 1, 3]))
    assert f.stats()["specialisations"][0]["native"]
    with pytest.raises(ZeroDivisionError, match=divide.__name__):
        f(x, np.array([2, 0, 3], dtype))
    np.testing.assert_array_equal(bs.jit(lambda x: divide(x, 3))(x), divide(x, 3))


BOOLEANS = [
    "fmax",
    "fmin",
    *[
        "add",
        "multiply",
        "maximum",
        "minimum",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "equal",
    ],
    *[
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "not_equal",
    ],
]


@pytest.mark.parametrize("name", BOOLEANS)
def test_booleans(name):
    a, b = np.array([[True, True, False, False], [True, False, True, False]])
    assert check_compiled(getattr(np, name), [a, b], name)


@pytest.mark.parametrize(
    "f",
    [
        np.sum,
        np.prod,
        np.any,
        np.all,
        lambda a: np.max(a, axis=0),
        lambda a: np.min(a, axis=1),
        lambda a: np.cumsum(a, axis=1),
        lambda a: a @ a.T,
        lambda a: np.einsum("ij->i", a),
        lambda a: np.einsum("ij,kj,kl->il", a, a, a),
        lambda a: np.clip(a, False, True),
    ],
)
def test_of_booleans(f):
    for a in (np.eye(3, dtype=bool), np.zeros((2, 3), bool), np.ones((40, 30), bool)):
        assert check_compiled(f, [a])
