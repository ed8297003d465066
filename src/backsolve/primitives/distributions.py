"""Special functions of statistics: gamma and beta functions, distributions, entropies, losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..operators import Diagonal
from .elementwise import LN10, cbrt, elementwise, exp2, expm1, log1p
from .expansions import erfcx
from .special import (
    ROOT_TWO_PI,
    TWO_OVER_ROOT_PI,
    also,
    binary,
    kept,
    load,
    several,
    unary,
    undefined,
)

ROOT_HALF = float(np.sqrt(0.5))
ROOT_HALF_PI = float(np.sqrt(np.pi / 2))

for _name, _row in {"cbrt": cbrt, "exp2": exp2, "expm1": expm1, "log1p": log1p}.items():
    also(_name, _row)
exp10 = unary("exp10", lambda y: Diagonal(LN10 * y))
cosm1 = unary("cosm1", lambda a: Diagonal(-np.sin(a)))
wrightomega = unary("wrightomega", lambda y: Diagonal(y / (1 + y)))


def _in_powm1(a: Any, b: Any) -> Any:
    zero = np.equal(a, 0)
    return np.where(zero, 0, np.power(a, b) * np.log(np.where(zero, 1, a)))


powm1 = binary(
    "powm1",
    lambda a, b: Diagonal(b * np.power(a, b - 1.0)),
    lambda a, b: Diagonal(_in_powm1(a, b)),
)

# ---- gamma and beta functions

loggamma = unary("loggamma", lambda a: Diagonal(load().psi(a)))


def _in_rgamma(y: Any, a: Any) -> Any:
    """−ψ/Γ; left of ½ that of sin(πa) Γ(1 − a) / π, which has no poles there."""
    left = np.less(np.real(a), 0.5)
    z = np.where(left, a, 0.0)
    mirrored = load().gamma(1 - z)
    turned = np.cos(np.pi * z) - np.sin(np.pi * z) / np.pi * load().psi(1 - z)
    return np.where(left, mirrored * turned, -y * load().psi(np.where(left, 1.0, a)))


rgamma = unary("rgamma", lambda y, a: Diagonal(_in_rgamma(y, a)))


_SHIFT = 10
_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)  # B_2k / 2k


def _psis(a: Any, b: Any) -> Any:
    """ψ(a) − ψ(a + b), to the right of 0 term by term of ψ(z) = ψ(z + 10) − Σ_j<10 1/(z + j) and of the
    expansion there, log z − 1/2z − Σ B_2k/(2k z^2k): so it does not cancel where b is small beside a."""
    right = np.greater(a, 0) & np.greater(a + b, 0)
    plain = load().psi(np.where(right, 1.0, a)) - load().psi(np.where(right, 1.0, a + b))
    x, d = np.where(right, a, 1.0), np.where(right, b, 0.0)
    total: Any = 0.0
    for j in range(_SHIFT):
        total = total - d / (x + j) / (x + d + j)
    x = x + _SHIFT
    logs = np.log1p(d / x)
    total = total - logs + 0.5 * np.expm1(-logs) / x
    for k, c in enumerate(_BERNOULLI, 1):
        total = total + c * np.power(x, -2.0 * k) * np.expm1(-2 * k * logs)
    return np.where(right, total, plain)


betaln = binary("betaln", lambda a, b: Diagonal(_psis(a, b)), lambda a, b: Diagonal(_psis(b, a)))
beta = binary(
    "beta", lambda y, a, b: Diagonal(y * _psis(a, b)), lambda y, a, b: Diagonal(y * _psis(b, a))
)
poch = binary(
    "poch",
    lambda y, a, b: Diagonal(-y * _psis(a, b)),
    lambda y, a, b: Diagonal(y * load().psi(a + b)),
)
binom = binary(
    "binom",
    lambda y, a, b: Diagonal(-y * _psis(a - b + 1.0, b)),
    lambda y, a, b: Diagonal(-y * _psis(b + 1.0, a - 2 * b)),
)
betainc = several(
    "betainc",
    undefined("betainc", "a"),
    undefined("betainc", "b"),
    lambda a, b, c: Diagonal(_beta_density(a, b, c)),
)
betaincc = several(
    "betaincc",
    undefined("betaincc", "a"),
    undefined("betaincc", "b"),
    lambda a, b, c: Diagonal(-_beta_density(a, b, c)),
)
betaincinv = several(
    "betaincinv",
    undefined("betaincinv", "a"),
    undefined("betaincinv", "b"),
    lambda y, a, b: Diagonal(1 / _beta_density(a, b, y)),
)


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    """x^(a−1) (1 − x)^(b−1) / B(a, b): by logarithms, but for small powers, in units of the mean: those
    of a logarithm have derivatives that cancel at the ends, where a whole power's vanish."""
    p, q = _if_small(a - 1), _if_small(b - 1)
    mean, rest = np.divide(a, a + b), np.divide(b, a + b)
    logs = load().xlogy(a - 1 - p, x) + load().xlog1py(b - 1 - q, -x)
    units = p * np.log(mean) + q * np.log(rest)
    powers = np.power(x / mean, p) * np.power((1 - x) / rest, q)
    return powers * np.exp(logs + units - load().betaln(a, b))


