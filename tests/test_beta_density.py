"""Derivatives of the incomplete beta function at the ends of its range, beside polynomials and mpmath."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sp

import backsolve as bs


def derivative(f: Any, n: int) -> Any:
    for _ in range(n):
        f = bs.grad(f)
    return f


@pytest.mark.parametrize(("a", "b"), [(2, 3), (3, 1), (1, 1), (4, 4)])
def test_at_whole_parameters_it_is_a_polynomial(a: int, b: int) -> None:
    tails = [(-1) ** k * sp.comb(b - 1, k) / (a + k) for k in range(b)]  # of x^(a+k), over B(a, b)
    p = np.polynomial.Polynomial([0.0] * a + tails) / sp.beta(a, b)
    for n in (1, 2, 3, 4):
        for x in (0.0, 1e-30, 1e-12, 0.3, 1.0):
            found = derivative(lambda x: sp.betainc(float(a), float(b), x), n)(x)
            np.testing.assert_allclose(found, p.deriv(n)(x), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize(
    ("a", "b"), [(5.5, 2.0), (0.5, 2.0), (2.0, 300.0), (200.0, 300.0), (16.0, 1e12)]
)
def test_near_the_ends_no_digits_are_lost(a: float, b: float) -> None:
    def density(x: Any) -> Any:
        return x ** (mp.mpf(a) - 1) * (1 - x) ** (mp.mpf(b) - 1) / mp.beta(a, b)

    points = [1e-30, 1e-12, a / (a + b), 1 - 1e-12, 1 - 2.0**-53]
    for n in (1, 2, 3):
        for x in points:
            with mp.workdps(60):
                step = min(x, 1 - x, 1 / b) * mp.mpf(10) ** -15
                exact = float(mp.diff(density, mp.mpf(x), n - 1, h=step))
            for sign, f in ((1, sp.betainc), (-1, sp.betaincc)):
                found = derivative(lambda x, f=f: f(a, b, x), n)(x)
                if n == 1 or x != a / (a + b):  # the mode is near, where slopes vanish
                    np.testing.assert_allclose(found, sign * exact, rtol=1e-10, atol=1e-290)


def test_quantiles_and_compiled_code() -> None:
    p = np.array([1e-9, 0.3, 0.999])
    slope = bs.vmap(bs.grad(lambda p: sp.betaincinv(2.0, 3.0, p)))
    x = sp.betaincinv(2.0, 3.0, p)
    np.testing.assert_allclose(slope(p), 1 / (12 * x * (1 - x) ** 2), rtol=1e-10)
    bend = bs.vmap(derivative(lambda x: sp.betainc(2.0, 3.0, x), 4))
    np.testing.assert_allclose(bs.jit(bend)(np.array([0.0, 1e-30, 0.5])), 72.0, rtol=1e-12)


@pytest.mark.parametrize("a", [0.3, 1.0, 2.0, 3.0, 5.5, 16.0, 17.0, 40.0])
def test_gamma_density_near_its_ends(a: float) -> None:
    """d^k/dx^k of x^(a−1) e^−x / Γ(a), by Leibniz' rule."""
    with mp.workdps(60):
        for x in (1e-30, 1e-12, 1e-3, 0.3, 1.0, 2.5, 30.0, 1e22):
            f = lambda x: sp.gammainc(a, x)
            for k in range(4):
                f = bs.grad(f)
                terms = [
                    mp.binomial(k, j)
                    * mp.ff(mp.mpf(a) - 1, j)
                    * mp.mpf(x) ** (a - 1 - j)
                    * (-1) ** (k - j)
                    for j in range(k + 1)
                ]
                share = mp.exp(-mp.mpf(x)) / mp.gamma(a)
                if abs(terms[-1]) > 1e300:
                    continue
                size = float(sum(abs(t) for t in terms) * share)
                np.testing.assert_allclose(
                    f(x), float(sum(terms) * share), rtol=1e-11, atol=1e-13 * size
                )
