"""Functions of complex numbers x + i y, by those of real ones: the formulas and special values of C99's
Annex G, which NumPy's are too. Each takes and returns a pair of Reals.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .arcs import arctan2
from .exponentials import exp as real_exp
from .exponentials import expm1 as real_expm1
from .exponentials import sinh as real_sinh
from .lanes import FLOAT64, Mask, Real, at_least, at_most, fma, select
from .logarithms import arcsinh as real_arcsinh
from .logarithms import log as real_log
from .logarithms import log1p as real_log1p
from .pairs import two_product, two_sum
from .trigonometry import cos as real_cos
from .trigonometry import sin as real_sin
from .trigonometry import tan as real_tan

Number = tuple[Real, Real]
LN2 = math.log(2.0)


def times(a: Number, c: Number) -> Number:
    (x, y), (u, v) = a, c
    return fma(x, u, -(y * v)), fma(x, v, y * u)


def choose(mask: Mask, a: Number, c: Number) -> Number:
    return select(mask, a[0], c[0]), select(mask, a[1], c[1])


def turned(z: Number) -> Number:
    """i z."""
    return -z[1], z[0]


def turned_back(z: Number) -> Number:
    """−i z."""
    return z[1], -z[0]


def _is_finite(x: Real) -> Mask:
    return x.fabs() < math.inf


def _sorted(x: Real, y: Real) -> tuple[Real, Real]:
    """max and min of |x|, |y|; NaN is the larger."""
    a, c = x.fabs(), y.fabs()
    first = (a > c) | a.is_nan()
    return select(first, a, c), select(first, c, a)


def _scaled(x: Real, y: Real) -> tuple[Real, Real, Real]:
    """x and y times a power of two s that keeps squares in range, and log2 s."""
    high, _ = _sorted(x, y)
    large, little = (500, 600) if x.format is FLOAT64 else (60, 80)
    up, down = high < 2.0**-large, high > 2.0**large
    s = select(down, 2.0**-little, select(up, 2.0**little, 1.0))
    return x * s, y * s, select(down, -float(little), select(up, float(little), x.constant(0.0)))


def absolute(x: Real, y: Real) -> Real:
    u, v, k = _scaled(x, y)
    little = 600 if x.format is FLOAT64 else 80
    size = fma(u, u, v * v).sqrt()
    size = size * select(k < 0.0, 2.0**little, select(k > 0.0, 2.0**-little, 1.0))
    return select(x.fabs().equals(math.inf) | y.fabs().equals(math.inf), math.inf, size)


def angle(x: Real, y: Real) -> Real:
    return arctan2(y, x)


def exp(x: Real, y: Real) -> Number:
    """e^x (cos y + i sin y), e^x in two halves: it may overflow where the product does not."""
    half = real_exp(x * 0.5)
    re, im = half * real_cos(y) * half, half * real_sin(y) * half
    im = select(y.equals(0.0), y, im)
    re = select(y.equals(0.0), half * half, re)
    lost = x.fabs().equals(math.inf) & ~_is_finite(y)
    re = select(lost, select(x < 0.0, 0.0, math.inf), re)
    return re, select(lost & (x < 0.0), y.constant(0.0).flip(y.sign()), im)


def log(x: Real, y: Real) -> Number:
    """log|z| = log1p(x² + y² − 1)/2 near the unit circle, where the squares are taken exactly."""
    high, low = _sorted(x, y)
    p, q = two_product(high, high), two_product(low, low)
    first = two_sum(p.high, p.high.constant(-1.0))
    second = two_sum(first.high, q.high)
    excess = second.high + (second.low + (first.low + (p.low + q.low)))
    u, v, k = _scaled(x, y)
    far = fma(k, -LN2, real_log(absolute(u, v)))
    re = select(excess.fabs() < 0.5, real_log1p(excess) * 0.5, far)
    return re, arctan2(y, x)


def sqrt(x: Real, y: Real) -> Number:
    """t = √((|x| + |z|)/2) is the larger part, y/(2t) the other."""
    high, _ = _sorted(x, y)
    far = 1000 if x.format is FLOAT64 else 120
    down, up = high > 2.0**far, high < 2.0**-far
    s = select(down, 2.0**-4, select(up, 2.0**60, 1.0))
    root = select(down, 2.0**2, select(up, 2.0**-30, 1.0))
    a, c = x.fabs() * s, y * s
    t = ((a + absolute(a, c)) * 0.5).sqrt()
    other = c / (t + t)
    zero = high.equals(0.0)
    t, other = t * root, select(zero, y, other * root)
    left = x < 0.0
    re = select(left, other.fabs(), t)
    im = select(left, t.flip(y.sign()), other)
    edge = y.fabs().equals(math.inf)
    return select(edge, math.inf, re), select(edge, y, im)


def sinh(x: Real, y: Real) -> Number:
    """sinh x cos y + i cosh x sin y; what of e^|x| is too large is multiplied in last."""
    near, rest = _split(x)
    e = real_exp(near.fabs())
    cosh = (e + 1.0 / e) * 0.5
    re, im = real_sinh(near) * real_cos(y) * rest, cosh * real_sin(y) * rest
    plain = y.equals(0.0)
    re = select(plain, real_sinh(near) * rest, re)
    lost = ~_is_finite(y) & (x.equals(0.0) | x.fabs().equals(math.inf))
    return select(lost, x, re), select(plain, y, im)


def cosh(x: Real, y: Real) -> Number:
    near, rest = _split(x)
    e = real_exp(near.fabs())
    both = (e + 1.0 / e) * 0.5
    re, im = both * real_cos(y) * rest, real_sinh(near) * real_sin(y) * rest
    plain, zero = y.equals(0.0), x.equals(0.0)
    re = select(plain, both * rest, re)
    flat = y.constant(0.0).flip((x.bits() ^ y.bits()) & _sign_bit(x))
    im = select(plain | (zero & ~_is_finite(y)), flat, im)
    lost = ~_is_finite(y) & x.fabs().equals(math.inf)
    return select(lost, math.inf, re), im


def _sign_bit(x: Real) -> int:
    return 1 << (x.format.width - 1)


def _split(x: Real) -> tuple[Real, Real]:
    """x held to where e^|x| is finite, and e to the power of what is left of |x|."""
    most = 700.0 if x.format is FLOAT64 else 85.0
    near = at_least(at_most(x, most), -most)
    return near, real_exp(x.fabs() - near.fabs())


def tanh(x: Real, y: Real) -> Number:
    """Kahan: with t = tan y, β = 1 + t², s = sinh x:  (β s √(1 + s²) + i t)/(1 + β s²)."""
    most = 22.0 if x.format is FLOAT64 else 11.0
    near = at_least(at_most(x, most), -most)
    t, s = real_tan(y), real_sinh(near)
    beta = fma(t, t, 1.0)
    d = fma(beta * s, s, 1.0)
    re, im = beta * fma(s, s, 1.0).sqrt() * s / d, t / d
    e = real_exp(-x.fabs())
    far = x.fabs() > most
    one = x.constant(1.0).flip(x.sign())
    re, im = select(far, one, re), select(far, real_sin(y) * real_cos(y) * 4.0 * e * e, im)
    im = select(y.equals(0.0), y, im)
    re = select(y.equals(0.0) & x.is_nan(), x, re)
    infinite = x.fabs().equals(math.inf)
    im = select(infinite & ~_is_finite(y), y.constant(0.0).flip(y.sign()), im)
    re = select(~_is_finite(y) & ~infinite, math.nan, re)
    return select(x.equals(0.0), x, re), im


def _log_large(x: Real, y: Real) -> Real:
    """log 2|z| where |z| may overflow."""
    return real_log(absolute(x * 0.25, y * 0.25)) + 3 * LN2


def _is_large(x: Real, y: Real) -> Mask:
    limit = 2.0**500 if x.format is FLOAT64 else 2.0**60
    return (x.fabs() > limit) | (y.fabs() > limit)


def arcsinh(x: Real, y: Real) -> Number:
    """Kahan:  s₁ = √(1 + y − i x),  s₂ = √(1 − y + i x)."""
    a, c = sqrt(1.0 + y, -x)
    u, v = sqrt(1.0 - y, x)
    re, im = real_arcsinh(fma(a, v, -(u * c))), arctan2(y, fma(a, u, -(c * v)))
    large = _is_large(x, y)
    re = select(large, _log_large(x, y).flip(x.sign()), re)
    im = select(large, arctan2(y, x.fabs()), im)
    high, _ = _sorted(x, y)
    little = high < (2.0**-30 if x.format is FLOAT64 else 2.0**-13)
    return select(little, x, re), select(little | y.equals(0.0), y, im)


def arccosh(x: Real, y: Real) -> Number:
    """Kahan:  s₁ = √(z − 1),  s₂ = √(z + 1)."""
    a, c = sqrt(x - 1.0, y)
    u, v = sqrt(x + 1.0, y)
    re, im = real_arcsinh(fma(a, u, c * v)), arctan2(c, u) * 2.0
    large = _is_large(x, y)
    im = select(large, arctan2(y, x), im)
    im = select(x.equals(0.0) & y.is_nan(), math.pi / 2, im)
    return select(large, _log_large(x, y), re), im


def arccos(x: Real, y: Real) -> Number:
    """Kahan:  s₁ = √(1 − z),  s₂ = √(1 + z)."""
    a, c = sqrt(1.0 - x, -y)
    u, v = sqrt(1.0 + x, y)
    re, im = arctan2(a, u) * 2.0, real_arcsinh(fma(u, c, -(v * a)))
    large = _is_large(x, y)
    re = select(large, arctan2(y.fabs(), x), re)
    im = select(large, (-_log_large(x, y)).flip(y.sign()), im)
    return select(x.equals(0.0) & y.is_nan(), math.pi / 2, re), im


def arctanh(x: Real, y: Real) -> Number:
    """log1p(4|x|/((1 − |x|)² + y²))/4 and the angle of (1 − x)(1 + x) − y² + 2 i y, halved."""
    a, c = x.fabs(), y.fabs()
    gap = 1.0 - a
    re = real_log1p(a * 4.0 / fma(gap, gap, c * c)) * 0.25
    im = arctan2(y * 2.0, fma(gap, 1.0 + a, -(c * c))) * 0.5
    large = _is_large(x, y)
    u, v, _ = _scaled(x, y)
    little = 600 if x.format is FLOAT64 else 80
    tiny = u.fabs() / fma(u, u, v * v) * 2.0**-little
    tiny = select(a.equals(math.inf) | c.equals(math.inf), 0.0, tiny)
    re = select(large, tiny, re)
    quarter = y.constant(math.pi / 2).flip(y.sign())
    im = select(large & ~y.is_nan() & (~x.is_nan() | c.equals(math.inf)), quarter, im)
    near = a.equals(1.0) & (c < (2.0**-500 if x.format is FLOAT64 else 2.0**-60))
    re = select(near, (LN2 - real_log(c)) * 0.5, re)
    im = select(a.equals(1.0) & c.equals(0.0), y, im)
    return select(x.equals(0.0), a, re).flip(x.sign()), im


def expm1(x: Real, y: Real) -> Number:
    half = real_sin(y * 0.5)
    e, im = real_expm1(x), real_exp(x) * real_sin(y)
    re = fma(e, real_cos(y), half * half * -2.0)
    far, around = exp(x, y)
    lost = ~(_is_finite(x) & _is_finite(y))
    return select(lost, far - 1.0, re + 0.0), select(lost, around, im)


def log1p(x: Real, y: Real) -> Number:
    excess = fma(x, x + 2.0, y * y)  # |1 + z|² − 1
    far = real_log(absolute(x + 1.0, y))
    return select(excess.fabs() < 0.5, real_log1p(excess) * 0.5, far), arctan2(y, x + 1.0)


def sign(x: Real, y: Real) -> Number:
    size = absolute(x, y)
    zero = size.equals(0.0)
    d = select(zero, 1.0, size)
    across, along = x.fabs().equals(math.inf), y.fabs().equals(math.inf)
    one = x.constant(1.0)
    re = select(across, one.flip(x.sign()), select(zero | along, 0.0, x / d))
    im = select(along, one.flip(y.sign()), select(zero | across, 0.0, y / d))
    lost = (across & along) | size.is_nan()
    return select(lost, math.nan, re), select(lost, math.nan, im)


def _scale_of(f: Callable[[Real, Real], Number], c: float) -> Callable[[Real, Real], Number]:
    def scaled(x: Real, y: Real) -> Number:
        re, im = f(x, y)
        return re * c, im * c

    return scaled


FORMULAS: dict[str, Callable[[Real, Real], Number]] = {
    "exp": exp,
    "exp2": lambda x, y: exp(x * LN2, y * LN2),
    "expm1": expm1,
    "log": log,
    "log2": _scale_of(log, 1 / LN2),
    "log10": _scale_of(log, 1 / math.log(10.0)),
    "log1p": log1p,
    "sqrt": sqrt,
    "sign": sign,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "sin": lambda x, y: turned_back(sinh(-y, x)),
    "cos": lambda x, y: cosh(-y, x),
    "tan": lambda x, y: turned_back(tanh(-y, x)),
    "arcsinh": arcsinh,
    "arccosh": arccosh,
    "arctanh": arctanh,
    "arcsin": lambda x, y: turned_back(arcsinh(-y, x)),
    "arccos": arccos,
    "arctan": lambda x, y: turned_back(arctanh(-y, x)),
}
