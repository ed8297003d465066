"""sin, cos and tan in fused loops: blocks of entries beyond the narrow range are computed again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native.mathematics import RANGE_LIMIT
from backsolve.backends.native.narrowing import BLOCK

DTYPES = (np.float64, np.float32)
FUNCTIONS = {
    "an intermediate argument": lambda x: np.sin(x * 2) * np.cos(x * 2) + x,
    "two dtypes": lambda x: np.cos(x) + np.sin(x.astype(np.float64) * 3),
    "a sum": lambda x: np.sum(np.cos(x) ** 2),
    "sums of rows": lambda x: np.sum(np.sin(x.reshape(3, -1)), axis=1),
    "sums of columns": lambda x: np.sum(np.sin(x.reshape(-1, 3)), axis=0),
    "tan": lambda x: np.tan(x) + 1,
}


def inputs(dtype: Any, beyond: bool) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal(3 * (BLOCK + 7)).astype(dtype)
    if beyond:
        limit = RANGE_LIMIT[np.dtype(dtype).name]
        x[[0, BLOCK + 1, -1]] = [limit * 1e5, -limit * 1.5, limit * 3]
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("beyond", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_numpy(name: str, beyond: bool, dtype: Any) -> None:
    f, x = FUNCTIONS[name], inputs(dtype, beyond)
    compiled = bs.jit(f)
    np.testing.assert_allclose(
        compiled(x), f(x), rtol=2e-5 if dtype is np.float32 else 1e-12, atol=1e-5
    )
    (made,) = compiled.stats()["specialisations"]
    assert made["native"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_infinity(dtype: Any) -> None:
    x = inputs(dtype, beyond=False)
    x[[3, BLOCK + 3]] = [np.nan, np.inf]
    with np.errstate(invalid="ignore"):
        expected = np.sin(x) + 1
    got = bs.jit(lambda x: np.sin(x) + 1)(x)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


def test_signed_zeros() -> None:
    x = np.zeros(BLOCK) * np.resize([1.0, -1.0], BLOCK)
    for f in (np.sin, np.tan):
        np.testing.assert_array_equal(np.signbit(bs.jit(lambda x, f=f: f(x))(x)), np.signbit(x))


def test_in_place() -> None:
    """A block that overwrites its own input is computed once, by the wide form."""
    x = inputs(np.float64, beyond=True)
    expected = np.sin(x) * 2
    np.testing.assert_allclose(bs.jit(lambda x: np.sin(x) * 2, donate=0)(x), expected, rtol=1e-13)
