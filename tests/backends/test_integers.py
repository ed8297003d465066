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
    assert check_compiled(getattr(np, name), edges(dtype), name)


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


def test_division_by_zero_is_numpys():
    f = lambda x, d: np.where(np.not_equal(d, 0), x // d, -7) + x % d
    assert check_compiled(f, [np.array([5, 5, -5]), np.array([2, 0, 3])])


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
