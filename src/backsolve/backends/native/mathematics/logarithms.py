"""log and its family: x = 2ᵏ (1 + f) with √½ ≤ 1 + f < √2, then log x = k ln 2 + log(1 + f).

With s = f/(2 + f),  log(1 + f) = log((1 + s)/(1 − s)) = 2 s + s³ P(s²)  and  2 s = f − s f, so that

    log(1 + f) = f − f²/2 + s (f²/2 + s² P(s²))

where f and f²/2 are exact as pairs and the rest is small.
"""

from __future__ import annotations

import math

from . import coefficients as table
from .exponentials import LOWEST, exp_pair, exp_up_to_one
from .lanes import (
    Bits,
    Real,
    as_real,
    at_least,
    fma,
    integer_bits,
    polynomial,
    power_of_two,
    scale,
    select,
)
from .pairs import Pair, fast_two_sum, quotient, root, two_product, two_sum


def decompose(x: Real) -> tuple[Bits, Real]:
    """k and f of a normal x > 0."""
    format = x.format
    shift = format.digits - 1
    bits = x.bits()
    # Adding the distance from √½ to 1 carries into the exponent exactly where the fraction is above √½.
    carry = integer_bits(format, 1.0) - integer_bits(format, math.sqrt(0.5))
    k = ((bits + carry) >> shift) - format.bias
    return k, (bits - (k << shift)).real() - 1.0


def decompose_any(x: Real) -> tuple[Real, Real]:
    """k, as a Real, and f of any x > 0: subnormal numbers are lifted first."""
    format = x.format
    shift, digits, root = format.digits - 1, format.digits, integer_bits(format, math.sqrt(0.5))
    small = x < format.tiny
    t = select(small, x * 2.0**digits, x).bits() + (integer_bits(format, 1.0) - root)
    f = ((t & ((1 << shift) - 1)) + root).real() - 1.0
    # The exponent in the magic number's lowest bits; taken off with its bias.
    magic, bias = format.magic, float(format.bias)
    k = ((t >> shift) | integer_bits(format, magic)).real()
    return k - select(small, magic + bias + digits, magic + bias), f


def log_fraction(f: Real, low: Real | None = None) -> Pair:
    """log(1 + f + low)."""
    s = f / (f + 2.0)
    u = s * s
    square = two_product(f, f)
    half = square.high * 0.5
    main = fast_two_sum(f, -half)
    rest = s * fma(u, polynomial(u, table.LOG[f.format.name]), half)
    rest = fma(square.low, -0.5, main.low) + rest
    if low is not None:
        # low/(1 + f) = low (1 − s)/(1 + s) ≈ low (1 − 2 s + 2 s²)
        rest = rest + low * fma(s + s, s - 1.0, 1.0)
    return Pair(main.high, rest)


def add_exponent(k: Real, part: Pair, unit: tuple[float, ...]) -> Pair:
    """k · unit + part; k times the first part of unit is exact, and 0 or larger than `part`."""
    s = fast_two_sum(k * unit[0], part.high)
    rest = s.low + part.low
    return Pair(s.high, fma(k, unit[1], rest) if len(unit) > 1 else rest)


def guard(x: Real, y: Real, zero: float = 0.0) -> Real:
    """y where x is between `zero` and ∞, ∞ there; −∞ at `zero`, NaN below and for NaN."""
    inside = select(x < math.inf, y, x)
    # All ones are NaN, and so is −∞ with any bits beside.
    pole = ((x < zero).bits() | integer_bits(x.format, -math.inf)).real()
    return select(x <= zero, pole, inside)


def log_parts(f: Real) -> tuple[Real, Real]:
    """log(1 + f) = f − rest without pairs, rest = s (f − s² P(s²)): f is exact, and the rest is small."""
    s = f / (f + 2.0)
    u = s * s
    return f, s * fma(-u, polynomial(u, table.LOG[f.format.name]), f)


def log_of(k: Real, f: Real) -> Real:
    """log(2ᵏ (1 + f)); k L₁ is exact."""
    L1, L2 = table.LN2[f.format.name]
    f, rest = log_parts(f)
    return fma(k, L1, f - fma(k, -L2, rest))


def log(x: Real) -> Real:
    return guard(x, log_of(*decompose_any(x)))


def times(p: Pair, c: tuple[float, ...]) -> Pair:
    h = two_product(p.high, c[0])
    return Pair(h.high, fma(p.high, c[1], fma(p.low, c[0], h.low)))


def log2(x: Real) -> Real:
    k, f = decompose_any(x)
    part = times(log_fraction(f), table.LOG2_E[x.format.name])
    return guard(x, add_exponent(k, part, (1.0,)).value())


def log10(x: Real) -> Real:
    name = x.format.name
    k, f = decompose_any(x)
    part = times(log_fraction(f), table.LOG10_E[name])
    return guard(x, add_exponent(k, part, table.LOG10_2[name]).value())


def log_pair(u: Pair) -> Pair:
    """log(high + low), high > 0 normal; relative accuracy holds near 1 if low carries what is left."""
    k, f = decompose(u.high)
    # 2⁻ᵏ is no normal number at the top, where low no longer counts.
    low = select(u.high < 2.0**100, u.low * power_of_two(-k), 0.0)
    g = fast_two_sum(f, low)
    return add_exponent(as_real(k), log_fraction(g.high, g.low), table.LN2[f.format.name])


