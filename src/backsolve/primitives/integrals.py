"""Functions that are integrals of elementary ones, and solutions of y'' = x y and of Bessel's equation.

SciPy gives some of them several at a time: the row of such a family says by a number which one it is.
"""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np

from ..errors import NotDifferentiableError
from ..operators import Diagonal
from .bessel import jv, yv
from .elementwise import elementwise, is_complex
from .special import (
    NAMES,
    PARTS,
    ROOT_TWO_PI,
    TWO_OVER_ROOT_PI,
    binary,
    load,
    several,
    unary,
    undefined,
)

# ---- pairs: y_0 and y_1 of one argument


def _family(name: str, slopes: Any) -> Any:
    """The components of a ufunc with several results, with the slope of each as a function of x."""

    def run(a: Any, *, k: int) -> Any:
        found = getattr(load(), name)
        narrow = np.asarray(a).dtype in (np.float16, np.float32) and found.types[0].startswith("f")
        # In single precision SciPy's integrals of Airy's and Bessel's functions lose all digits.
        return found(np.asarray(a, float))[k].astype(np.float32) if narrow else found(a)[k]

    PARTS[f"{name}_part"] = name
    return elementwise(f"{name}_part", run, (lambda a, *, k: Diagonal(slopes[k](a)),))


def _sine_ratio(x: Any) -> Any:
    return np.sinc(x / np.pi)


def _sinh_ratio(x: Any) -> Any:
    """sinh x / x as a function of x², of which no derivative cancels."""
    return hyp0f1(1.5, 0.25 * x * x)


fresnel_part = _family(
    "fresnel",
    (lambda x: np.sin(0.5 * np.pi * x * x), lambda x: np.cos(0.5 * np.pi * x * x)),
)
sici_part = _family("sici", (_sine_ratio, lambda x: np.cos(x) / x))
shichi_part = _family("shichi", (_sinh_ratio, lambda x: np.cosh(x) / x))
airy_part: Any = _family(
    "airy",
    (
        lambda x: airy_part(x, k=1),
        lambda x: x * airy_part(x, k=0),
        lambda x: airy_part(x, k=3),
        lambda x: x * airy_part(x, k=2),
    ),
)

itj0y0_part = _family("itj0y0", (lambda x: load().j0(x), lambda x: load().y0(x)))
iti0k0_part = _family("iti0k0", (lambda x: load().i0(x), lambda x: load().k0(x)))
itairy_part = _family(
    "itairy",
    (
        lambda x: airy_part(x, k=0),
        lambda x: airy_part(x, k=2),
        lambda x: airy_part(-x, k=0),
        lambda x: airy_part(-x, k=2),
    ),
)

# ---- the Faddeeva function: w' = −2z w + 2i/√π, which cancels for large z
#
# There w = i/√π Σ (2k−1)!! / (2^k z^(2k+1)) in the upper half-plane; below it w(z) = 2 exp(−z²) − w(−z).

_FAR = 7.0


def _run_wofz(a: Any, *, n: int) -> Any:
    """The n-th derivative."""
    return _narrow(faddeeva_derivative(np.asarray(a, complex), n, load().wofz), a)


def faddeeva_derivative(z: Any, n: int, w: Any) -> Any:
    """w⁽ⁿ⁾ by NumPy's functions, of complex numbers or of Tensors of such, and by w itself."""
    if n == 0:
        return w(z)
    below = np.less(np.imag(z), 0)
    up = np.where(below, -z, z)
    far = np.abs(up) > _FAR
    near = np.where(far, 0.0, up)
    earlier = w(near)
    here = 1j * TWO_OVER_ROOT_PI - 2 * near * earlier
    for k in range(1, n):
        earlier, here = here, -2 * near * here - 2 * k * earlier
    large = np.where(far, up, _FAR + 0j)
    reciprocal = 1 / large
    power, square = reciprocal, reciprocal * reciprocal
    for _ in range(n):
        power = power * reciprocal
    term = (0.5j * TWO_OVER_ROOT_PI * factorial(n) * (-1.0) ** n) * power
    total = term
    for k in range(1, 40):
        term = term * ((2 * k + n - 1) * (2 * k + n) / (4 * k)) * square
        total = total + term
    y = np.where(far, total, here)
    hermite, before = 1.0, 0.0
    for k in range(n):
        hermite, before = 2 * z * hermite - 2 * k * before, hermite
    lower = np.where(below, z, 0)
    wave = 2 * hermite * np.exp(-(lower * lower))
    return np.where(below, (-1.0) ** n * (wave - y), y)


def _narrow(y: Any, a: Any) -> Any:
    single = np.asarray(a).dtype == np.complex64
    return np.asarray(y).astype(np.complex64 if single else np.complex128)[()]


NAMES["wofz"] = "wofz"
wofz: Any = elementwise("wofz", _run_wofz, (lambda a, *, n: Diagonal(wofz(a, n=n + 1)),))

# ---- Owen's T function