def _if_small(power: Any) -> Any:
    return np.where(np.less(power, 16), power, 0.0)


def _run_zeta(a: Any, b: Any) -> Any:
    return kept(load().zeta(a, b), a, b)


zeta: Any = elementwise(
    "zeta",
    _run_zeta,
    (undefined("zeta", "x"), lambda a, b: Diagonal(-a * zeta(a + 1.0, b))),
)

# ---- exponential integrals

expi = unary("expi", lambda a: Diagonal(np.exp(a) / a))
exp1 = unary("exp1", lambda a: Diagonal(-np.exp(-a) / a))


def _in_expn(n: Any, x: Any) -> Any:
    first = np.equal(n, 0)
    return -np.where(first, np.exp(-x) * (1 + x) / (x * x), expn(np.where(first, 0, n - 1), x))


expn: Any = binary("expn", undefined("expn", "n"), lambda a, b: Diagonal(_in_expn(a, b)))

# ---- normal and Student's distribution

erfcinv = unary("erfcinv", lambda y: Diagonal(-np.exp(y * y) / TWO_OVER_ROOT_PI))
# φ(x)/Φ(x) = √(2/π) / erfcx(−x/√2) has no cancellation in either tail.
log_ndtr = unary("log_ndtr", lambda a: Diagonal(1 / (ROOT_HALF_PI * erfcx(-ROOT_HALF * a))))
ndtri = unary("ndtri", lambda y: Diagonal(ROOT_TWO_PI * np.exp(0.5 * y * y)))
ndtri_exp = unary("ndtri_exp", lambda y: Diagonal(ROOT_HALF_PI * erfcx(-ROOT_HALF * y)))


def _student_density(df: Any, t: Any) -> Any:
    logs = -0.5 * (df + 1) * np.log1p(t * t / df) - load().betaln(0.5 * df, 0.5)
    return np.exp(logs) / np.sqrt(df)


stdtr = binary("stdtr", undefined("stdtr", "df"), lambda a, b: Diagonal(_student_density(a, b)))
stdtrit = binary(
    "stdtrit", undefined("stdtrit", "df"), lambda y, a: Diagonal(1 / _student_density(a, y))
)

# ---- entropies and losses

entr = unary("entr", lambda a: Diagonal(-1 - np.log(a)))
rel_entr = binary(
    "rel_entr",
    lambda a, b: Diagonal(1 + np.log(np.divide(a, b))),
    lambda a, b: Diagonal(-np.divide(a, b)),
)
kl_div = binary(
    "kl_div",
    lambda a, b: Diagonal(np.log(np.divide(a, b))),
    lambda a, b: Diagonal(np.divide(b - a, b)),
)
huber = binary(
    "huber",
    lambda a, b: Diagonal(np.maximum(np.abs(b) - a, 0)),
    lambda a, b: Diagonal(np.clip(b, -a, a)),
)


def huber_by(xp: Any, delta: Any, r: Any) -> Any:
    """Its value by the functions of an array namespace, for backends that have no such function."""
    size = xp.abs(r)
    y = xp.where(size <= delta, 0.5 * r * r, delta * (size - 0.5 * delta))
    return xp.where(delta < 0, xp.inf, y)


def _pseudo_huber(d: Any, r: Any) -> Any:
    """The two derivatives; 2δ(s − 1) − δu²/s with u = r/δ and s² = 1 + u², freed of its cancellation."""
    u = np.divide(r, d)
    s = np.sqrt(1 + u * u)
    return d * u**4 / (s * (1 + s) ** 2), r / s


pseudo_huber = binary(
    "pseudo_huber",
    lambda a, b: Diagonal(_pseudo_huber(a, b)[0]),
    lambda a, b: Diagonal(_pseudo_huber(a, b)[1]),
)
