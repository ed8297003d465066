"""Running sums, products and recurrences in compiled code."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import backsolve as bs
from backsolve.primitive import P
from backsolve.testing.backends import check_compiled

SHAPES = [((5,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 4), 1), ((2, 3, 4), 2), ((1,), 0)]
EMPTY = [((0,), 0), ((2, 0), 1), ((2, 0), 0), ((0, 3), 1)]
SCANS = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "recurrence": lambda x, axis: P.recurrence(x * 2, x, axis=axis, reverse=False),
    "backwards": lambda x, axis: P.recurrence(x * 2, x + 1, axis=axis, reverse=True),
}


def array(shape, dtype):
    values = np.random.default_rng(0).normal(size=shape) * 2
    return (values > 0) if dtype == np.bool_ else values.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32])
@pytest.mark.parametrize("name", SCANS)
def test_values_and_gradients(name, dtype):
    for shape, axis in SHAPES + EMPTY:
        x = array(shape, dtype)
        f = functools.partial(SCANS[name], axis=axis)
        assert check_compiled(f, [x], f"{name} {shape} {axis}", ulps=1000)
        if np.dtype(dtype).kind == "f":
            total = bs.grad(lambda x, f=f: np.sum(np.sin(f(x))))
            assert check_compiled(total, [x], f"gradient of {name} {shape}", ulps=1e4)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_booleans_become_integers(name):
    assert check_compiled(lambda x: SCANS[name](x, axis=0), [array((7,), np.bool_)])


@pytest.mark.parametrize("name", SCANS)
def test_of_views(name):
    """Strided, turned and spread operands; constants; what is computed just before and after."""
    x = array((4, 6), np.float64)
    scan = SCANS[name]
    for f in (
        lambda x: scan(x.T, axis=1),
        lambda x: scan(x[::-2, 1:], axis=0),
        lambda x: scan(np.broadcast_to(x[0], (3, 6)), axis=0),
        lambda x: scan(np.exp(x), axis=1) * x,
        lambda x: scan(np.arange(6), axis=0) + x,
        lambda x: scan(scan(x, axis=0) / 9, axis=1),
    ):
        assert check_compiled(f, [x], name, ulps=1000)


def test_zeros_in_a_product():
    x = np.array([2.0, 0.0, 3.0, 0.0, 1.5])
    assert check_compiled(bs.grad(lambda x: np.cumprod(x).sum()), [x])
    assert check_compiled(bs.grad(np.prod), [x])


def test_special_numbers():
    x = np.array([1.0, np.inf, -np.inf, 2.0, np.nan])
    for name in ("cumsum", "cumprod"):
        assert check_compiled(lambda x, name=name: SCANS[name](x, axis=0), [x])


def test_code_does_not_grow_with_the_array():
    f = bs.jit(lambda x: np.cumsum(x, axis=0))
    small, large = (len(f.lower(np.ones((n, n))).stages["llvm"]) for n in (70, 700))
    assert large < 1.5 * small
