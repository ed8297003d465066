"""What rows of special functions are compared with: SciPy, or an integral."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special


def measured(x: Any, kinds: str = "f") -> Any:
    """Only real numbers (or complex ones): a row of our own has no meaning for others."""
    if np.asarray(x).dtype.kind not in kinds:
        raise TypeError("not counted")
    return np.asarray(x)


def _narrow(y: Any, a: Any) -> Any:
    """SciPy's polygamma computes in double precision whatever it gets."""
    return y.astype(np.float32) if np.asarray(a).dtype == np.float32 else y


def _integral(f: Any, end: float) -> Any:
    """∫₀^end by Gauss and Legendre; f is given its places along a new last axis."""
    t, w = np.polynomial.legendre.leggauss(300)
    return np.sum(f((t + 1) * end / 2) * w, -1) * end / 2


def _moment(a: Any, n: int) -> Any:
    x = np.asarray(a, float)[..., None]
    y = _integral(lambda t: t**n * np.exp(-t * t - 2 * x * t), 12.0)
    return _narrow(np.asarray(y * 2 / np.sqrt(np.pi)), a)


def _dawson(a: Any, n: int) -> Any:
    D = special.dawsn(np.asarray(a, float))
    first = 1 - 2 * np.asarray(a, float) * D
    return _narrow(first if n == 1 else -2 * D - 2 * a * first, a)


def _tail(a: Any, b: Any, n: int, m: int, upper: bool) -> Any:
    sign, end = (1, 8.0) if upper else (-1, 90.0)
    p, x = (measured(v).astype(float)[..., None] for v in (a, b))
    y = _integral(lambda s: np.exp(p * sign * s - x * np.expm1(sign * s)) * s**n, end)
    return _narrow(np.asarray(y), np.add(a, b))


def _scaled(a: Any, b: Any, n: int, second: bool) -> Any:
    x = measured(b).astype(float)
    if second:
        y = special.kve(a, x) + np.exp(x) * special.kvp(a, x, n)
    else:
        y = -special.ive(a, x) + np.exp(-x) * special.ivp(a, x, n)
    return _narrow(np.asarray(y), np.add(a, b))


FAMILIES = ("airy", "fresnel", "itairy", "iti0k0", "itj0y0", "shichi", "sici")


def _component(name: str) -> Any:
    return lambda a, k: getattr(special, name)(a)[k]


def _elliptic(a: Any, b: Any, p: int, q: int) -> Any:
    phi, m = (measured(v).astype(float)[..., None] for v in (a, b))

    def integrand(t: Any) -> Any:
        s = np.sin(phi * t) ** 2
        return phi * s**p * (1 - m * s) ** (-0.5 * q)

    return _narrow(np.asarray(_integral(integrand, 1.0)), np.add(a, b))


def _faddeeva(a: Any, n: int) -> Any:
    a = np.asarray(a)
    # of real numbers in single precision newer versions of SciPy make complex64, older ones complex128
    a = a.astype(np.complex64 if a.dtype == np.complex64 else np.complex128)
    w = special.wofz(a)
    return (w if n == 0 else 2j / np.sqrt(np.pi) - 2 * a * w).astype(a.dtype)[()]


def _softplus(a: Any, dtype: Any) -> Any:
    return (-special.log_expit(np.negative(a, dtype=dtype))).astype(dtype)  # SciPy's own varies


SPECIAL: dict[str, Callable[..., Any]] = {
    **{f"{name}_part": _component(name) for name in FAMILIES},
    "dawsn_derivative": _dawson,
    "erfcx_moment": _moment,
    "gamma_tail": _tail,
    "scaled_bessel": _scaled,
    "zeta": lambda a, b: _narrow(special.zeta(a, b), np.add(a, b)),
    "polygamma": lambda a, n: _narrow(special.polygamma(n, a), a),
    "digamma": special.digamma,
    "log_sigmoid": special.log_expit,
    "sigmoid": special.expit,
    "softplus": lambda a: _softplus(a, np.logaddexp(a, 0).dtype),
    "elliptic_moment": _elliptic,
    "jacobi_amplitude": lambda a, b: special.ellipj(a, b)[3],
    "wofz": _faddeeva,
    "i0": special.i0,
}