owens_t = binary(
    "owens_t",
    lambda a, b: Diagonal(
        -0.5 * np.exp(-0.5 * a * a) / ROOT_TWO_PI * load().erf(a * b * float(np.sqrt(0.5)))
    ),
    lambda a, b: Diagonal(np.exp(-0.5 * a * a * (1 + b * b)) / (2 * np.pi * (1 + b * b))),
)

# ---- more solutions of Bessel's equation, and hypergeometric functions


def _in_scaled(name: str, plain: Any) -> Any:
    def block(a: Any, b: Any) -> Any:
        if is_complex(b):
            raise NotDifferentiableError(
                f"`{name}` of complex numbers holds |Im z|, which is not analytic; scale `{name[:-1]}` yourself"
            )
        return Diagonal(0.5 * (plain(a - 1, b) - plain(a + 1, b)))

    return lambda a, b: block(a, b)


jve = binary("jve", undefined("jve", "v"), _in_scaled("jve", jv))
yve = binary("yve", undefined("yve", "v"), _in_scaled("yve", yv))
hankel1: Any = binary(
    "hankel1",
    undefined("hankel1", "v"),
    lambda a, b: Diagonal(0.5 * (hankel1(a - 1, b) - hankel1(a + 1, b))),
)
hankel2: Any = binary(
    "hankel2",
    undefined("hankel2", "v"),
    lambda a, b: Diagonal(0.5 * (hankel2(a - 1, b) - hankel2(a + 1, b))),
)

hankel1e: Any = binary(
    "hankel1e",
    undefined("hankel1e", "v"),
    lambda y, a, b: Diagonal(0.5 * (hankel1e(a - 1, b) - hankel1e(a + 1, b)) - 1j * y),
)
hankel2e: Any = binary(
    "hankel2e",
    undefined("hankel2e", "v"),
    lambda y, a, b: Diagonal(0.5 * (hankel2e(a - 1, b) - hankel2e(a + 1, b)) + 1j * y),
)
wright_bessel: Any = several(
    "wright_bessel",
    undefined("wright_bessel", "a"),
    undefined("wright_bessel", "b"),
    lambda a, b, c: Diagonal(wright_bessel(a, a + b, c)),
)


# Struve's functions: y_v' = y_(v−1) − v y_v / x, whose own derivatives cancel near 0 where v is a whole number
# (powers of x that a derivative makes vanish are differences of large terms). There the series
#
#     y_v = Σ (∓1)ᵏ (x/2)^(2k+v+1) / (Γ(k + 3/2) Γ(k + v + 3/2))
#
# is differentiated, term by term: powers vanish exactly. Where v + 1/2 is a whole number below 0, these are
# Bessel functions of order −v, for which the series begins late and the first formula is good everywhere.

_STRUVE_NEAR = 2.0
_STRUVE_TERMS = 12


def _in_struve(row: Any, sign: float) -> Any:
    def block(y: Any, a: Any, b: Any) -> Any:
        is_bessel = np.less(a, -1) & np.equal(2 * a, 2 * np.floor(a) + 1)
        near = np.less(np.abs(b), _STRUVE_NEAR) & ~is_bessel
        far = np.where(near, _STRUVE_NEAR, b)
        slope = row()(a - 1, far) - np.divide(a, far) * y
        half, total = np.where(near, 0.5 * b, 1.0), 0.0
        c = TWO_OVER_ROOT_PI * load().rgamma(a + 1.5)
        for k in range(_STRUVE_TERMS):
            weight = c * (k + 0.5 * (a + 1))
            power = np.where(np.equal(weight, 0), 0, 2 * k + a)
            total = total + weight * np.power(half, power)
            c = c * sign / ((k + 1.5) * (k + 1.5 + a))
        return Diagonal(np.where(near, total, slope))

    return block


struve: Any = binary("struve", undefined("struve", "v"), _in_struve(lambda: struve, -1.0))
modstruve: Any = binary(
    "modstruve", undefined("modstruve", "v"), _in_struve(lambda: modstruve, 1.0)
)
itstruve0 = unary("itstruve0", lambda a: Diagonal(struve(0.0, a)))
itmodstruve0 = unary("itmodstruve0", lambda a: Diagonal(modstruve(0.0, a)))
hyp0f1: Any = binary(
    "hyp0f1", undefined("hyp0f1", "v"), lambda a, b: Diagonal(hyp0f1(a + 1, b) / a)
)
hyperu: Any = several(
    "hyperu",
    undefined("hyperu", "a"),
    undefined("hyperu", "b"),
    lambda a, b, c: Diagonal(-a * hyperu(a + 1, b + 1, c)),
)
gammasgn = unary("gammasgn", None)

# ---- angles in degrees

_DEGREE = float(np.pi / 180)
sindg = unary("sindg", lambda a: Diagonal(_DEGREE * load().cosdg(a)))
cosdg = unary("cosdg", lambda a: Diagonal(-_DEGREE * load().sindg(a)))
tandg = unary("tandg", lambda y: Diagonal(_DEGREE * (1 + y * y)))
cotdg = unary("cotdg", lambda y: Diagonal(-_DEGREE * (1 + y * y)))
