"""exp and its family: x = n ln 2 + r with |r| ≤ ln 2 / 2, then exp x = 2ⁿ exp r, a polynomial."""

from __future__ import annotations

from . import coefficients as table
from .lanes import (
    Bits,
    Real,
    at_least,
    at_most,
    fma,
    polynomial,
    power_of_two,
    round_to_integer,
    scale,
    select,
)
from .pairs import Pair, fast_two_sum, quotient, two_sum

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


def exp_parts(x: Real) -> tuple[Real, Bits]:
    """exp x = y 2ⁿ, ½ < y < 2."""
    n, r = reduce(x)
    return (r.high + curve(r.high)) + 1.0, n


def exp(x: Real) -> Real:
    return scale(*exp_parts(at_least(at_most(x, HIGHEST[x.format.name]), LOWEST[x.format.name])))


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
    x = at_least(at_most(x, highest), lowest)
    n, n_bits = round_to_integer(x)
    r = x - n
    ln2 = x.format.round(sum(table.LN2[x.format.name]))
    return scale(fma(r, fma(r, polynomial(r, table.EXP2[x.format.name]), ln2), 1.0), n_bits)


def expm1_pair(x: Real, half: bool = False) -> Pair:
    """exp x − 1 (half of it, where 2ⁿ may overflow), for x > −60: 2ⁿ − 1 and 2ⁿ (exp r − 1), added."""
    n, r = reduce(x)
    p = fast_two_sum(r.high, curve(r.high))
    p_low = p.low + fma(r.low, r.high, r.low)
    unit = 0.5 if half else 1.0
    power = power_of_two(n - 1 if half else n)
    base = power - unit
    lost = (power - base) - unit  # what the rounding of 2ⁿ − 1 dropped
    s = two_sum(base, power * p.high)
    return fast_two_sum(s.high, s.low + fma(power, p_low, lost))


def expm1(x: Real) -> Real:
    y = expm1_pair(at_least(at_most(x, HIGHEST[x.format.name]), -50.0), half=True).value()
    # Halving would cost a subnormal number its last bit; −0 stays −0.
    return select(x.fabs() < 2.0**-60, x, y + y)


def tanh(x: Real) -> Real:
    """E/(E + 2) with E = exp(2|x|) − 1."""
    a = at_most(x.fabs(), 20.0 if x.format.width == 64 else 10.0)
    E = expm1_pair(a + a)
    d = two_sum(E.high, x.constant(2.0))
    return quotient(E, Pair(d.high, d.low + E.low)).value().flip(x.sign())


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
    """1/(1 + t) for x ≥ 0 and t/(1 + t) below, t = exp(−|x|)."""
    t = exp(-x.fabs())
    numerator = Pair(select(x < 0.0, t, 1.0), x.constant(0.0))
    return quotient(numerator, fast_two_sum(x.constant(1.0), t)).value()
