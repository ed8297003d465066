"""Floats: arithmetic, comparison, rounding. NaN and signed zeros behave as NumPy's: no fast-math."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from ..mathematics import EMITTERS, emitter, exponents

Rule = Callable[..., Any]
TESTS = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}


def intrinsic(name: str) -> Rule:
    def rule(b: ir.IRBuilder, *args: ir.Value) -> ir.Value:
        t = args[0].type
        function = b.module.declare_intrinsic(name, [t], ir.FunctionType(t, [t] * len(args)))
        return b.call(function, args)

    return rule


fabs, copysign = intrinsic("llvm.fabs"), intrinsic("llvm.copysign")
# NaN if either is, as NumPy has it; one instruction on arm64, and a reduction LLVM can vectorise.
maximum, minimum = intrinsic("llvm.maximum"), intrinsic("llvm.minimum")


def _sign(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """−1, 0, 1; NaN of NaN, and the zero itself (NumPy keeps no sign of zero: 0.0)."""
    zero, one = ir.Constant(x.type, 0.0), ir.Constant(x.type, 1.0)
    up = b.select(b.fcmp_ordered(">", x, zero), one, zero)
    signed = b.select(b.fcmp_ordered("<", x, zero), ir.Constant(x.type, -1.0), up)
    return b.select(b.fcmp_unordered("uno", x, x), x, signed)


def _is_infinite(sign: float | None) -> Rule:
    def rule(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        if sign is None:
            return b.fcmp_ordered("==", fabs(b, x), ir.Constant(x.type, np.inf))
        return b.fcmp_ordered("==", x, ir.Constant(x.type, sign * np.inf))

    return rule


def _is_finite(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return b.fcmp_ordered("<", fabs(b, x), ir.Constant(x.type, np.inf))


def _signbit(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    bits = ir.IntType(32 if x.type == ir.FloatType() else 64)
    return b.icmp_signed("<", b.bitcast(x, bits), bits(0))


def _test(op: str) -> Rule:
    if op == "!=":
        return lambda b, x, y: b.fcmp_unordered("!=", x, y)
    return lambda b, x, y: b.fcmp_ordered(op, x, y)


def _bound(op: str) -> Rule:
    """x if it is within the bound or NaN, else the bound: of two zeros the bound's."""
    beyond = "<=" if op == ">" else ">="

    def rule(b: ir.IRBuilder, x: ir.Value, bound: ir.Value) -> ir.Value:
        if isinstance(bound, ir.Constant) and bound.constant == bound.constant:  # not NaN
            return b.select(b.fcmp_ordered(beyond, x, bound), bound, x)
        kept = b.select(b.fcmp_ordered(op, x, bound), x, bound)
        return b.select(b.fcmp_unordered("uno", x, x), x, kept)

    return rule


def _clip(b: ir.IRBuilder, x: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    return _bound("<")(b, _bound(">")(b, x, low), high)


def _remainder(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Python's: the sign of the divisor, also of a zero."""
    zero = ir.Constant(x.type, 0.0)
    r = b.frem(x, y)
    apart = b.xor(b.fcmp_ordered("<", y, zero), b.fcmp_ordered("<", r, zero))
    moved = b.select(apart, b.fadd(r, y), r)
    return b.select(b.fcmp_ordered("==", r, zero), copysign(b, zero, y), moved)


def _floor_divide(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """As Python's divmod: (x − r)/y is whole but for rounding, and 0 has the sign of x/y.

    By 0, of infinities and by infinities it is x/y, as the array API standard has it.
    """
    zero, one, half = (ir.Constant(x.type, c) for c in (0.0, 1.0, 0.5))
    plain = b.fdiv(x, y)
    r = b.frem(x, y)
    quotient = b.fdiv(b.fsub(x, r), y)
    apart = b.xor(b.fcmp_ordered("<", y, zero), b.fcmp_ordered("<", r, zero))
    apart = b.and_(apart, b.fcmp_ordered("!=", r, zero))
    quotient = b.select(apart, b.fsub(quotient, one), quotient)
    whole = intrinsic("llvm.floor")(b, quotient)
    low = b.fcmp_ordered(">", b.fsub(quotient, whole), half)
    whole = b.select(low, b.fadd(whole, one), whole)
    vanishes = b.fcmp_ordered("==", quotient, zero)
    whole = b.select(vanishes, copysign(b, zero, plain), whole)
    plainly = b.or_(b.fcmp_ordered("==", y, zero), _is_infinite(None)(b, x))
    return b.select(b.or_(plainly, _is_infinite(None)(b, y)), plain, whole)


def _angle(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return EMITTERS["arctan2"](b, ir.Constant(x.type, 0.0), x)


def _over_gap(b: ir.IRBuilder, t: ir.Value, gap: ir.Value) -> ir.Value:
    """0 over a gap of 0; other t's over it are refused (refusals.py)."""
    zero = ir.Constant(t.type, 0.0)
    return b.select(b.fcmp_ordered("==", gap, zero), zero, b.fdiv(t, gap))


ROUNDED: dict[str, Rule] = {
    "add": lambda b, x, y: b.fadd(x, y),
    "subtract": lambda b, x, y: b.fsub(x, y),
}
RULES: dict[str, Rule] = {
    # A product and a sum may become one fused operation, which rounds once instead of twice (rounding.py).
    "add": lambda b, x, y: b.fadd(x, y, flags=("contract",)),
    "subtract": lambda b, x, y: b.fsub(x, y, flags=("contract",)),
    "multiply": lambda b, x, y: b.fmul(x, y, flags=("contract",)),
    "divide": lambda b, x, y: b.fdiv(x, y),
    "negative": lambda b, x: b.fneg(x),
    "reciprocal": lambda b, x: b.fdiv(ir.Constant(x.type, 1.0), x),
    "square": lambda b, x: b.fmul(x, x, flags=("contract",)),
    "sqrt": intrinsic("llvm.sqrt"),
    "absolute": fabs,
    "fabs": fabs,
    "floor": intrinsic("llvm.floor"),
    "ceil": intrinsic("llvm.ceil"),
    "trunc": intrinsic("llvm.trunc"),
    "rint": intrinsic("llvm.rint"),
    "maximum": maximum,
    "minimum": minimum,
    "clip": _clip,
    "sign": _sign,
    "copysign": copysign,
    "nextafter": emitter(exponents.nextafter),
    "spacing": emitter(exponents.spacing),
    "fmod": lambda b, x, y: b.frem(x, y),
    "remainder": _remainder,
    "floor_divide": _floor_divide,
    "isnan": lambda b, x: b.fcmp_unordered("uno", x, x),
    "isinf": _is_infinite(None),
    "isposinf": _is_infinite(1.0),
    "isneginf": _is_infinite(-1.0),
    "isfinite": _is_finite,
    "signbit": _signbit,
    "real": lambda b, x: x,
    "imag": lambda b, x: ir.Constant(x.type, 0.0),
    "conjugate": lambda b, x: x,
    "angle": _angle,
    "over_gaps": _over_gap,
    **{name: _test(op) for name, op in TESTS.items()},
    **EMITTERS,
}
