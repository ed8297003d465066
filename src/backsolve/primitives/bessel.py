"""Bessel functions: of integer and real order, scaled and not. In the order there is no derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import NotDifferentiableError
from ..operators import Diagonal
from .elementwise import elementwise, is_complex
from .special import also, binary, formula, load, unary, undefined


def _ordered(name: str, block: Any) -> Any:
    return binary(name, undefined(name, "v"), block)


# Differences of neighbours, and no quotients by x, which would be 0/0 at 0.
jv: Any = _ordered("jv", lambda a, b: Diagonal(0.5 * (jv(a - 1, b) - jv(a + 1, b))))
yv: Any = _ordered("yv", lambda a, b: Diagonal(0.5 * (yv(a - 1, b) - yv(a + 1, b))))
iv: Any = _ordered("iv", lambda a, b: Diagonal(0.5 * (iv(a - 1, b) + iv(a + 1, b))))
kv: Any = _ordered("kv", lambda a, b: Diagonal(-0.5 * (kv(a - 1, b) + kv(a + 1, b))))
yn: Any = _ordered("yn", lambda a, b: Diagonal(0.5 * (yv(a - 1, b) - yv(a + 1, b))))
kn: Any = _ordered("kn", lambda a, b: Diagonal(-0.5 * (kv(a - 1, b) + kv(a + 1, b))))
also("jn", jv)

j0: Any = unary("j0", lambda a: Diagonal(-j1(a)))
j1: Any = unary("j1", lambda a: Diagonal(0.5 * (j0(a) - jv(2, a))))
y0: Any = unary("y0", lambda a: Diagonal(-y1(a)))
y1: Any = unary("y1", lambda a: Diagonal(0.5 * (y0(a) - yv(2, a))))
i0: Any = unary("i0", lambda a: Diagonal(i1(a)))
i1: Any = unary("i1", lambda a: Diagonal(0.5 * (i0(a) + iv(2, a))))
k0: Any = unary("k0", lambda a: Diagonal(-k1(a)))
k1: Any = unary("k1", lambda a: Diagonal(-0.5 * (k0(a) + kv(2, a))))

# ---- scaled: e^−|x| I_v(x) and eˣ K_v(x)
#
# Derivatives of e^−x I_v are differences in the order, 2⁻ⁿ Σ_j (−1)ʲ C(2n, j) e^−x I_(v−n+j), which cancel for
# large x; there the expansion Σ (∓1)ᵏ a_k / x^(k+½), a_k = Π_j (4v² − (2j − 1)²) / (8ᵏ k!), is differentiated.


@formula
def _run_scaled_bessel(v: Any, x: Any, *, n: int, second: bool) -> Any:
    """The n-th derivative in x."""
    size, sign = np.abs(x), -1.0 if second else 1.0
    large = size > 25 + v * v
    far = np.where(large, size, 30 + v * v)
    term = load().poch(0.5, n) * (-1.0) ** n * np.power(far, -0.5 - n)
    total = term
    for k in range(1, 40):
        term = term * (-sign * (4 * v * v - (2 * k - 1) ** 2) * (k - 0.5 + n))
        term = term / (8 * k * (k - 0.5) * far)
        total = total + term
    total = total * (np.sqrt(np.pi / 2) if second else 1 / np.sqrt(2 * np.pi))
    scaled = load().kve if second else load().ive
    near = np.where(large, 1.0, size)
    exact = sum(
        (-1) ** j * load().binom(2 * n, j) * scaled(v - n + j, near) for j in range(2 * n + 1)
    )
    y = np.where(large, total, exact * (0.5 * sign) ** n)
    if not second:  # to the left of 0 mirrored; at the kink the mean of both sides
        mirrored = np.where(v == np.floor(v), (-1.0) ** (np.floor(v) + n), np.nan)
        y = np.where(x < 0, mirrored * y, y)
        return np.where((x == 0) & (mirrored == -1), 0.0, y)
    return np.where(x < 0, np.nan, y)


scaled: Any = elementwise(
    "scaled_bessel",
    _run_scaled_bessel,
    (
        undefined("scaled_bessel", "v"),
        lambda a, b, *, n, second: Diagonal(scaled(a, b, n=n + 1, second=second)),
    ),
)


def _in_ive(v: Any, x: Any) -> Any:
    if is_complex(x):
        raise NotDifferentiableError(
            "`ive` of complex numbers holds |Re z|, which is not analytic; use exp(-z) * iv(v, z)"
        )
    return scaled(v, x, n=1, second=False)


def _in_kve(y: Any, v: Any, x: Any) -> Any:
    if is_complex(x):
        return y - 0.5 * (kve(v - 1, x) + kve(v + 1, x))
    return scaled(v, x, n=1, second=True)


ive: Any = _ordered("ive", lambda a, b: Diagonal(_in_ive(a, b)))
kve: Any = _ordered("kve", lambda y, a, b: Diagonal(_in_kve(y, a, b)))
i0e: Any = unary("i0e", lambda a: Diagonal(scaled(0, a, n=1, second=False)))
i1e: Any = unary("i1e", lambda a: Diagonal(scaled(1, a, n=1, second=False)))
k0e: Any = unary("k0e", lambda a: Diagonal(scaled(0, a, n=1, second=True)))
k1e: Any = unary("k1e", lambda a: Diagonal(scaled(1, a, n=1, second=True)))
