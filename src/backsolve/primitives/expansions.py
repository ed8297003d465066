"""Special functions whose derivatives cancel where they are written down as textbooks do.

Each comes with a family that its derivatives stay inside of, computed without cancellation:

    erfcx        M_n(x) = 2/√π ∫₀^∞ tⁿ exp(−t² − 2xt) dt       M_n' = −2 M_{n+1},  M_0 = erfcx
    dawsn        its n-th derivative
    gammainc     T_n(a, x) = ∫₀^∞ sⁿ exp(∓as + x − x e^∓s) ds, of the lower and the upper tail
    exprel …     hypergeometric functions
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..operators import Diagonal
from .elementwise import elementwise, is_complex
from .special import TWO_OVER_ROOT_PI, binary, formula, load, several, unary, undefined

# ---- hypergeometric functions: differentiable in z

hyp1f1: Any = several(
    "hyp1f1",
    undefined("hyp1f1", "a"),
    undefined("hyp1f1", "b"),
    lambda a, b, c: Diagonal(np.divide(a, b) * hyp1f1(a + 1, b + 1, c)),
)
hyp2f1: Any = several(
    "hyp2f1",
    undefined("hyp2f1", "a"),
    undefined("hyp2f1", "b"),
    undefined("hyp2f1", "c"),
    lambda a, b, c, d: Diagonal(np.divide(a * b, c) * hyp2f1(a + 1, b + 1, c + 1, d)),
)

# ---- erfcx and the Dawson function

_STEPS = 200


@formula
def _run_erfcx_moment(x: Any, *, n: int) -> Any:
    if n == 0:
        return load().erfcx(x)
    # M_{k+1} + x M_k = k/2 M_{k−1}: forwards for small x, else backwards by r_k = M_k / M_{k−1}.
    near = np.minimum(x, 1.0)
    below, here = load().erfcx(near), 0.5 * TWO_OVER_ROOT_PI - near * load().erfcx(near)
    for k in range(1, n):
        below, here = here, 0.5 * k * below - near * here
    far, ratio = np.maximum(x, 1.0), 0.0
    product = load().erfcx(far)
    for k in range(n + _STEPS, 0, -1):
        ratio = 0.5 * k / (far + ratio)
        if k <= n:
            product = product * ratio
    return np.where(x < 1, here, product)


erfcx_moment: Any = elementwise(
    "erfcx_moment",
    _run_erfcx_moment,
    (lambda a, *, n: Diagonal(-2 * erfcx_moment(a, n=n + 1)),),
)
erfcx: Any = unary(
    "erfcx",
    lambda y, a: Diagonal(
        2 * a * y - TWO_OVER_ROOT_PI if is_complex(a) else -2 * erfcx_moment(a, n=1)
    ),
)
erfi: Any = unary("erfi", lambda a: Diagonal(TWO_OVER_ROOT_PI * np.exp(a * a)))
_FAR = 7.0


@formula
def _run_dawsn_derivative(x: Any, *, n: int) -> Any:
    # D⁽ᵏ⁺¹⁾ = −2x D⁽ᵏ⁾ − 2k D⁽ᵏ⁻¹⁾ cancels for large x; there D = Σ (2k−1)!! / (2^(k+1) x^(2k+1)).
    near = np.clip(x, -_FAR, _FAR)
    below, here = load().dawsn(near), 1 - 2 * near * load().dawsn(near)
    for k in range(1, n):
        below, here = here, -2 * near * here - 2 * k * below
    far = np.where(np.abs(x) > _FAR, x, _FAR)
    term = 0.5 * load().poch(1.0, n) * (-1.0) ** n / far ** (n + 1)
    total = term
    for k in range(1, 40):
        term = term * ((2 * k + n - 1) * (2 * k + n) / (4 * k)) / far**2
        total = total + term
    return np.where(np.abs(x) > _FAR, total, here if n else below)


dawsn_derivative: Any = elementwise(
    "dawsn_derivative",
    _run_dawsn_derivative,
    (lambda a, *, n: Diagonal(dawsn_derivative(a, n=n + 1)),),
)
dawsn: Any = unary(
    "dawsn",
    lambda y, a: Diagonal(1 - 2 * a * y if is_complex(a) else dawsn_derivative(a, n=1)),
)

# ---- the incomplete gamma function
#
# By t = x e^∓s in the integrals of t^(a−1) e^−t (log t − ψ(a)), with its density d in x,
#   ∂P/∂a = ± [(log x − ψ(a)) P or Q ∓ x d T_1],
# by the tail in which log t − ψ(a) keeps its sign; for small x by a series.

_NODES = np.arange(-3.6, 3.6, 1 / 48)  # of the substitution s = exp(π/2 sinh τ)
_S = np.exp(0.5 * np.pi * np.sinh(_NODES))
_W = 0.5 * np.pi * np.cosh(_NODES) / 48 * _S


@formula
def _run_gamma_tail(a: Any, x: Any, *, n: int, m: int, upper: bool) -> Any:
    """∫₀^∞ sⁿ (1 − e^∓s)ᵐ exp(∓as + x(1 − e^∓s)) ds."""
    a, x, sign = a[..., None], x[..., None], 1.0 if upper else -1.0
    # In units of the integrand's width, so that the nodes lie where it does.
    slope = np.abs(a - x)
    width = 1 / np.maximum(np.maximum(slope, np.sqrt(np.maximum(a, x))), 0.1 * a)
    s = _S * width
    rise = -np.expm1(sign * s)
    y = np.exp(sign * a * s + x * rise) * (width * _W)
    for _ in range(n):
        y = y * s
    for _ in range(m):
        y = y * rise
    return np.sum(np.where(np.isfinite(y), y, 0.0), axis=-1)


gamma_tail: Any = elementwise(
    "gamma_tail",
    _run_gamma_tail,
    (
        lambda a, b, *, n, m, upper: Diagonal(
            (1.0 if upper else -1.0) * gamma_tail(a, b, n=n + 1, m=m, upper=upper)
        ),
        lambda a, b, *, n, m, upper: Diagonal(gamma_tail(a, b, n=n, m=m + 1, upper=upper)),
    ),
)


def gamma_density(a: Any, x: Any) -> Any:
    """x^(a−1) e^−x / Γ(a), the derivative of gammainc in x.

    Near 0 a small power is none of a logarithm: derivatives of that cancel where those of a whole power vanish.
    """
    p = np.where(np.less(a, 17) & np.less(x, 1), a - 1, 0.0)
    return np.power(x, p) * np.exp(load().xlogy(a - 1 - p, x) - x - load().gammaln(a))


def _near_zero(a: Any, x: Any) -> Any:
    """∂P/∂a for small x, from P = x^a / Γ(a + 1) · [1 + a Σ_k≥1 (−x)ᵏ / (k! (a + k))]."""
    total, power = 0.0, 1.0
    for k in range(1, 14):
        power = power * x / -k
        total = total + power * k / ((a + k) * (a + k))
    leading = load().gammainc(a, x) * (np.log(x) - load().psi(a + 1.0))
    return leading + np.exp(load().xlogy(a, x) - load().gammaln(a + 1.0)) * total


def _by_tails(a: Any, x: Any) -> Any:
    excess, density = np.log(x) - load().psi(a), gamma_density(a, x) * x
    low = excess * load().gammainc(a, x) - density * gamma_tail(a, x, n=1, m=0, upper=False)
    high = excess * load().gammaincc(a, x) + density * gamma_tail(a, x, n=1, m=0, upper=True)
    return np.where(np.less(excess, 0), low, -high)


def _in_shape(a: Any, x: Any) -> Any:
    """∂ gammainc(a, x) / ∂a; 0 at x = 0."""
    far, near = np.greater(x, 0.3), np.greater(x, 0)
    by_tails = _by_tails(a, np.where(far, x, 1))
    by_series = _near_zero(a, np.where(far, 0.1, np.where(near, x, 0.1)))
    return np.where(far, by_tails, np.where(near, by_series, 0.0))


gammainc: Any = binary(
    "gammainc",
    lambda a, b: Diagonal(_in_shape(a, b)),
    lambda a, b: Diagonal(gamma_density(a, b)),
)
gammaincc: Any = binary(
    "gammaincc",
    lambda a, b: Diagonal(-_in_shape(a, b)),
    lambda a, b: Diagonal(-gamma_density(a, b)),
)
gammaincinv: Any = binary(
    "gammaincinv",
    lambda y, a: Diagonal(-_in_shape(a, y) / gamma_density(a, y)),
    lambda y, a: Diagonal(1 / gamma_density(a, y)),
)
gammainccinv: Any = binary(
    "gammainccinv",
    lambda y, a: Diagonal(-_in_shape(a, y) / gamma_density(a, y)),
    lambda y, a: Diagonal(-1 / gamma_density(a, y)),
)

# ---- (eˣ − 1)/x, and powers through it

exprel: Any = unary("exprel", lambda a: Diagonal(0.5 * hyp1f1(2, 3, a)))


def _in_power(log: Any, power: Any) -> Any:
    """∂/∂λ (e^(λL) − 1)/λ = L² exprel'(λL)."""
    return 0.5 * log * log * hyp1f1(2, 3, power * log)


