"""Small kernels over rows that are joined to the sums of those rows compute what they compute alone."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native import cutting, row_ends
from backsolve.testing import fuzz
from backsolve.testing.backends import check_compiled
from backsolve.testing.fuzz_sketch import sketch

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True, params=["swept", "whole"])
def _short_rows_too(monkeypatch, request):
    monkeypatch.setattr(row_ends, "LONG_LOOP", 1)
    if request.param == "swept":
        monkeypatch.setattr(cutting, "LARGE", 1)
        monkeypatch.setattr(cutting, "SHORT", 1)
        monkeypatch.setattr(cutting, "SLICE", 1 << 9)


def joined(f, *args, **options) -> bool:
    return "for each row" in str(bs.jit(f, **options).lower(*args))


def centred(x):
    return x - np.mean(x, axis=-1, keepdims=True)


def normed(x):
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + 1e-5)


def mean_and_spread(x):
    m = np.mean(x, axis=1)
    v = np.mean((x - m[:, None]) ** 2, axis=1)
    return m, 1 / np.sqrt(v + 1), m * v


def several_ends(x):
    m = np.max(x, axis=-1)
    return np.where(np.isfinite(m), m, 0) * 2 + 1, m > 0, np.sum(x, axis=-1) / 3


def counted(x):
    return np.sum(x > 0, axis=-1) + 1, np.all(x > -3, axis=-1) | False


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(16, 8), (7, 5), (67, 20), (1, 64), (9, 130)])
@pytest.mark.parametrize("f", [centred, normed, mean_and_spread, several_ends, counted])
def test_values(f, shape, dtype):
    x = rng.normal(size=shape).astype(dtype)
    assert check_compiled(f, (x,), ulps=256)
    assert joined(f, x)


@pytest.mark.parametrize("shape", [(16, 8), (67, 20), (3, 4, 10)])
@pytest.mark.parametrize("f", [centred, normed])
def test_gradients(f, shape):
    x, w = rng.normal(size=shape), rng.normal(size=shape[-1])
    g = bs.grad(lambda x, w: np.sum(f(x) * w), argnums=(0, 1))
    assert check_compiled(g, (x, w), ulps=1024)


def test_other_axes_and_orders():
    x = rng.normal(size=(6, 7, 8))
    for axis in (0, 1, 2, (0, 1), (1, 2), (0, 2), None):
        f = lambda x, axis=axis: np.mean(x, axis=axis) * 2 + 1
        assert check_compiled(f, (x,))
        assert check_compiled(f, (np.asfortranarray(x),))
        assert check_compiled(f, (x[:, ::2],))


def test_rows_without_entries_and_no_rows():
    for shape in ((4, 0), (0, 4)):
        assert check_compiled(lambda x: np.sum(x, axis=1) * 2 + 1, (np.ones(shape),))


def test_what_lies_across_rows_is_read_afterwards():
    """Totals in another order, the first column of what is stored: not all known at the end of a row."""
    x = rng.normal(size=(12, 12))

    def turned(x):
        s = np.sum(x, axis=1)
        return s[::-1] * 2 + s, np.sum(x * 2, axis=1) + s[3]

    def first_column(x):
        y = np.abs(x) + 1
        s = np.sum(y, axis=1)
        return y, s, y[0] + s, y[:, 0] * s

    for f in (turned, first_column):
        assert check_compiled(f, (x,))


def test_donated_rows_are_not_overwritten_too_early():
    x, m = rng.normal(size=(24, 16)), rng.normal(size=24)

    def step(m, x):
        s = np.sum(x * np.sum(m) + m[:, None], axis=1)
        return 0.9 * m + 0.1 * s

    expected = step(m, x)
    got = bs.jit(step, donate=0)(m.copy(), x)
    np.testing.assert_allclose(got, expected, rtol=1e-12)

    def each(m, x):
        return 0.9 * m + 0.1 * np.sum(x * m[:, None], axis=1)

    np.testing.assert_allclose(
        bs.jit(each, donate=0)(m.copy(), x), each(m, x), rtol=1e-12, atol=1e-14
    )


def test_rows_whose_sums_are_skipped():
    """A row that adds nothing is not entered, but what follows from its sum is still to be computed."""
    x, taken = rng.normal(size=(24, 16)), rng.normal(size=24) > 0
    f = lambda x, taken: np.sum(np.where(taken[:, None], x, 0.0), axis=1) * 2 + 1
    assert check_compiled(f, (x, taken))


def test_functions_stay_in_vectors_of_rows():
    x = rng.normal(size=(64, 8))
    f = lambda x: np.tanh(np.sum(x, axis=1))
    assert check_compiled(f, (x,))
    assert not joined(f, x)


@pytest.mark.parametrize("seed", range(1000, 1040))
def test_random_programs(seed):
    fuzz.check(sketch(seed))
