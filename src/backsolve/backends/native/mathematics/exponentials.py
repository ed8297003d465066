"""exp and its family: x = n ln 2 + r with |r| ≤ ln 2 / 2, then exp x = 2ⁿ exp r, a polynomial."""

from __future__ import annotations

from . import coefficients as table
from .lanes import (
    Bits,
    Real,
    at_most,
    fma,
    polynomial,
    power_of_two,
    round_to_exponent,
    round_to_integer,
    scale,
    select,
    times_power,
    within,
)
from .pairs import Pair, fast_two_sum

# Where exp has long been 0 or ∞, and n still stands for an exponent.
LOWEST = {"float64": -746.0, "float32": -104.0}
HIGHEST = {"float64": 710.0, "float32": 89.0}


def reduce(x: Real) -> tuple[Bits, Pair]:
    """n and r = x − n ln 2. ln 2 = L₁ + L₂ where n L₁ is exact, so x − n L₁ is exact too."""
    name = x.format.name
    L1, L2 = table.LN2[name]
    n, n_bits = round_to_integer(x, table.LOG2_E[name][0])
    t = fma(n, -L1, x)
    high = fma(n, -L2, t)
    return n_bits, Pair(high, fma(n, -L2, t - high))


def curve(r: Real) -> Real:
    """exp r − 1 − r, r²/2 and beyond."""
    return r * r * polynomial(r, table.EXP[r.format.name])


def exp_up_to_one(x: Real, unit: float) -> Real:
    """exp x for x ≤ 0, scaled on its way by `unit`, so that a subnormal result is rounded once.

    With unit 1 it holds for normal results only."""
    name = x.format.name
    L1, L2 = table.LN2[name]
    n, n_bits = round_to_exponent(x, table.LOG2_E[name][0])
    r = fma(n, -L2, fma(n, -L1, x))
    y = fma(r * r, polynomial(r, table.EXP[name]), r) + 1.0
    y = y * times_power(unit, n_bits)
    return y if unit == 1.0 else y * (1.0 / unit)


def exp(x: Real) -> Real:
    """x = 2 m ln 2 + r with |r| ≤ ln 2: exp x = (exp r 2ᵐ) 2ᵐ, where 2ᵐ is a normal number, and only the
    last product rounds where the result is none. That costs two coefficients, and saves making two
    powers of two out of an odd exponent."""
    name = x.format.name
    x = within(x, LOWEST[name], HIGHEST[name])
    L1, L2 = table.LN2[name]
    m, m_bits = round_to_exponent(x, table.LOG2_E[name][0] / 2)
    r = fma(m, -2 * L2, fma(m, -2 * L1, x))
    y = fma(r * r, polynomial(r, table.EXP_WIDE[name]), r) + 1.0
    # Products that underflow take a processor ten times as long: masked entries of a softmax do not.
    power = select(x <= LOWEST[name], x.constant(0.0), times_power(1.0, m_bits))
    return y * power * power


def exp_pair(x: Real, low: Real | None = None) -> tuple[Pair, Bits]:
    """exp(x + low) = pair · 2ⁿ, to a few bits more than the format has."""
    n, r = reduce(x)
    rest = r.low if low is None else r.low + low
    s = fast_two_sum(x.constant(1.0), r.high)
    # exp(r + rest) ≈ exp r (1 + rest)
    bend = curve(r.high)
    tail = bend + fma(rest, r.high + bend, rest)
    return fast_two_sum(s.high, s.low + tail), n


def exp2(x: Real) -> Real:
    lowest, highest = (-1080.0, 1025.0) if x.format.width == 64 else (-155.0, 129.0)
    x = within(x, lowest, highest)
    n, n_bits = round_to_integer(x)
    r = x - n
    ln2 = x.format.round(sum(table.LN2[x.format.name]))
    return scale(fma(r, fma(r, polynomial(r, table.EXP2[x.format.name]), ln2), 1.0), n_bits)