boxcox: Any = binary(
    "boxcox",
    lambda a, b: Diagonal(np.power(a, b - 1.0)),
    lambda a, b: Diagonal(_in_power(np.log(a), b)),
)
boxcox1p: Any = binary(
    "boxcox1p",
    lambda a, b: Diagonal(np.power(1.0 + a, b - 1.0)),
    lambda a, b: Diagonal(_in_power(np.log1p(a), b)),
)


def _log_ratio(z: Any) -> Any:
    """The derivative of log(1 + z)/z, which cancels near 0."""
    near = np.less(np.abs(z), 0.5)
    far = np.where(near, 1.0, z)
    plain = (far / (1 + far) - np.log1p(far)) / (far * far)
    return np.where(near, -0.5 * hyp2f1(2, 2, 3, -np.where(near, z, 0.0)), plain)


inv_boxcox: Any = binary(
    "inv_boxcox",
    lambda y, a, b: Diagonal(y / (1 + a * b)),
    lambda y, a, b: Diagonal(y * a * a * _log_ratio(a * b)),
)
inv_boxcox1p: Any = binary(
    "inv_boxcox1p",
    lambda y, a, b: Diagonal((1 + y) / (1 + a * b)),
    lambda y, a, b: Diagonal((1 + y) * a * a * _log_ratio(a * b)),
)


