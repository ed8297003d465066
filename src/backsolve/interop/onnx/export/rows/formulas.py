"""Rows that ONNX has no operator for, in NumPy: recorded as any function is, and exported in operators it has.

Formulas keep the digits that the function itself would: expm1 and log1p near 0, sums of far exponentials.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .....primitive import P
from .base import formula


@formula("expm1")
def expm1(x: Any) -> Any:
    """tanh(x/2) = (eˣ − 1) / (eˣ + 1)"""
    return np.tanh(x * 0.5) * (np.exp(x) + 1)


@formula("log1p")
def log1p(x: Any) -> Any:
    """The rounding of 1 + x is made good by the same error in the quotient."""
    u = 1 + x
    tiny = u == 1
    far = np.isinf(u)
    rest = np.where(np.logical_or(tiny, far), 1, u - 1)
    return np.where(tiny, x, np.where(far, u, np.log(u) * (np.where(far, 1, x) / rest)))


@formula("logaddexp")
def logaddexp(a: Any, b: Any) -> Any:
    high = np.maximum(a, b)
    gap = np.where(a == b, 0, -np.abs(a - b))
    return high + log1p(np.exp(gap))


@formula("log_sigmoid")
def log_sigmoid(x: Any) -> Any:
    return np.minimum(x, 0) - log1p(np.exp(-np.abs(x)))


@formula("cbrt")
def cbrt(x: Any) -> Any:
    return np.sign(x) * np.power(np.abs(x), 1 / 3)


@formula("trunc")
def trunc(x: Any) -> Any:
    return x if x.dtype.kind != "f" else np.sign(x) * np.floor(np.abs(x))


@formula("signbit")
def signbit(x: Any) -> Any:
    if x.dtype.kind != "f":
        return x < 0
    return np.logical_or(x < 0, np.logical_and(x == 0, 1 / x < 0))


@formula("copysign")
def copysign(a: Any, b: Any) -> Any:
    return np.where(signbit(b), -np.abs(a), np.abs(a))


@formula("arctan2")
def arctan2(y: Any, x: Any) -> Any:
    high, low = np.abs(y), np.abs(x)
    zeros = np.logical_and(high == 0, low == 0)
    far = np.logical_and(np.isinf(y), np.isinf(x))
    ratio = np.where(zeros, 0, np.where(far, 1, high / np.where(zeros, 1, low)))
    angle = np.arctan(ratio)
    angle = np.where(signbit(x), float(np.pi) - angle, angle)
    return np.where(signbit(y), -angle, angle)


@formula("ldexp")
def ldexp(a: Any, n: Any) -> Any:
    return a * np.exp2(n.astype(a.dtype))


@formula("angle")
def angle(x: Any) -> Any:
    return np.where(np.isnan(x), x, np.where(x < 0, np.full((), np.pi, x.dtype), 0))


@formula("left_shift")
def left_shift(a: Any, n: Any) -> Any:
    return a * np.power(np.full((), 2, a.dtype), n)


@formula("right_shift")
def right_shift(a: Any, n: Any) -> Any:
    return a // np.power(np.full((), 2, a.dtype), n)


@formula("entr")
def entr(x: Any) -> Any:
    inside = x > 0
    y = -x * np.log(np.where(inside, x, 1))
    return np.where(inside, y, np.where(x == 0, 0.0, np.where(np.isnan(x), x, -np.inf)))


@formula("rel_entr")
def rel_entr(a: Any, b: Any) -> Any:
    return _divergence(a, b, lambda y: y, lambda y: y * 0)


@formula("kl_div")
def kl_div(a: Any, b: Any) -> Any:
    return _divergence(a, b, lambda y: y - a + b, lambda y: y * 0 + b)


def _divergence(a: Any, b: Any, inside: Any, at_zero: Any) -> Any:
    fine = np.logical_and(a > 0, b > 0)
    y = a * np.log(np.where(fine, a, 1) / np.where(fine, b, 1))
    zero = np.logical_and(a == 0, b >= 0)
    unknown = np.logical_or(np.isnan(a), np.isnan(b))
    return np.where(fine, inside(y), np.where(zero, at_zero(y), np.where(unknown, y, np.inf)))


# ln(erfc(z) / t) + z² as a series of Chebyshev polynomials in 2t − 1, for t = 2 / (2 + z)
_ERFC = (
    -1.3026537197817094, 6.4196979235649026e-1, 1.9476473204185836e-2, -9.561514786808631e-3,
    -9.46595344482036e-4, 3.66839497852761e-4, 4.2523324806907e-5, -2.0278578112534e-5,
    -1.624290004647e-6, 1.303655835580e-6, 1.5626441722e-8, -8.5238095915e-8, 6.529054439e-9,
    5.059343495e-9, -9.91364156e-10, -2.27365122e-10, 9.6467911e-11, 2.394038e-12, -6.886027e-12,
    8.94487e-13, 3.13092e-13, -1.12708e-13, 3.81e-16, 7.106e-15, -1.523e-15, -9.4e-17, 1.21e-16, -2.8e-17,
)  # fmt: skip


@formula("erfc")
def erfc(x: Any) -> Any:
    """All digits of small values, which 1 − erf(x) would lose."""
    z = np.abs(x)
    t = 2 / (2 + z)
    wave, d, before = 4 * t - 2, 0.0, 0.0
    for c in reversed(_ERFC[1 : 12 if x.dtype.itemsize < 8 else None]):
        d, before = wave * d - before + c, d
    y = t * np.exp(-z * z + 0.5 * (_ERFC[0] + wave * d) - before)
    return np.where(x < 0, 2 - y, y)


# ---- running products and recurrences, in log depth


def _shifted(a: Any, by: int, axis: int, fill: float) -> Any:
    """a moved towards higher indices."""
    n = a.shape[axis]
    lead = [(0, None, None)] * axis
    kept = P.slice(a, spec=(*lead, (0, n - by, None)))
    shape = (*a.shape[:axis], by, *a.shape[axis + 1 :])
    return np.concatenate([np.full(shape, fill, a.dtype), kept], axis)


@formula("cumprod")
def cumprod(a: Any, *, axis: int) -> Any:
    axis, by = axis % a.ndim, 1
    while by < a.shape[axis]:
        a = a * _shifted(a, by, axis, 1)
        by *= 2
    return a


@formula("recurrence")
def recurrence(a: Any, t: Any, *, axis: int, reverse: bool) -> Any:
    """s_j = a_j s_{j−1} + t_j"""
    axis, by = axis % t.ndim, 1
    if reverse:
        a, t = np.flip(a, axis), np.flip(t, axis)
    while by < t.shape[axis]:
        t = t + a * _shifted(t, by, axis, 0)
        a = a * _shifted(a, by, axis, 1)
        by *= 2
    return np.flip(t, axis) if reverse else t


# ---- search


@formula("searchsorted")
def searchsorted(a: Any, v: Any, *, side: str) -> Any:
    column = np.reshape(v, (*v.shape, 1))
    return np.sum(a < column if side == "left" else a <= column, axis=-1)


# ---- attention


def _weights(q: Any, k: Any, scale: float, causal: bool) -> Any:
    s = np.einsum("...id,...jd->...ij", q, k) * scale
    if causal:
        s = np.where(np.tri(*s.shape[-2:]) > 0, s, -np.inf)
    return P.softmax(s, axis=(s.ndim - 1,))


@formula("attention")
def attention(q: Any, k: Any, v: Any, *, scale: float, causal: bool) -> Any:
    return np.einsum("...ij,...je->...ie", _weights(q, k, scale, causal), v)


@formula("attention_adjoint")
def attention_adjoint(
    q: Any, k: Any, v: Any, u: Any, *, scale: float, causal: bool, which: int
) -> Any:
    W = _weights(q, k, scale, causal)
    if which == 2:
        return np.einsum("...ij,...ie->...je", W, u)
    S = np.einsum("...ie,...je->...ij", u, v) * W
    S = (S - W * np.sum(S, axis=-1, keepdims=True)) * scale
    if which == 0:
        return np.einsum("...ij,...jd->...id", S, k)
    return np.einsum("...ij,...id->...jd", S, q)
