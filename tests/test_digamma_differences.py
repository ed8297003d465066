"""Derivatives of beta functions, Pochhammer symbols and binomials: differences of digamma would cancel."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sp

import backsolve as bs

PAIRS = [
    (1.0, 1e-13),
    (0.3, 1e-10),
    (7.5, 2.5),
    (1e10, 2.5),
    (1e15, 0.5),
    (1e-8, 3.0),
    (2.0, 1e12),
    (5e5, 5e5),
]


def difference(a: float, b: float, n: int) -> float:
    """The n-th derivative of ψ(a) − ψ(a + b) by a."""
    with mp.workdps(60):
        return float(mp.polygamma(n, mp.mpf(a)) - mp.polygamma(n, mp.mpf(a) + mp.mpf(b)))


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_logarithms_of_beta_functions(a: float, b: float) -> None:
    f: Any = lambda a: sp.betaln(a, b)
    for n in range(3):
        f = bs.grad(f)
        np.testing.assert_allclose(f(a), difference(a, b, n), rtol=1e-12)
    swapped = bs.jit(bs.grad(lambda a: sp.betaln(b, a)))(a)
    np.testing.assert_allclose(swapped, difference(a, b, 0), rtol=1e-12)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_products_with_the_value(a: float, b: float) -> None:
    slope = difference(a, b, 0)
    np.testing.assert_allclose(bs.grad(sp.beta)(a, b), sp.beta(a, b) * slope, rtol=1e-12)
    np.testing.assert_allclose(bs.grad(sp.poch)(a, b), -sp.poch(a, b) * slope, rtol=1e-12)


def test_binomials_and_what_lies_left_of_zero() -> None:
    for n in (4.5, 1e8, 1e12):
        np.testing.assert_allclose(bs.grad(lambda n: sp.binom(n, 2.0))(n), n - 0.5, rtol=1e-12)
    assert bs.grad(lambda k: sp.binom(10.0, k))(5.0) == 0.0
    for n, k in ((7.3, 2.1), (3.3, 7.1), (-2.4, 1.5)):
        with mp.workdps(40):
            by_n = float(mp.diff(lambda n, k=k: mp.binomial(n, k), mp.mpf(n)))
            by_k = float(mp.diff(lambda k, n=n: mp.binomial(n, k), mp.mpf(k)))
        np.testing.assert_allclose(bs.grad(sp.binom, (0, 1))(n, k), (by_n, by_k), rtol=1e-10)
    with mp.workdps(40):
        by_a = float(mp.diff(lambda a: mp.rf(a, mp.mpf(2.2)), mp.mpf(-0.5)))
    np.testing.assert_allclose(bs.grad(lambda a: sp.poch(a, 2.2))(-0.5), by_a, rtol=1e-10)
    single = bs.grad(sp.beta, (0, 1))(np.float32(2), np.float32(3))
    assert all(g.dtype == np.float32 for g in single)