def _in_spence(z: Any) -> Any:
    """log z / (1 − z)."""
    if is_complex(z):
        return np.log(z) / (1 - z)
    near = np.less(np.abs(z - 1.0), 0.5)
    far = np.where(near, 3.0, z)
    return np.where(near, -hyp2f1(1, 1, 2, 1 - np.where(near, z, 1.0)), np.log(far) / (1 - far))


spence: Any = unary("spence", lambda a: Diagonal(_in_spence(a)))

# ---- complete elliptic integrals of the parameter m

QUARTER = float(np.pi / 4)


def _in_ellipk(m: Any) -> Any:
    """(E − (1 − m) K) / (2m (1 − m))."""
    near = np.less(np.abs(m), 0.5)
    far = np.where(near, -1.0, m)
    plain = (ellipe(far) - (1 - far) * ellipk(far)) / (2 * far * (1 - far))
    small = np.where(near, m, 0.0)
    return np.where(near, 0.5 * QUARTER * hyp2f1(1.5, 1.5, 2.0, small), plain)


def _in_ellipe(m: Any) -> Any:
    """(E − K) / 2m."""
    near = np.less(np.abs(m), 0.5)
    far = np.where(near, -1.0, m)
    plain = (ellipe(far) - ellipk(far)) / (2 * far)
    small = np.where(near, m, 0.0)
    return np.where(near, -0.5 * QUARTER * hyp2f1(0.5, 1.5, 2.0, small), plain)


ellipk: Any = unary("ellipk", lambda a: Diagonal(_in_ellipk(a)))
ellipe: Any = unary("ellipe", lambda a: Diagonal(_in_ellipe(a)))
