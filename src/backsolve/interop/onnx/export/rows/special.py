"""Special functions by formulas of few operators, in NumPy, as far as these keep the digits."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.special

from .....primitives.distributions import huber_by
from .base import formula
from .bessel import series
from .formulas import _ERFC, erfc, expm1, log1p, signbit

# ---- powers


@formula("boxcox")
def boxcox(x: Any, power: Any) -> Any:
    return _over_power(np.log(x), power)


@formula("boxcox1p")
def boxcox1p(x: Any, power: Any) -> Any:
    return _over_power(log1p(x), power)


def _over_power(logarithm: Any, power: Any) -> Any:
    """(e^{λ log x} − 1) / λ"""
    none = np.abs(power) < 1e-19
    return np.where(none, logarithm, expm1(power * logarithm) / np.where(none, 1, power))


@formula("inv_boxcox")
def inv_boxcox(y: Any, power: Any) -> Any:
    none = power == 0
    return np.where(none, np.exp(y), np.exp(log1p(power * y) / np.where(none, 1, power)))


@formula("inv_boxcox1p")
def inv_boxcox1p(y: Any, power: Any) -> Any:
    none = power == 0
    return np.where(none, expm1(y), expm1(log1p(power * y) / np.where(none, 1, power)))


@formula("exprel")
def exprel(x: Any) -> Any:
    tiny, far = np.abs(x) < 1e-16, x > 40
    near = np.where(np.logical_or(tiny, far), 1, x)
    root = np.exp(np.where(far, x, 0) / 2)
    return np.where(tiny, 1, np.where(far, root / x * root, expm1(near) / near))


@formula("powm1")
def powm1(x: Any, y: Any) -> Any:
    whole = np.power(x, y) - 1
    exponent = y * np.log(np.where(x > 0, x, 1))
    near = np.logical_and(x > 0, np.abs(exponent) < 0.5)
    return np.where(near, expm1(np.where(near, exponent, 0)), whole)


# ---- angles in degrees, and near 0


@formula("cosm1")
def cosm1(x: Any) -> Any:
    half = np.sin(x / 2)
    return -2 * half * half


def _quarter(x: Any) -> tuple[Any, Any, Any]:
    """sin and cos of an angle in degrees within an eighth of a turn of 0, and the quarters left out."""
    turn = x - 360 * np.floor(x / 360)
    quarters = np.rint(turn / 90)
    angle = (turn - 90 * quarters) * float(np.pi / 180)
    return np.sin(angle), np.cos(angle), quarters


def _sine(s: Any, c: Any, quarters: Any) -> Any:
    y = np.where(np.logical_or(quarters == 1, quarters == 3), c, s)
    return np.where(np.logical_or(quarters == 2, quarters == 3), -y, y)


@formula("sindg")
def sindg(x: Any) -> Any:
    return _sine(*_quarter(x))


@formula("cosdg")
def cosdg(x: Any) -> Any:
    s, c, quarters = _quarter(x)
    return _sine(s, c, np.where(quarters >= 3, quarters - 3, quarters + 1))


@formula("tandg")
def tandg(x: Any) -> Any:
    s, c, quarters = _quarter(x)
    return _ratio(s, c, np.logical_or(quarters == 1, quarters == 3))


@formula("cotdg")
def cotdg(x: Any) -> Any:
    s, c, quarters = _quarter(x)
    return _ratio(c, s, np.logical_or(quarters == 1, quarters == 3))


def _ratio(a: Any, b: Any, turned: Any) -> Any:
    """a / b, and −b / a where an angle is turned by a quarter."""
    above, below = np.where(turned, -b, a), np.where(turned, a, b)
    pole = below == 0
    return np.where(pole, np.inf, above / np.where(pole, 1, below))


# ---- losses


formula("huber")(partial(huber_by, np))


@formula("pseudo_huber")
def pseudo_huber(delta: Any, r: Any) -> Any:
    none = np.logical_or(delta == 0, r == 0)
    u = np.where(none, 0, r) / np.where(none, 1, delta)
    y = delta * delta * (u * u / (1 + np.sqrt(1 + u * u)))
    return np.where(delta < 0, np.inf, y)


# ---- the normal distribution: erfc(z) = t exp(P(t) − z²), with t = 2 / (2 + z)


@formula("erfcx")
def erfcx(x: Any) -> Any:
    z = np.abs(x)
    t = 2 / (2 + z)
    wave, d, before = 4 * t - 2, 0.0, 0.0
    for c in reversed(_ERFC[1 : 12 if x.dtype.itemsize < 8 else None]):
        d, before = wave * d - before + c, d
    y = t * np.exp(0.5 * (_ERFC[0] + wave * d) - before)
    return np.where(x < 0, 2 * np.exp(z * z) - y, y)


@formula("log_ndtr")
def log_ndtr(x: Any) -> Any:
    z = x * float(np.sqrt(0.5))
    low = z < -0.7
    below = np.where(low, z, -1)
    tail = np.log(erfcx(-below) / 2) - below * below
    return np.where(low, tail, log1p(-erfc(np.where(low, 0, z)) / 2))


def _inverse_of_tail(p: Any) -> Any:
    """erfc⁻¹ of at most ½: Halley's steps from a rational guess."""
    inside = p > 0
    y = np.where(inside, p, 0.5)
    t = np.sqrt(2 * (float(np.log(2)) - np.log(y)))
    x = (t - (2.30753 + t * 0.27061) / (1 + t * (0.99229 + t * 0.04481))) * float(np.sqrt(0.5))
    for _ in range(3):
        error = erfc(x) - y
        x = x + error / (float(2 / np.sqrt(np.pi)) * np.exp(-x * x) - x * error)
    return np.where(inside, x, np.where(p == 0, np.inf, np.nan))


