"""erf and erfc.

erfc x = exp(−x²) G(x) for x ≥ 0, where (1 + 2 x) G(x) varies little, from 1 to 2/√π: a polynomial in
t = (x − c)/(x + c), which maps [0, ∞) to [−1, 1).

erf x = x + x E(x²) up to 1. From there on it is 1 − exp(−L(x)), L = −log erfc, where erfc is small and
need not be known to all its digits: L is a polynomial.
"""

from __future__ import annotations

from . import coefficients as table
from .exponentials import exp_pair, exp_up_to_one
from .lanes import Real, at_most, fma, polynomial, scale, select
from .pairs import fast_two_sum, quotient, two_product, two_sum

CENTRE = {"float64": 4.75, "float32": 3.0}  # those of derive.py
END = {"float64": 28.0, "float32": 10.5}  # where erfc has long been 0


def erfc_large(a: Real) -> Real:
    """erfc a for a ≥ 0.8."""
    name = a.format.name
    a = at_most(a, END[name])
    first, *others = table.ERFCX[name]
    t = (a - CENTRE[name]) / (a + CENTRE[name])
    p = fast_two_sum(a.constant(first), t * polynomial(t, others))
    d = two_sum(a.constant(1.0), a + a)
    g = quotient(p, d)
    square = two_product(a, a)
    e, n = exp_pair(-square.high, -square.low)
    y = two_product(g.high, e.high)
    return scale(y.high + fma(g.high, e.low, fma(g.low, e.high, y.low)), n)


def excess(a: Real) -> Real:
    """erf a − a, for a ≤ 1."""
    return a * polynomial(a * a, table.ERF[a.format.name])


def erfc(x: Real) -> Real:
    """1 − erf x near 0, and 2 − erfc(−x) for x far below."""
    a = x.fabs()
    near = fast_two_sum(x.constant(1.0), -x)
    small = near.high + (near.low - excess(x))
    large = erfc_large(a)
    return select(a < 0.8, small, select(x < 0.0, 2.0 - large, large))


def erf(x: Real) -> Real:
    a = x.fabs()
    last = 6.0 if x.format.width == 64 else 4.0  # erf is 1 from there on
    t = at_most(a, last) - 1.0
    large = 1.0 - exp_up_to_one(-polynomial(t, table.ERF_LOG[x.format.name]), unit=1.0)
    return select(a < 1.0, a + excess(a), large).signed_as(x)
