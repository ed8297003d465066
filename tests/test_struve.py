"""Derivatives of Struve's functions beside their series in mpmath, near 0 and far from it."""

from __future__ import annotations

from math import prod
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sp

import backsolve as bs

ORDERS = [0.0, 1.0, 2.0, 7.0, 60.0, -1.0, -2.0, -4.0, 0.3, 1 - 1e-6, -10.2, -1.5, -10.5]
POINTS = [1e-12, 1e-6, 0.02, 1.0, 1.99, 2.01, 5.0, 50.0]


def exact(v: float, x: float, n: int, sign: int) -> float:
    """The n-th derivative, term by term."""
    with mp.workdps(90):
        total, half = mp.mpf(0), mp.mpf(x) / 2
        for k in range(int(60 + abs(v) + 2 * x)):
            power = 2 * k + mp.mpf(v) + 1
            falling = prod((power - j for j in range(n)), start=mp.mpf(1))
            gammas = mp.rgamma(k + mp.mpf(1.5)) * mp.rgamma(k + mp.mpf(v) + 1.5)
            total += sign**k * falling / 2**n * half ** (power - n) * gammas
        return float(total)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", ["struve", "modstruve"])
def test_derivatives_lose_no_digits(name: str, n: int) -> None:
    sign = -1 if name == "struve" else 1
    for v in ORDERS:
        f: Any = lambda x, v=v: getattr(sp, name)(v, x)
        for _ in range(n):
            f = bs.grad(f)
        expected = [exact(v, x, n, sign) for x in POINTS]
        np.testing.assert_allclose([f(x) for x in POINTS], expected, rtol=1e-11, atol=1e-290)


@pytest.mark.parametrize("name", ["itstruve0", "itmodstruve0"])
def test_integrals_to_the_fourth_derivative(name: str) -> None:
    f: Any = getattr(sp, name)
    for n in range(4):
        f = bs.grad(f)
        expected = [exact(0.0, x, n, -1 if name == "itstruve0" else 1) for x in POINTS]
        np.testing.assert_allclose([f(x) for x in POINTS], expected, rtol=1e-11)


def test_at_zero_to_its_left_and_compiled() -> None:
    x = np.array([-5.0, -0.5, 0.0, 0.5, 5.0])
    for v in (0.0, 1.0, 2.0):
        bend = bs.vmap(bs.grad(bs.grad(lambda x, v=v: sp.struve(v, x))))
        parity = (-1.0) ** (v + 1)
        np.testing.assert_allclose(bend(x), parity * bend(-x), rtol=1e-12)
        np.testing.assert_allclose(bs.jit(bend)(x), bend(x), rtol=1e-12)
    slopes = [bs.grad(lambda x, v=v: sp.struve(v, x))(0.0) for v in (-1.0, 0.0, 1.0)]
    np.testing.assert_allclose(slopes, [0.0, 2 / np.pi, 0.0])
    single = bs.grad(lambda x: sp.struve(np.float32(1), x))(np.float32(1e-4))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, exact(1.0, float(np.float32(1e-4)), 1, -1), rtol=1e-6)