_TERMS = 16


def _inverse_near_zero(y: Any) -> Any:
    """erf⁻¹ of less than ½: Newton's steps on the series of erf, which keep all digits."""
    half = float(np.sqrt(np.pi) / 2)
    z = y * half
    for _ in range(4):
        square, term, total = z * z, z, z
        for k in range(1, _TERMS):
            term = -term * square / k
            total = total + term / (2 * k + 1)
        z = z - (total - y * half) * np.exp(square)
    return z


def _inverse(x: Any, lower: Any, upper: Any) -> Any:
    """erf⁻¹(x), where the tails 1 + x and 1 − x are given, too."""
    near = np.abs(x) < 0.5
    far = _inverse_of_tail(np.where(near, 0.5, np.where(x < 0, lower, upper)))
    return np.where(near, _inverse_near_zero(np.where(near, x, 0)), np.where(x < 0, -far, far))


@formula("erfinv")
def erfinv(x: Any) -> Any:
    return _inverse(x, 1 + x, 1 - x)


@formula("erfcinv")
def erfcinv(y: Any) -> Any:
    return _inverse(1 - y, 2 - y, y)


@formula("ndtri")
def ndtri(p: Any) -> Any:
    return float(np.sqrt(2)) * _inverse(2 * p - 1, 2 * p, 2 * (1 - p))


# ---- the gamma function, by Lanczos' series, and from _FAR on by Stirling's

_FAR = 12
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)

_G = 7.0
_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip


def _lanczos(x: Any) -> tuple[Any, Any]:
    """A and t for x ≥ ½: Γ(x) = √(2π) t^(x − ½) e⁻ᵗ A."""
    z = x - 1
    total = z * 0 + _LANCZOS[0]
    for k, c in enumerate(_LANCZOS[1:], 1):
        total = total + c / (z + k)
    return total, z + _G + 0.5


def _stirling(x: Any) -> Any:
    """log Γ(x) − (x − ½) log x + x − ½ log 2π for x ≥ 12."""
    square, power, total = 1 / (x * x), 1 / x, x * 0
    for c in _STIRLING:
        total, power = total + c * power, power * square
    return total


def _sin_pi(x: Any) -> Any:
    """sin(πx), exact in the places of its zeros."""
    rest = x - 2 * np.rint(x / 2)  # within (−1, 1)
    folded = np.where(np.abs(rest) > 0.5, np.sign(rest) * 1.0 - rest, rest)
    return np.sin(float(np.pi) * folded)


# log Γ(x) / ((x − 1) (x − 2)) for ½ ≤ x ≤ 3, in Chebyshev polynomials: all digits near the zeros 1 and 2
_LOG_GAMMA = (
    0.4969196496241282, -0.18983770295364127, 0.051642363278249136, -0.01620888582719529,
    0.005480868756901195, -0.0019373470781938534, 0.0007048910082035581, -0.00026169697337740814,
    9.861130565519249e-05, -3.7584856908988406e-05, 1.4455839828556131e-05, -5.6014342781194404e-06,
    2.1839963102639326e-06, -8.560510993494189e-07, 3.3707703487176757e-07, -1.3325698991082197e-07,
    5.286623421759879e-08, -2.1039026610571943e-08, 8.396346115994458e-09, -3.3593279703588836e-09,
    1.347128417758247e-09, -5.413413585081661e-10, 2.179523895564128e-10, -8.790476934031152e-11,
    3.551107466208523e-11, -1.4366889879916915e-11, 5.820523962016641e-12, -2.361128116146316e-12,
    9.589528652171644e-13, -3.8990699504056754e-13, 1.5870109734168948e-13, -6.465854220933822e-14,
    2.6367771020705008e-14, -1.0762152407586304e-14, 4.396243296659399e-15, -1.797221357503132e-15,
    7.352595459272878e-16, -3.010110271283285e-16, 1.2331372609685956e-16, -5.054910883766592e-17,
    2.073363598084662e-17,
)  # fmt: skip


