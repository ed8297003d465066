"""ψ⁽ⁿ⁾(z), n ≥ 1, of complex numbers: SciPy has it of real ones alone.

Where |z| is large, and Re z > 0, by the asymptotic series

    (−1)ⁿ⁺¹ ψ⁽ⁿ⁾(z) ~ (n−1)! / zⁿ + n! / (2 zⁿ⁺¹) + Σ_k B_2k (2k + n − 1)! / ((2k)! z²ᵏ⁺ⁿ)

nearer to 0 by steps up to there, (−1)ⁿ⁺¹ (ψ⁽ⁿ⁾(z) − ψ⁽ⁿ⁾(z + 1)) = n! / zⁿ⁺¹, and on the left by reflection:

    ψ⁽ⁿ⁾(z) = (−1)ⁿ ψ⁽ⁿ⁾(1 − z) − dⁿ/dzⁿ π cot πz
"""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np
from numpy.polynomial import polynomial

# B_2, B_4, …: those of 15 terms leave less than the rounding
BERNOULLI = tuple(
    p / q
    for p, q in (
        *((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510)),
        *((43867, 798), (-174611, 330), (854513, 138), (-236364091, 2730), (8553103, 6)),
        *((-23749461029, 870), (8615841276005, 14322)),
    )
)
FAR = 15  # and n more


def complex_polygamma(n: int, z: Any) -> Any:
    """In the precision of z, computed in double precision."""
    given = np.asarray(z)
    with np.errstate(all="ignore"):
        z = given.astype(complex)
        z = np.where(given.imag < 0, np.conj(z), z)
        left = z.real < 0.5
        y = _on_the_right(n, np.where(left, 1 - z, z))
        y = np.where(left, (-1) ** n * y - _of_cotangent(n, z), y)
        y = np.where(given.imag < 0, np.conj(y), y)
    return y.astype(given.dtype)[()]


def _on_the_right(n: int, z: Any) -> Any:
    """Where Re z ≥ 1/2."""
    total = np.zeros_like(z)
    for _ in range(FAR + n):
        near = np.abs(z) < FAR + n
        total += np.where(near, factorial(n) / z ** (n + 1), 0)
        z = np.where(near, z + 1, z)
    w = 1 / z
    series = np.zeros_like(z)
    for k in range(len(BERNOULLI), 0, -1):
        ratio = factorial(2 * k + n - 1) // factorial(2 * k)
        series = (series + BERNOULLI[k - 1] * ratio) * w**2
    total += (factorial(n - 1) + 0.5 * factorial(n) * w + series) * w**n
    return (-1) ** (n + 1) * total


def _of_cotangent(n: int, z: Any) -> Any:
    """dⁿ/dzⁿ π cot πz = πⁿ⁺¹ s R_n(c), c = cot πz, s = 1 + c² = 1 / sin² πz, where Im z ≥ 0.

    R_1 = −1, and as c' = −π s, R_n+1 = −(2c R_n + (1 + c²) R_n').
    """
    turned = 2j * np.pi * (z - np.round(z.real))  # by whole turns less, which are exact
    e, less = np.exp(turned), np.expm1(turned)
    c, s = 1j * (e + 1) / less, -4 * e / less**2
    R = np.array([-1.0])
    for _ in range(n - 1):
        R = -polynomial.polyadd(
            polynomial.polymulx(2 * R), polynomial.polymul([1, 0, 1], polynomial.polyder(R))
        )
    return np.pi ** (n + 1) * s * polynomial.polyval(c, R)