def expm1(x: Real) -> Real:
    """(2ⁿ − 1 + 2ⁿ r) + 2ⁿ (exp r − 1 − r); half of it, for 2ⁿ may overflow."""
    name = x.format.name
    a = within(x, -50.0, HIGHEST[name])
    L1, L2 = table.LN2[name]
    n, n_bits = round_to_exponent(a, table.LOG2_E[name][0])
    r = fma(n, -L2, fma(n, -L1, a))
    power = times_power(0.5, n_bits)
    y = fma(r * r * power, polynomial(r, table.EXP[name]), fma(power, r, power - 0.5))
    # Halving would cost a subnormal number its last bit; −0 stays −0.
    return select(x.fabs() < 2.0**-60, x, y + y)


def tanh(x: Real) -> Real:
    """|x| = k ln 2 / 2 + h with 0 ≤ h ≤ ln 2 / 2, and exp 2h = (w + h)/(w − h) with w = h coth h, so

        tanh|x| = (z + h)/(z + w),   z = (2ᵏ − 1)/2 · (w + h).

    k = 0 gives h/w, where w alone is rounded; far out the numerator's rounding must not count, and so it
    is a part of the denominator, z + w = (z + h) + (w − h)."""
    name = x.format.name
    a = at_most(x.fabs(), 20.0 if x.format.width == 64 else 10.0)
    k, k_bits = round_to_exponent(a, 2 * table.LOG2_E[name][0], offset=-0.5)
    # One part of ln 2 is enough: k is small where the result's last bits still depend on h.
    h = fma(k, -table.LN2_PAIR[name][0] / 2, a)
    u = h * h
    w = fma(u, polynomial(u, table.COTH[name]), 1.0)
    n = (times_power(0.5, k_bits) - 0.5) * (w + h) + h
    return (n / (n + (w - h))).signed_as(x)


def quarter_exps(x: Real) -> tuple[Pair, Real]:
    """exp|x|/4 and exp(−|x|)/4: quarters, for sinh and cosh overflow later than exp does."""
    e, n = exp_pair(at_most(x.fabs(), 710.6 if x.format.width == 64 else 89.5))
    power = power_of_two(n - 2)
    up = Pair(e.high * power, e.low * power)
    return up, 0.0625 / up.high


def sinh(x: Real) -> Real:
    up, down = quarter_exps(x)
    d = fast_two_sum(up.high, -down)
    large = (d.high + (d.low + up.low)) * 2.0
    # Up to 1 the difference would cancel:  sinh x = x + x³ P(x²).
    a = x.fabs()
    u = a * a
    small = fma(a * u, polynomial(u, table.SINH[x.format.name]), a)
    return select(a < 1.0, small, large).flip(x.sign())


def cosh(x: Real) -> Real:
    up, down = quarter_exps(x)
    s = fast_two_sum(up.high, down)
    return (s.high + (s.low + up.low)) * 2.0


def sigmoid(x: Real) -> Real:
    """c/(c + c exp(−x)), where c is so small that c exp(−x) does not overflow before the quotient is 0.

    c is no power of two: quotients near 1 round best by a denominator in the upper half of its binade."""
    name, format = x.format.name, x.format
    x = within(x, LOWEST[name], 40.0 if format.width == 64 else 20.0)
    c = format.round(1.6 * (2.0**-60 if format.width == 64 else 2.0**-30))
    L1, L2 = table.LN2[name]
    n, n_bits = round_to_exponent(x, table.LOG2_E[name][0])
    r = fma(n, -L2, fma(n, -L1, x))
    # −expm1(−r), of alternating coefficients
    p = fma(
        r * r, polynomial(r, [-v if k % 2 == 0 else v for k, v in enumerate(table.EXP[name])]), r
    )
    a = times_power(c, n_bits, sign=-1)
    return c / (fma(-a, p, c) + a)
