"""sin, cos, tan: modulo π/2, then a polynomial of each of sin and cos on [−π/4, π/4], and a choice.

Each has a narrow form, for |x| up to reduction.LIMIT, and a wide form for every x (see reduction.py).
"""

from __future__ import annotations

from . import coefficients as table
from . import reduction
from .lanes import FLOAT64, Bits, Mask, Real, fma, polynomial, select
from .pairs import Pair, fast_two_sum, quotient


def sine(r: Pair) -> Pair:
    """sin(h + l) ≈ h + (h³ S(h²) + l cos h),  cos h ≈ 1 − h²/2 beside l."""
    u = r.high * r.high
    tail = r.low * fma(u, -0.5, 1.0)
    return Pair(r.high, fma(r.high * u, polynomial(u, table.SIN[u.format.name]), tail))


def plain_sine(r: Real) -> Real:
    u = r * r
    # (The sum of −0 and +0 would be +0.)
    return fma(r * u, polynomial(u, table.SIN[r.format.name]), r).signed_as(r)


def plain_cosine(r: Real) -> Real:
    u = r * r
    return fma(u, fma(u, polynomial(u, table.COS[r.format.name]), -0.5), 1.0)


def cosine(r: Pair) -> Pair:
    """cos(h + l) ≈ 1 − h²/2 + (h⁴ C(h²) − h l), the rounding of h² and 1 − h²/2 given back."""
    u = r.high * r.high
    u_low = fma(r.high, r.high, -u)
    half = u * 0.5
    main = 1.0 - half
    lost = (1.0 - main) - half
    tail = fma(u * u, polynomial(u, table.COS[u.format.name]), lost)
    return Pair(main, tail - fma(r.high, r.low, u_low * 0.5))


def sine_and_cosine(x: Real, wide: bool = True) -> tuple[Pair, Pair, Bits]:
    """sin r, cos r and the quarter turn, of |x|; float32 by `wide` in float64, where r needs no pair."""
    a = x.fabs()
    if x.format is FLOAT64 or not wide:
        quarter, pair = (reduction.wide if wide else reduction.narrow_pair)(a)
        return sine(pair), cosine(pair), quarter
    quarter, r = reduction.wide_single(a)
    u = r * r
    s = r * u * polynomial(u, table.SIN_SHORT["float64"])
    c = u * u * polynomial(u, table.COS_SHORT["float64"])
    return Pair(r, s), Pair(fma(u, -0.5, 1.0), c), quarter


def is_odd(quarter: Bits) -> Mask:
    return (quarter & 1).equals(1)


def turned(x: Real, y: Real, quarter: Bits) -> Real:
    """±y: negated in the second half turn."""
    sign = (quarter >> 1) << (y.format.width - 1)
    return y.flip(sign).to(x.format)


def both(x: Real, wide: bool) -> tuple[Real, Real]:
    """sin x, cos x."""
    if wide:
        pair_s, pair_c, quarter = sine_and_cosine(x)
        s, c = pair_s.value(), pair_c.value()
    else:
        quarter, r = reduction.narrow(x)
        s, c = plain_sine(r), plain_cosine(r)
    odd = is_odd(quarter)
    sin = turned(x, select(odd, c, s), quarter)
    # The wide reduction is one of |x|.
    return sin.flip(x.sign()) if wide else sin, turned(x, select(odd, s, c), quarter + 1)


def sin(x: Real, wide: bool = True) -> Real:
    return both(x, wide)[0]


def cos(x: Real, wide: bool = True) -> Real:
    return both(x, wide)[1]


def tan(x: Real, wide: bool = True) -> Real:
    """sin/cos or −cos/sin, as pairs: three plain roundings would be too many."""
    s, c, quarter = sine_and_cosine(x, wide)
    s, c = fast_two_sum(*s), fast_two_sum(*c)
    odd = is_odd(quarter)
    n = Pair(select(odd, c.high, s.high), select(odd, c.low, s.low))
    d = Pair(select(odd, s.high, c.high), select(odd, s.low, c.low))
    y = quotient(n, d).value()
    y = y.flip(quarter << (y.format.width - 1)).to(x.format)
    return y.flip(x.sign())
