"""Functions of a number's bits: its neighbours, and its exponent. All exact."""

from __future__ import annotations

from .lanes import Bits, Real, power_of_two, select, select_bits

TINIEST = 1  # the bits of the smallest number above 0


def nextafter(x: Real, y: Real) -> Real:
    """The neighbour of x on the side of y: |x| has the next bit pattern, up or down."""
    zero = x.equals(0.0)
    away = ~((x > 0.0) ^ (x < y))
    moved = select_bits(away, x.bits() + 1, x.bits() - 1)
    tiny = Bits(x.b, x.format.bits(TINIEST), x.format) | y.sign()
    z = select_bits(zero, tiny, moved).real()
    z = select(x.equals(y), y, z)
    return select(x.is_nan() | y.is_nan(), x + y, z)


def spacing(x: Real) -> Real:
    """The distance to the neighbour away from 0, with the sign of x; NaN of infinities."""
    away = select_bits(x.equals(0.0), TINIEST, x.bits() + 1)
    finite = x.fabs() < float("inf")
    return select(finite, away.real() - x, float("nan"))


def ldexp(x: Real, n: Bits) -> Real:
    """x 2ⁿ, rounded once: a step down stays so far above the subnormal numbers that no digit is lost."""
    high, low = x.format.bias, 1 - x.format.bias
    down = low + x.format.digits
    n = between(n, -4 * high, 4 * high)
    for _ in range(2):
        up, deep = ~(n < high + 1), n < low
        x = x * select(up, 2.0**high, select(deep, 2.0**down, 1.0))
        n = n - select_bits(up, high, select_bits(deep, down, 0))
    return x * power_of_two(between(n, low, high))


def between(n: Bits, low: int, high: int) -> Bits:
    n = select_bits(n < low, low, n)
    return select_bits(n < high, n, high)