def log1p_pair(y: Pair) -> Pair:
    """log(1 + y)."""
    u = two_sum(y.high.constant(1.0), y.high)
    return log_pair(Pair(u.high, u.low + y.low))


def log1p(x: Real) -> Real:
    """log u with u = 1 + x = 2ᵏ (1 + f); what the sum lost, x − (u − 1), goes into f. u is a normal number."""
    format = x.format
    shift, root = format.digits - 1, integer_bits(format, math.sqrt(0.5))
    u = x + 1.0
    lost = x - (u - 1.0)
    t = u.bits() + (integer_bits(format, 1.0) - root)
    exponent = t >> shift
    # 2⁻ᵏ; at the top it is 0, and so is what was lost.
    down = ((2 * format.bias + 1 - exponent) << shift).real() * 0.5
    f = fma(lost, down, ((t & ((1 << shift) - 1)) + root).real() - 1.0)
    magic = format.magic
    k = (exponent | integer_bits(format, magic)).real() - (magic + format.bias)
    return guard(x, log_of(k, f).signed_as(x), zero=-1.0)


def log1p_exp(x: Real) -> Real:
    """log(1 + t), t = exp x, for x ≤ 0.

    log(1 + f) with f = t up to √2 − 1; above, ln 2 + log(1 + f) with 1 + f = (1 + t)/2."""
    format = x.format
    unit = 2.0**60 if format.width == 64 else 2.0**30
    t = exp_up_to_one(at_least(x, LOWEST[format.name]), unit)
    large = t > math.sqrt(2) - 1
    f, rest = log_parts(select(large, fma(t, 0.5, -0.5), t))
    ln2, ln2_low = (select(large, part, 0.0) for part in table.LN2_PAIR[format.name])
    return (f - (rest - ln2_low)) + ln2


def softplus(x: Real) -> Real:
    """max(x, 0) + log(1 + exp(−|x|))."""
    return log1p_exp(-x.fabs()) + select(x > 0.0, x, 0.0)


def log_sigmoid(x: Real) -> Real:
    return -softplus(-x)


def logaddexp(a: Real, b: Real) -> Real:
    """M + log(1 + exp(m − M)), M the greater, m the lesser; the sum may cancel, so both are pairs."""
    swap = a < b
    M, m = select(swap, b, a), select(swap, a, b)
    d = two_sum(m, -M)
    e, n = exp_pair(at_least(d.high, LOWEST[a.format.name]), d.low)
    u = fast_two_sum(a.constant(1.0), scale(e.high, n))
    part = log_pair(Pair(u.high, u.low + scale(e.low, n)))
    s = two_sum(M, part.high)
    y = s.high + (s.low + part.low)
    # An infinite M, or a difference that overflows: M is the answer (0 for −0, as NumPy has it).
    y = select((M.fabs() < math.inf) & (d.high > -1e30), y, M + 0.0)
    return select(a.is_nan() | b.is_nan(), a + b, y)


def arcsinh(x: Real) -> Real:
    """log(1 + y) with y = a + √(a² + 1) − 1, a = |x|; log 2a for a that need no 1."""
    a = x.fabs()
    large = 2.0**28
    square = two_product(a, a)
    s = two_sum(x.constant(1.0), square.high)
    r = root(Pair(s.high, s.low + square.low))
    y = two_sum(a, r.high - 1.0)
    near = Pair(y.high, y.low + r.low)
    result = log_one_plus_or_double(near, a, large)
    return select(a < 2.0**-28, a, select(a < math.inf, result, a)).flip(x.sign())


def log_one_plus_or_double(y: Pair, a: Real, large: float) -> Real:
    """log(1 + y) for a < large, log(2 a) from there on."""
    big = a >= large
    u = two_sum(a.constant(1.0), y.high)
    u = Pair(select(big, a, u.high), select(big, 0.0, u.low + y.low))
    part = log_pair(u)
    L1, L2 = table.LN2[a.format.name]
    s = two_sum(part.high, select(big, L1, 0.0))
    return s.high + (s.low + (part.low + select(big, L2, 0.0)))


def arccosh(x: Real) -> Real:
    """log(1 + y) with y = (x − 1) + √(x² − 1); log 2x for x that need no 1."""
    square = two_product(x, x)
    p = two_sum(square.high - 1.0, square.low)  # x² ≥ 1: the subtraction is exact where it matters
    one = x.equals(1.0)
    r = root(Pair(select(one, 1.0, p.high), p.low))
    y = two_sum(x - 1.0, r.high)
    result = log_one_plus_or_double(Pair(y.high, y.low + r.low), x, 2.0**28)
    result = select(x < math.inf, result, x)
    return select(one, 0.0, select(x < 1.0, math.nan, result))


def arctanh(x: Real) -> Real:
    """½ log(1 + y) with y = 2a/(1 − a), a = |x|."""
    a = x.fabs()
    d = two_sum(x.constant(1.0), -a)
    q = quotient(Pair(a + a, x.constant(0.0)), d)
    y = log1p_pair(fast_two_sum(q.high, q.low)).value() * 0.5
    y = select(a < 1.0, y, select(a.equals(1.0), math.inf, math.nan))
    return select(a < 2.0**-28, a, y).flip(x.sign())
