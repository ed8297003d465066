"""x modulo π/2: the quarter turn n and the rest r, |r| ≤ π/4.

`narrow` (Cody and Waite): r = x − n P₁ − n P₂ − n P₃ where P₁ + P₂ + P₃ = π/2. The first difference is
exact by fma, for both terms are multiples of an ulp of P₁ and the result is below 1; so r has all its
digits, however many of them cancelled. It holds up to LIMIT: n must be exact, and n P₃ keep enough
digits for the x that lies closest to a multiple of π/2.

`wide` (Payne and Hanek) holds for every finite x, r as a pair: x 2/π modulo 4, where of 2/π only the
digits that matter are multiplied. x = x' 2^(16 j) with 1 ≤ x' < 2^16, a multiple of 2^(1−digits): the
multiples of 2^(digits+1) in 2/π 2^(16 j) give multiples of 4, so a table has row j without them, in parts.
"""

from __future__ import annotations

from llvmlite import ir

from . import coefficients as table
from .lanes import (
    FLOAT64,
    Bits,
    Real,
    fma,
    power_of_two,
    round_to_integer,
    select,
    select_bits,
)
from .pairs import Pair, fast_two_sum, two_product, two_sum

TWO_OVER_PI = 0.6366197723675814
PI_2 = 1.5707963267948966
LIMIT = {"float64": 2.0**30, "float32": 2.0**15}


def narrow(x: Real) -> tuple[Bits, Real]:
    """For |x| ≤ LIMIT, signed; −0 stays −0, for n = +0 times −Pᵢ < 0 is −0."""
    n, quarter = round_to_integer(x, TWO_OVER_PI)
    r = x
    for P in table.PI_2_DOWN[x.format.name]:
        r = fma(n, -P, r)
    return quarter, r


def narrow_pair(a: Real) -> tuple[Bits, Pair]:
    """The same for 0 ≤ a ≤ LIMIT, to twice the digits."""
    P1, P2, P3 = table.PI_2[a.format.name]
    n, quarter = round_to_integer(a, TWO_OVER_PI)
    p = two_product(n, P2)
    r = two_sum(fma(n, -P1, a), -p.high)
    return quarter, Pair(r.high, fma(n, -P3, r.low - p.low))


def modulo_four(p: Real) -> Real:
    """p less its nearest multiple of 4: exact."""
    return fma((p * 0.25).nearest(), -4.0, p)


def row_of(a: Real) -> Bits:
    """j = max(exponent, 0) // 16; 0 for ∞ and NaN, whose products are NaN whatever the row."""
    format = a.format
    exponent = (a.bits() >> (format.digits - 1)) - format.bias
    return (select_bits(exponent < 0, 0, exponent) & format.bias) >> 4


def load(a: Real, j: Bits, parts: int) -> list[Real]:
    """Row j of 2/π, in float64 for both formats."""
    name = f"backsolve.two_over_pi.{a.format.name}"
    module = a.b.module
    array = module.globals.get(name)
    if array is None:
        values = [v for row in table.TWO_OVER_PI[a.format.name] for v in row]
        type = ir.ArrayType(FLOAT64.real, len(values))
        array = ir.GlobalVariable(module, type, name)
        array.initializer = ir.Constant(type, [ir.Constant(FLOAT64.real, v) for v in values])
        array.global_constant = True
        array.linkage = "internal"
    start = (j << 2) if parts == 4 else (j << 1) + j
    zero = ir.Constant(start.format.bits, 0)
    return [
        Real(a.b, a.b.load(a.b.gep(array, [zero, (start + i).value], inbounds=True)), FLOAT64)
        for i in range(parts)
    ]


def wide(a: Real) -> tuple[Bits, Pair]:
    """For a ≥ 0 in float64."""
    j = row_of(a)
    T0, T1, T2, T3 = load(a, j, 4)
    x = a * power_of_two(-(j << 4))
    p0, p1, p2 = two_product(x, T0), two_product(x, T1), two_product(x, T2)
    # The first three may hold multiples of 4. Then the sum, whose leading digits may all cancel.
    g = two_sum(modulo_four(p0.high), modulo_four(p0.low))
    h = two_sum(g.high, modulo_four(p1.high))
    n, quarter = round_to_integer(h.high)
    low = two_sum(p1.low, p2.high)
    lost = two_sum(g.low, h.low)
    s = two_sum(h.high - n, low.high)
    t = two_sum(s.high, lost.high)
    rest = (s.low + t.low) + (low.low + lost.low) + fma(x, T3, p2.low)
    f = fast_two_sum(t.high, rest)
    P1, P2, _ = table.PI_2[a.format.name]
    r = two_product(f.high, P1)
    r_low = fma(f.high, P2, fma(f.low, P1, r.low))
    # Below π/4 nothing is reduced, and nothing may be lost.
    small = a < 0.78
    return quarter, Pair(select(small, a, r.high), select(small, 0.0, r_low))


def wide_single(a: Real) -> tuple[Bits, Real]:
    """For a ≥ 0 in float32: n and r in float64. The first two products have at most 53 bits."""
    j = row_of(a)
    T0, T1, T2 = load(a, j, 3)
    j_long = Bits(a.b, a.b.zext(j.value, FLOAT64.bits), FLOAT64)
    x = a.to(FLOAT64) * power_of_two(-(j_long << 4))
    f0, f1 = modulo_four(x * T0), modulo_four(x * T1)
    n, quarter = round_to_integer(f0 + f1)
    r = fma(x, T2, (f0 - n) + f1) * PI_2
    return quarter, r
