"""arctan, arctan2, arcsin, arccos: z + z³ P(z²) on a short interval, moved there by an identity."""

from __future__ import annotations

import math

from . import coefficients as table
from .lanes import Mask, Real, fma, polynomial, power_of_two, select
from .pairs import Pair, fast_two_sum, quotient, root, two_sum

TAN_PI_8, TAN_3_PI_8 = math.sqrt(2) - 1, math.sqrt(2) + 1


def arc_of_ratio(y: Real, x: Real) -> Pair:
    """arctan(y/x) for x, y ≥ 0, neither near overflow, as base + arctan z with |z| ≤ tan π/8:

    z = y/x,  base 0;    z = (y − x)/(y + x),  base π/4;    z = −x/y,  base π/2.
    """
    P1, P2, _ = table.PI_2[x.format.name]
    low = y < x * TAN_PI_8
    high = y > x * TAN_3_PI_8
    difference, total = two_sum(y, -x), two_sum(y, x)
    zero = x.constant(0.0)

    def choose(a: Real, b: Real, c: Real) -> Real:
        return select(low, a, select(high, c, b))

    n = Pair(choose(y, difference.high, -x), choose(zero, difference.low, zero))
    d = Pair(choose(x, total.high, y), choose(zero, total.low, zero))
    z = quotient(n, d)
    u = z.high * z.high
    curve = z.high * u * polynomial(u, table.ARCTAN[x.format.name])
    base = choose(zero, x.constant(P1 / 2), x.constant(P1))
    s = two_sum(base, z.high)
    rest = choose(zero, x.constant(P2 / 2), x.constant(P2)) + (z.low + curve)
    return Pair(s.high, s.low + rest)


def arctan(x: Real) -> Real:
    # Far out the answer is π/2 to the last bit; near 0 it is x.
    a = x.fabs()
    y = arc_of_ratio(select(a > 2.0**60, 2.0**60, a), x.constant(1.0)).value()
    return select(a < 2.0**-30, a, y).flip(x.sign())


def arctan2(y: Real, x: Real) -> Real:
    """The angle of (x, y): arctan(|y|/|x|), reflected where x < 0, with the sign of y."""
    format = x.format
    a, b = y.fabs(), x.fabs()
    greater = select(a > b, a, b)
    # Both are divided by a power of two near the greater, so that no sum overflows or loses digits.
    shift = format.digits - 1
    lifted = greater < format.tiny * 4
    a, b = (select(lifted, v * 2.0**format.digits, v) for v in (a, b))
    exponent = ((select(a > b, a, b).bits() >> shift) & (2 * format.bias + 1)) - format.bias
    down = power_of_two(-(exponent - 1))  # a normal number at either end
    infinite, origin = greater.equals(math.inf), greater.equals(0.0)
    # Infinities count as 1 beside finite numbers; the origin as (1, 0).
    a = select(infinite, select(a.equals(math.inf), 1.0, 0.0), a * down)
    b = select(infinite, select(b.equals(math.inf), 1.0, 0.0), b * down)
    b = select(origin, 1.0, b)
    angle = arc_of_ratio(select(origin, 0.0, a), b)
    # A quotient too small for `quotient`'s residual is itself the angle.
    thin = a < b * 2.0**-30
    r = Pair(select(thin, a / b, angle.high), select(thin, 0.0, angle.low))
    P1, P2, _ = table.PI_2[format.name]
    s = two_sum(x.constant(2 * P1), -r.high)
    reflected = s.high + (s.low + (2 * P2 - r.low))
    left = x.sign().equals(1 << (format.width - 1))
    result = select(left, reflected, r.value()).flip(y.sign())
    return select(x.is_nan() | y.is_nan(), x + y, result)


def arcsin_small(x: Real) -> tuple[Real, Pair, Mask]:
    """z³ P(z²) and z, with z = |x| up to ½ (where the mask is set) and √((1 − |x|)/2) above."""
    a = x.fabs()
    small = a <= 0.5
    u = select(small, a * a, fma(a, -0.5, 0.5))
    zero = u.equals(0.0)
    r = root(Pair(select(zero, 1.0, u), x.constant(0.0)))
    z = Pair(select(small, a, select(zero, 0.0, r.high)), select(small | zero, 0.0, r.low))
    curve = z.high * (u * polynomial(u, table.ARCSIN[x.format.name]))
    return curve, z, small


def arcsin(x: Real) -> Real:
    """arcsin x = π/2 − 2 arcsin √((1 − x)/2)."""
    curve, z, small = arcsin_small(x)
    P1, P2, _ = table.PI_2[x.format.name]
    s = fast_two_sum(x.constant(P1), z.high * -2.0)
    large = s.high + (s.low + fma(curve + z.low, -2.0, P2))
    return select(small, z.high + curve, large).flip(x.sign())


def arccos(x: Real) -> Real:
    """arccos x = π/2 − arcsin x = 2 arcsin √((1 − x)/2) = π − 2 arcsin √((1 + x)/2)."""
    curve, z, small = arcsin_small(x)
    P1, P2, _ = table.PI_2[x.format.name]
    middle = fast_two_sum(x.constant(P1), -z.high.flip(x.sign()))
    centre = middle.high + (middle.low + (P2 - curve.flip(x.sign())))
    right = (z.high + (curve + z.low)) * 2.0
    s = fast_two_sum(x.constant(2 * P1), z.high * -2.0)
    left = s.high + (s.low + fma(curve + z.low, -2.0, 2 * P2))
    return select(small, centre, select(x < 0.0, left, right))
