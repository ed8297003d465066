"""Integers of every width, signed and unsigned, and booleans, which are one bit.

As NumPy has them: division rounds down and by 0 gives 0, a shift by all bits or more gives what is
left of the sign, and arithmetic wraps around.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from ....ir import Equation
from .real import TESTS, Rule, intrinsic
from .registers import BOOL, BYTE, convert


def _divisor(b: ir.IRBuilder, y: ir.Value, signed: bool) -> tuple[ir.Value, list[ir.Value]]:
    """A divisor that no processor traps on, and where it is 0 and (signed) −1."""
    one = y.type(1)
    zero = b.icmp_unsigned("==", y, y.type(0))
    minus = b.icmp_signed("==", y, y.type(-1)) if signed else BOOL(0)
    return b.select(b.or_(zero, minus), one, y), [zero, minus]


def floor_divide(signed: bool) -> Rule:
    def rule(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        safe, (zero, minus) = _divisor(b, y, signed)
        if not signed:
            return b.select(zero, x.type(0), b.udiv(x, safe))
        q = b.sdiv(x, safe)
        r = b.sub(x, b.mul(q, safe))
        apart = b.icmp_signed("<", b.xor(r, safe), x.type(0))
        down = b.and_(apart, b.icmp_signed("!=", r, x.type(0)))
        q = b.sub(q, b.zext(down, x.type))
        return b.select(zero, x.type(0), b.select(minus, b.neg(x), q))

    return rule


def remainder(signed: bool) -> Rule:
    """Python's: the sign of the divisor."""

    def rule(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        r = fmod(signed)(b, x, y)
        if not signed:
            return r
        apart = b.icmp_signed("<", b.xor(r, y), x.type(0))
        wrong = b.and_(apart, b.icmp_signed("!=", r, x.type(0)))
        return b.select(wrong, b.add(r, y), r)

    return rule


def fmod(signed: bool) -> Rule:
    """C's: the sign of the dividend."""

    def rule(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        safe, (zero, minus) = _divisor(b, y, signed)
        r = b.srem(x, safe) if signed else b.urem(x, safe)
        return b.select(b.or_(zero, minus), x.type(0), r)  # x mod ±1 is 0, and x mod 0 NumPy's 0

    return rule


def power(signed: bool) -> Rule:
    """By squaring. (A negative exponent is an error, which the kernel raises.)"""

    def rule(b: ir.IRBuilder, x: ir.Value, n: ir.Value) -> ir.Value:
        one = x.type(1)
        if isinstance(n, ir.Constant):
            return multiplied_out(b, x, max(int(n.constant), 0))
        _, result, _ = while_(
            b,
            [n, one, x],
            lambda b, n, y, x: b.icmp_unsigned("!=", n, n.type(0)),
            lambda b, n, y, x: [
                b.lshr(n, n.type(1)),
                b.select(b.trunc(n, BOOL), b.mul(y, x), y),
                b.mul(x, x),
            ],
        )
        return result

    return rule


def multiplied_out(b: ir.IRBuilder, x: ir.Value, n: int) -> ir.Value:
    y = x.type(1)
    while n:
        y, x, n = b.mul(y, x) if n & 1 else y, b.mul(x, x), n >> 1
    return y


def gcd(signed: bool) -> Rule:
    def rule(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        if signed:
            x, y = absolute(b, x), absolute(b, y)
        found, _ = while_(
            b,
            [x, y],
            lambda b, x, y: b.icmp_unsigned("!=", y, y.type(0)),
            lambda b, x, y: [y, b.urem(x, y)],
        )
        return found

    return rule


def lcm(signed: bool) -> Rule:
    def rule(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        if signed:
            x, y = absolute(b, x), absolute(b, y)
        common = gcd(False)(b, x, y)
        nothing = b.icmp_unsigned("==", common, x.type(0))
        safe = b.select(nothing, x.type(1), common)
        return b.mul(b.udiv(x, safe), y)

    return rule


def while_(
    b: ir.IRBuilder, start: list[ir.Value], condition: Rule, step: Callable[..., list[ir.Value]]
) -> list[ir.Value]:
    """while condition(*state): state = step(*state)."""
    before = b.block
    head, body = b.append_basic_block("while"), b.append_basic_block("again")
    done = b.append_basic_block("enough")
    b.branch(head)
    b.position_at_end(head)
    state = [b.phi(v.type) for v in start]
    for phi, v in zip(state, start, strict=True):
        phi.add_incoming(v, before)
    b.cbranch(condition(b, *state), body, done)
    b.position_at_end(body)
    new = step(b, *state)
    for phi, v in zip(state, new, strict=True):
        phi.add_incoming(v, b.block)
    b.branch(head)
    b.position_at_end(done)
    return state


def absolute(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return b.select(b.icmp_signed("<", x, x.type(0)), b.neg(x), x)


def _sign(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    above = b.zext(b.icmp_signed(">", x, x.type(0)), x.type)
    return b.sub(above, b.zext(b.icmp_signed("<", x, x.type(0)), x.type))


def _chosen(test: str, signed: bool) -> Rule:
    def rule(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        compare = b.icmp_signed if signed else b.icmp_unsigned
        return b.select(compare(test, x, y), x, y)

    return rule


def _shift(left: bool, signed: bool) -> Rule:
    def rule(b: ir.IRBuilder, x: ir.Value, n: ir.Value) -> ir.Value:
        last = x.type(x.type.width - 1)
        fits = b.icmp_unsigned("<=", n, last)
        safe = b.select(fits, n, last)
        if left:
            return b.select(fits, b.shl(x, safe), x.type(0))
        if signed:
            return b.ashr(x, safe)  # beyond all bits only the sign is left
        return b.select(fits, b.lshr(x, safe), x.type(0))

    return rule


def _test(op: str, signed: bool) -> Rule:
    return lambda b, x, y: (b.icmp_signed if signed else b.icmp_unsigned)(op, x, y)


def compare_across(b: ir.IRBuilder, name: str, x: ir.Value, y: ir.Value, first: bool) -> ir.Value:
    """A signed and an unsigned 64-bit integer, exactly; `first` says that x is the signed one."""
    signed = x if first else y
    below = b.icmp_signed("<", signed, signed.type(0))
    plain = b.icmp_unsigned(TESTS[name], x, y)
    smaller = name in (("less", "less_equal") if first else ("greater", "greater_equal"))
    return b.select(below, BOOL(int(smaller or name == "not_equal")), plain)


def _reciprocal(signed: bool) -> Rule:
    """1/x as a float, cut off. What 1/0 becomes is what NumPy's conversion of infinity does on this machine."""

    def rule(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        dtype, double = np.dtype(f"{'i' if signed else 'u'}{x.type.width // 8}"), np.dtype("f8")
        y = b.fdiv(ir.Constant(ir.DoubleType(), 1.0), convert(b, x, dtype, double))
        with np.errstate(all="ignore"):
            at_zero = int(np.reciprocal(np.zeros(1, dtype))[0])
        zero = b.icmp_signed("==", x, x.type(0))
        return b.select(zero, x.type(at_zero), convert(b, y, double, dtype))

    return rule


def _bitwise_count(signed: bool) -> Rule:
    def rule(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        count = intrinsic("llvm.ctpop")(b, absolute(b, x) if signed else x)
        return count if x.type == BYTE else b.trunc(count, BYTE)

    return rule


def _clip(lower: Rule, upper: Rule) -> Rule:
    return lambda b, x, low, high: upper(b, lower(b, x, low), high)


def _same(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return x


def _always(truth: bool) -> Rule:
    return lambda b, x: BOOL(int(truth))


_WHOLE: dict[str, Rule] = {
    **dict.fromkeys(("floor", "ceil", "trunc", "conjugate", "real"), _same),
    **dict.fromkeys(("isnan", "isinf", "isposinf", "isneginf"), _always(False)),
    "isfinite": _always(True),
    "imag": lambda b, x: x.type(0),
    "bitwise_and": lambda b, x, y: b.and_(x, y),
    "bitwise_or": lambda b, x, y: b.or_(x, y),
    "bitwise_xor": lambda b, x, y: b.xor(x, y),
    "invert": lambda b, x: b.not_(x),
}


def _integers(signed: bool) -> dict[str, Rule]:
    return {
        "add": lambda b, x, y: b.add(x, y),
        "subtract": lambda b, x, y: b.sub(x, y),
        "multiply": lambda b, x, y: b.mul(x, y),
        "negative": lambda b, x: b.neg(x),
        "square": lambda b, x: b.mul(x, x),
        "reciprocal": _reciprocal(signed),
        "floor_divide": floor_divide(signed),
        "remainder": remainder(signed),
        "fmod": fmod(signed),
        "power": power(signed),
        "gcd": gcd(signed),
        "lcm": lcm(signed),
        "left_shift": _shift(True, signed),
        "right_shift": _shift(False, signed),
        "bitwise_count": _bitwise_count(signed),
        **dict.fromkeys(("maximum", "fmax"), _chosen(">", signed)),
        **dict.fromkeys(("minimum", "fmin"), _chosen("<", signed)),
        "clip": _clip(_chosen(">", signed), _chosen("<", signed)),
        **{name: _test(op, signed) for name, op in TESTS.items()},
        **_WHOLE,
    }


def _by_zero(b: ir.IRBuilder, x: Any, n: Any) -> Any:
    return b.icmp_signed("==", n, n.type(0))


# What is refused, told by the inputs; the kernel raises it. (NumPy warns of a division by zero.)
REFUSED: dict[str, tuple[type[Exception], str, Rule]] = {
    **{
        name: (ZeroDivisionError, f"integer division by zero in `{name}`", _by_zero)
        for name in ("floor_divide", "remainder", "fmod")
    },
    "power": (
        ValueError,
        "Integers to negative integer powers are not allowed.",
        lambda b, x, n: b.icmp_signed("<", n, n.type(0)),
    ),
}


def _times(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.extract_value(b.smul_with_overflow(x, y), 1)


def _least(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return b.icmp_signed("==", x, x.type(-(1 << 63)))


OVERFLOW = (OverflowError, "a Python integer outgrew the 64 bits that it has in compiled code")


def is_python_integer(e: Equation) -> bool:
    return bool(e.outputs[0].type.weak) and e.outputs[0].dtype.kind in "iu"


# Whether the result of Python's integers has more than 64 bits (bounds.py).
OUTGROWS: dict[str, Rule] = {
    "add": lambda b, x, y: b.extract_value(b.sadd_with_overflow(x, y), 1),
    "subtract": lambda b, x, y: b.extract_value(b.ssub_with_overflow(x, y), 1),
    "multiply": _times,
    "square": lambda b, x: _times(b, x, x),
    "negative": _least,
    "absolute": _least,
}
SIGNED: dict[str, Rule] = {
    **_integers(True),
    "absolute": absolute,
    "sign": _sign,
    "signbit": lambda b, x: b.icmp_signed("<", x, x.type(0)),
}
UNSIGNED: dict[str, Rule] = {
    **_integers(False),
    "absolute": _same,
    "sign": lambda b, x: b.zext(b.icmp_unsigned("!=", x, x.type(0)), x.type),
    "signbit": _always(False),
}


def _or(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.or_(x, y)


def _and(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.and_(x, y)


LOGIC: dict[str, Rule] = {
    **dict.fromkeys(("add", "logical_or", "maximum", "fmax"), _or),
    **dict.fromkeys(("multiply", "logical_and", "minimum", "fmin"), _and),
    "logical_xor": lambda b, x, y: b.xor(x, y),
    "logical_not": lambda b, x: b.not_(x),
    "clip": _clip(_or, _and),
    "absolute": _same,
    "signbit": _always(False),
    "bitwise_count": lambda b, x: b.zext(x, BYTE),
    **{name: _test(op, False) for name, op in TESTS.items()},
    **_WHOLE,
}
