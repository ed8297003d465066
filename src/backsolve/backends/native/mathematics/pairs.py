"""Double-length arithmetic: a number as the unevaluated sum high + low, |low| ≤ ulp(high)/2.

Knuth's and Dekker's error-free transformations, and with fma the exact product.
"""

from __future__ import annotations

from typing import NamedTuple

from .lanes import Real, fma


class Pair(NamedTuple):
    high: Real
    low: Real

    def value(self) -> Real:
        return self.high + self.low


def two_sum(a: Real, b: Real) -> Pair:
    """a + b = high + low exactly."""
    s = a + b
    t = s - a
    return Pair(s, (a - (s - t)) + (b - t))


def fast_two_sum(a: Real, b: Real) -> Pair:
    """a + b = high + low exactly, where |a| ≥ |b| or a = 0."""
    s = a + b
    return Pair(s, b - (s - a))


def two_product(a: Real, b: Real | float) -> Pair:
    """a b = high + low exactly (short of underflow)."""
    p = a * b
    return Pair(p, fma(a, b, -p))


def quotient(n: Pair, d: Pair) -> Pair:
    """n / d, one division:  q = n·(1/d),  and q's residual  (n − q d)/d."""
    inverse = 1.0 / d.high
    q = n.high * inverse
    rest = fma(-q, d.high, n.high) + fma(-q, d.low, n.low)
    return Pair(q, rest * inverse)


def root(p: Pair) -> Pair:
    """√p for p > 0:  s = √high,  and the residual (p − s²)/(2 s)."""
    s = p.high.sqrt()
    return Pair(s, (fma(-s, s, p.high) + p.low) / (s + s))