@formula("gammaln")
def gammaln(x: Any) -> Any:
    left = x < 0.5
    right = np.where(left, 1 - x, x)
    far = right >= _FAR
    a, t = _lanczos(np.where(far, 1, right))
    outer = np.where(far, right, _FAR)
    base, rest = np.where(far, outer, t), np.where(far, _stirling(outer), np.log(a))
    y = float(0.5 * np.log(2 * np.pi)) + ((right - 0.5) * np.log(base) - base + rest)
    near = right <= 3
    inner = np.where(near, right, 1)
    zeros = (inner - 1) * (inner - 2)
    y = np.where(near, zeros * series((inner - 1.75) / 1.25, _LOG_GAMMA), y)
    sine = np.abs(_sin_pi(np.where(left, x, 0.5)))
    pole = np.logical_and(left, sine == 0)
    mirrored = np.log(float(np.pi) / np.where(pole, 1, sine)) - y
    y = np.where(left, mirrored, y)
    return np.where(np.logical_or(pole, np.isinf(x)), np.inf, y)


@formula("loggamma")
def loggamma(x: Any) -> Any:
    return np.where(x < 0, np.nan, gammaln(np.where(x < 0, 1, x)))


@formula("gamma")
def gamma(x: Any) -> Any:
    left = x < 0.5
    most = 172 if x.dtype.itemsize == 8 else 36  # from there on it is infinite
    right = np.minimum(np.where(left, 1 - x, x), most)
    far = right >= _FAR
    a, t = _lanczos(np.where(far, 1, right))
    outer = np.where(far, right, _FAR)
    base, rest = np.where(far, outer, t), np.where(far, np.exp(_stirling(outer)), a)
    half = np.power(base, (right - 0.5) / 2)
    y = float(np.sqrt(2 * np.pi)) * half * np.exp(-base) * half * rest
    y = np.where(right >= most, np.inf, y)
    sine = _sin_pi(np.where(left, x, 0.5))
    pole = np.logical_and(left, sine == 0)
    mirrored = float(np.pi) / (np.where(pole, 1, sine) * np.where(left, y, 1))
    at_pole = np.where(x == 0, np.where(signbit(x), -np.inf, np.inf), np.nan)
    return np.where(pole, at_pole, np.where(left, mirrored, y))


@formula("rgamma")
def rgamma(x: Any) -> Any:
    y = gamma(x)
    pole = np.logical_and(x <= 0, x == np.floor(x))
    return np.where(pole, 0, 1 / np.where(pole, 1, y))


@formula("gammasgn")
def gammasgn(x: Any) -> Any:
    below = np.floor(x)
    odd = below - 2 * np.floor(below / 2) == 1
    y = np.where(np.logical_and(x < 0, odd), -1.0, 1.0)
    at_pole = float(scipy.special.gammasgn(-1.0))
    y = np.where(np.logical_and(x < 0, x == below), at_pole, y)
    at_zero = np.where(signbit(x), float(scipy.special.gammasgn(-0.0)), 1.0)
    return np.where(np.isnan(x), x, np.where(x == 0, at_zero, y))


_SHIFT = 10
_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


@formula("digamma")
def digamma(x: Any) -> Any:
    """Ten steps of ψ(x) = ψ(x + 1) − 1/x, then the asymptotic series."""
    left = x < 0.5
    z = np.where(left, 1 - x, x)
    y = z * 0
    for k in range(_SHIFT):
        y = y - 1 / (z + k)
    z = z + _SHIFT
    square = 1 / (z * z)
    series, power = z * 0, square
    for b in _BERNOULLI:
        series, power = series + b * power, power * square
    y = y + np.log(z) - 0.5 / z - series
    angle = np.where(left, x - np.rint(x), 0.25) * float(np.pi)
    pole = np.logical_and(left, angle == 0)
    mirrored = y - float(np.pi) / np.tan(np.where(pole, 1, angle))
    at_pole = np.where(x == 0, np.where(signbit(x), np.inf, -np.inf), np.nan)
    return np.where(pole, at_pole, np.where(left, mirrored, y))


# ---- integers


@formula("bitwise_count")
def bitwise_count(x: Any) -> Any:
    if x.dtype == bool:
        return x.astype(np.uint8)
    powers = np.array([2**k for k in range(63)], np.int64)
    bits = np.reshape(np.abs(x.astype(np.int64)), (*x.shape, 1)) // powers
    return np.sum(bits - 2 * (bits // 2), axis=-1).astype(np.uint8)


@formula("imag")
def imag(x: Any) -> Any:
    return x * 0
