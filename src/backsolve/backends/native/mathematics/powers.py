"""Powers and roots."""

from __future__ import annotations

import math

from . import coefficients as table
from .lanes import (
    FLOAT32,
    FLOAT64,
    Real,
    as_real,
    fma,
    polynomial,
    power_of_two,
    round_to_integer,
    scale,
    select,
    select_bits,
    within,
)
from .logarithms import add_exponent, decompose, decompose_any, times
from .pairs import Pair, fast_two_sum, quotient, two_product


def sqrt(x: Real) -> Real:
    return x.sqrt()


def rsqrt(x: Real) -> Real:
    return 1.0 / x.sqrt()


def cbrt(x: Real) -> Real:
    """x = m 2^(3q + i), i in {−1, 0, 1}: with r ≈ (m 2ⁱ)^(−1/3) by Newton's method, y = m 2ⁱ r² 2^q.

    r ← r + r (1 − a r³)/3 needs no division; at the end y ← y + (a − y³) r²/3, a − y³ in pairs.
    """
    format = x.format
    shift = format.digits - 1
    a = x.fabs()
    small = a < format.tiny
    lift = 3 * 18 if format is FLOAT64 else 3 * 8
    bits = select(small, a * 2.0**lift, a).bits()
    k = (bits >> shift) - format.bias
    m = (bits - (k << shift)).real()
    exponent = as_real(k)
    q, q_bits = round_to_integer(exponent, 1 / 3)
    i = fma(q, -3.0, exponent)
    third = 2.0 ** (1 / 3)
    up, down = i > 0.5, i < -0.5
    r = polynomial(m, table.CBRT[format.name])
    r = r * select(up, 1 / third, select(down, third, 1.0))
    m = m * select(up, 2.0, select(down, 0.5, 1.0))
    for _ in range(2 if format is FLOAT64 else 1):
        r = fma(r * fma(-(m * r), r * r, 1.0), 1 / 3, r)
    square = r * r
    y = m * square
    y2 = two_product(y, y)
    rest = fma(-y2.high, y, m) - y2.low * y
    y = fma(rest, square * (1 / 3), y)
    y = y * power_of_two(q_bits - select_bits(small, lift // 3, 0))
    return select((a > 0.0) & (a < math.inf), y, a).flip(x.sign())


def log2_long(a: Real) -> Pair:
    """log2 a to 2^−65: s = f/(2 + f) as a pair, log(1 + f) = s (2 + s² (2/3 + s² Q(s²)))."""
    k, f = decompose_any(a)
    s = quotient(Pair(f, f.constant(0.0)), fast_two_sum(f.constant(2.0), f))
    s = fast_two_sum(s.high, s.low)
    square = two_product(s.high, s.high)
    u = Pair(square.high, fma(s.high + s.high, s.low, square.low))
    third, third_low = table.TWO_THIRDS["float64"]
    w = fast_two_sum(f.constant(third), u.high * polynomial(u.high, table.LOG_LONG["float64"]))
    v = product(u, Pair(w.high, w.low + third_low))
    g = fast_two_sum(f.constant(2.0), v.high)
    part = product(s, Pair(g.high, g.low + v.low))
    sum = add_exponent(k, times(part, table.LOG2_E["float64"]), (1.0,))
    return fast_two_sum(sum.high, sum.low)


def product(a: Pair, b: Pair) -> Pair:
    p = two_product(a.high, b.high)
    return Pair(p.high, fma(a.high, b.low, fma(a.low, b.high, p.low)))


def power_long(a: Real, y: Real) -> Real:
    """a^y = 2^(y log2 a) for finite a > 0, in float64."""
    e = product(log2_long(a), Pair(y, y.constant(0.0)))
    inside = e.high.fabs() < 1100.0
    high = within(e.high, -1100.0, 1100.0)
    low = select(inside, e.low, 0.0)
    n, n_bits = round_to_integer(high)
    r = high - n
    ln2, ln2_low = table.LN2_PAIR["float64"]
    p = two_product(r, ln2)
    s = fast_two_sum(r.constant(1.0), p.high)
    curve = r * r * polynomial(r, table.EXP2["float64"])
    tail = curve + fma(r, ln2_low, p.low)
    # 2^(r + low) ≈ 2^r (1 + low ln 2)
    return scale(s.high + (s.low + fma(low * ln2, s.high + tail, tail)), n_bits)


def power_short(a: Real, y: Real) -> Real:
    """The same for float32 numbers held in float64."""
    k, f = decompose(a)
    s = f / (f + 2.0)
    u = s * s
    part = s * fma(u, polynomial(u, table.LOG_SHORT["float64"]), 2.0)
    e = y * fma(part, table.LOG2_E["float64"][0], as_real(k))
    e = within(e, -300.0, 300.0)
    n, n_bits = round_to_integer(e)
    return polynomial(e - n, table.EXP2_SHORT["float64"]) * power_of_two(n_bits)


def power(x: Real, y: Real) -> Real:
    """|x|^|y| by logarithms; then signs and the special cases of IEEE 754, as C's pow has them."""
    a = x.fabs()
    # Far beyond what any a ≠ 1 needs to overflow, and not ∞, which times log2 1 = 0 is NaN.
    finite = within(y, -(2.0**70), 2.0**70)
    if x.format is FLOAT32:
        plain = power_short(a.to(FLOAT64), finite.to(FLOAT64)).to(FLOAT32)
    else:
        plain = power_long(a, finite)
    zero, infinite = a.equals(0.0), a.equals(math.inf)
    extreme = select(zero ^ (y < 0.0), 0.0, math.inf)
    z = select(zero | infinite, extreme, plain)
    integer = y.floor().equals(y)
    half = y * 0.5
    odd = integer & ~half.floor().equals(half)
    z = select(odd, z.flip(x.sign()), z)
    z = select((x < 0.0) & ~infinite & ~integer, math.nan, z)
    z = select(x.is_nan() | y.is_nan(), x + y, z)
    return select(y.equals(0.0) | x.equals(1.0), 1.0, z)
