"""Light simplification: what is exact in floating point, or loses no more than the sign of a zero.

0 · x is left alone, since x may be infinite; zeros of differentiation are structural and never
written down at all (derive.py). Sums are not re-associated, products of numbers only if exact.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np

from ..primitive import P
from .expr import SIMPLER, Call, Expr, Number, call

Rule = Callable[..., Expr | None]


def simpler(name: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        SIMPLER[name] = rule
        return rule

    return register


def is_real(e: Expr) -> TypeGuard[Number]:
    return isinstance(e, Number) and type(e.value) in (int, float)


def equals(e: Expr, value: float) -> bool:
    """Is `e` this very number? (True is not 1.)"""
    return is_real(e) and e.value == value


def is_call(e: Expr, name: str) -> bool:
    return isinstance(e, Call) and e.primitive.name == name


def below_zero(e: Expr) -> bool:
    """−c or −a: a term that would rather be subtracted."""
    return is_call(e, "negative") or (is_real(e) and e.value < 0)


def exact_product(a: Number, b: Number) -> Number | None:
    """The number a · b if floating point computes it without rounding."""
    x, y = a.value, b.value
    if not (np.isfinite(x) and np.isfinite(y)):
        return None
    product = x * y
    exact = np.isfinite(product) and Fraction(product) == Fraction(x) * Fraction(y)
    return Number(product) if exact else None


@simpler("add")
def _add(a: Expr, b: Expr) -> Expr | None:
    if equals(a, 0):
        return b
    if equals(b, 0):
        return a
    if a is b:
        return 2 * a
    if below_zero(b):
        return a - (-b)
    return b - (-a) if is_call(a, "negative") else None


@simpler("subtract")
def _subtract(a: Expr, b: Expr) -> Expr | None:
    if equals(b, 0):
        return a
    if equals(a, 0):
        return -b
    return a + (-b) if below_zero(b) else None


@simpler("negative")
def _negative(a: Expr) -> Expr | None:
    return a.args[0] if is_call(a, "negative") else None


# Signs go to the front of a product or a quotient, so that sums can subtract it.


@simpler("multiply")
def _multiply(a: Expr, b: Expr) -> Expr | None:
    if isinstance(b, Number):
        return b * a  # numbers stand first
    if equals(a, 1):
        return b
    if below_zero(a):
        return -((-a) * b)
    if is_call(b, "negative"):
        return -(a * b.args[0])
    if is_call(b, "multiply"):
        c, rest = b.args
        product = exact_product(a, c) if is_real(a) and is_real(c) else None
        if product is not None:
            return product * rest
    # t · (1/b) and (1/b) · t round twice where t/b rounds once.
    if is_call(b, "divide") and equals(b.args[0], 1):
        return a / b.args[1]
    if is_call(a, "divide") and equals(a.args[0], 1):
        return b / a.args[1]
    return None


@simpler("divide")
def _divide(a: Expr, b: Expr) -> Expr | None:
    if equals(b, 1):
        return a
    if below_zero(a):
        return -((-a) / b)
    return -(a / (-b)) if below_zero(b) else None


@simpler("power")
def _power(a: Expr, b: Expr) -> Expr | None:
    if equals(b, 1):
        return a
    return Number(1.0) if equals(b, 0) else None  # IEEE: also ∞⁰ and NaN⁰


@simpler("where")
def _where(c: Expr, a: Expr, b: Expr) -> Expr | None:
    if isinstance(c, Number):
        return a if c.value else b
    if a is b:
        return a
    if is_call(a, "where") and a.args[0] is c:
        return call(P.where, c, a.args[1], b)
    if is_call(b, "where") and b.args[0] is c:
        return call(P.where, c, a, b.args[2])
    return None


@simpler("logical_and")
def _logical_and(a: Expr, b: Expr) -> Expr | None:
    if a is b:
        return a
    if isinstance(a, Number):
        return b if a.value else Number(False)
    if isinstance(b, Number):
        return a if b.value else Number(False)
    return None


@simpler("logical_or")
def _logical_or(a: Expr, b: Expr) -> Expr | None:
    if a is b:
        return a
    if isinstance(a, Number):
        return Number(True) if a.value else b
    if isinstance(b, Number):
        return Number(True) if b.value else a
    return None


@simpler("logical_not")
def _logical_not(a: Expr) -> Expr | None:
    return a.args[0] if is_call(a, "logical_not") else None


@simpler("conjugate")
def _conjugate(a: Expr) -> Expr | None:
    return a if a.dtype.kind != "c" else None


def _itself(a: Expr, **params: Any) -> Expr:
    """Nothing to do, unless the type changes, which `call` finds out."""
    return a


for _name in ("alias", "cast", "cast_discrete", "real"):
    SIMPLER[_name] = _itself
