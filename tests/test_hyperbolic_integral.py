"""Derivatives of Shi: of sinh x / x near 0, where every other one vanishes, and where sinh is large."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sp

import backsolve as bs


def shi(x: Any) -> Any:
    return sp.shichi(x)[0]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_derivatives_lose_no_digits(n: int) -> None:
    f: Any = shi
    for _ in range(n):
        f = bs.grad(f)
    for x in (1e-12, 1e-8, 1e-3, 1.0, -2.0, 30.0, 700.0):
        with mp.workdps(40):
            powers = [p for p in range(1, 1900, 2) if p >= n]
            terms = [mp.mpf(x) ** (p - n) / (p * mp.factorial(p - n)) for p in powers]
            exact = float(mp.fsum(terms))
        np.testing.assert_allclose(f(x), exact, rtol=1e-13)


def test_of_complex_numbers() -> None:
    z = np.array([1 + 2j, 1e-9j, 20 - 5j, 0.1 + 1000j, -650 + 1j])
    slopes = bs.jvp(shi, (z,), (np.ones(5, complex),))[1]
    np.testing.assert_allclose(slopes, np.sinh(z) / z, rtol=1e-13)
