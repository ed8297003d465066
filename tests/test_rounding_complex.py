"""Bounds of rounding errors of complex elementwise functions, beside mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import backsolve as bs
from backsolve.solve.rounding import rounding_errors

TINY = np.array([1e-9 - 3e-10j, 2.7e-9 + 1e-12j, -1e-5 + 2e-7j, 1e-3j])
WIDE = np.array([-33.02 - 35.95j, 18.97 + 8.68j, 0.3 - 0.2j, 14.64 + 59.62j])
SMALL = np.array([0.9 + 0.1j, -0.6 - 0.5j, -1.4 - 0.9j])

CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Any]] = {
    "log1p": (np.log1p, lambda z: mpmath.log(1 + z), TINY),
    "exp2": (np.exp2, lambda z: mpmath.power(2, z), WIDE),
    "a whole power": (lambda z: z**50, lambda z: z**50, SMALL),
    "a large power": (lambda z: z**100, lambda z: z**100, SMALL),
    "a broken power": (lambda z: z**-100.7, lambda z: z ** mpmath.mpf(-100.7), SMALL),
    "a complex power": (lambda z: z ** (2.5 + 3j), lambda z: z ** mpmath.mpc(2.5, 3), SMALL),
    "of a known base": (lambda z: (3 + 4j) ** z, lambda z: mpmath.mpc(3, 4) ** z, WIDE),
    "of itself": (lambda z: z**z, lambda z: z**z, 5 * SMALL),
    "float_power": (lambda z: np.float_power(z, 100), lambda z: z**100, SMALL),
    "erf": (
        scipy.special.erf,
        mpmath.erf,
        np.array([0.0063 - 0.002j, 0.004 - 0.0086j, 0.0044 - 0.0058j]),
    ),
}


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", CASES)
def test_errors_stay_inside_of_their_bounds(name: str, dtype: Any) -> None:
    f, of_mpmath, points = CASES[name]
    errors, bounds = [], []
    rng = np.random.default_rng(0)
    near = points * (1 + 0.05 * rng.normal(size=(25, 1)))
    with mpmath.workdps(50):
        for z in near.reshape(-1).astype(dtype):
            system = bs.linearize(f)(z)
            (bound,) = rounding_errors(system, [z])
            exact = of_mpmath(mpmath.mpc(float(z.real), float(z.imag)))
            value = np.complex128(system._raw_outputs[0])
            errors.append(float(abs(mpmath.mpc(value.real, value.imag) - exact) / abs(exact)))
            bounds.append(float(bound) / float(abs(exact)))
    assert all(e <= b for e, b in zip(errors, bounds, strict=True))
    assert max(bounds) < 10_000 * max(errors)


def test_powers_of_zero_have_bounds() -> None:
    for power in (2, 2.5, 3 + 0j):
        system = bs.linearize(lambda z, p=power: z**p)(0j)
        (bound,) = rounding_errors(system, [0j])
        assert 0 <= bound < 1e-300
