"""One entry of an element-wise equation, as LLVM instructions.

Comparison, selection and arithmetic stand here; transcendental functions in `mathematics/`. NaN and
signed zeros behave as NumPy's: no fast-math.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from ...ir import Equation
from . import functions
from .integers import LOGIC, SIGNED
from .mathematics import EMITTERS
from .support import compute_dtype

FUNCTIONS = EMITTERS
BOOL = ir.IntType(1)
BYTE = ir.IntType(8)
_TYPES: dict[Any, ir.Type] = {
    np.dtype("f4"): ir.FloatType(),
    np.dtype("f8"): ir.DoubleType(),
    np.dtype("i4"): ir.IntType(32),
    np.dtype("i8"): ir.IntType(64),
    np.dtype("?"): BOOL,
}


def register_type(dtype: np.dtype[Any]) -> ir.Type:
    return _TYPES[dtype]


def memory_type(dtype: np.dtype[Any]) -> ir.Type:
    """As register_type, but a boolean takes a byte."""
    return BYTE if dtype == np.bool_ else _TYPES[dtype]


def number(value: Any, dtype: np.dtype[Any]) -> ir.Constant:
    t = register_type(dtype)
    if dtype.kind == "f":
        return ir.Constant(t, float(dtype.type(value)))
    return ir.Constant(t, int(value) if dtype != np.bool_ else int(bool(value)))


def convert(b: ir.IRBuilder, v: ir.Value, source: np.dtype[Any], target: np.dtype[Any]) -> ir.Value:
    """NumPy's astype on one entry."""
    if source == target:
        return v
    t = register_type(target)
    if target == np.bool_:
        zero = ir.Constant(register_type(source), 0)
        return (
            b.fcmp_unordered("!=", v, zero) if source.kind == "f" else b.icmp_signed("!=", v, zero)
        )
    if source == np.bool_:
        return b.uitofp(v, t) if target.kind == "f" else b.zext(v, t)
    if source.kind == "f" and target.kind == "f":
        return b.fpext(v, t) if target.itemsize > source.itemsize else b.fptrunc(v, t)
    if source.kind == "f":
        return b.fptosi(v, t)
    if target.kind == "f":
        return b.sitofp(v, t)
    return b.sext(v, t) if target.itemsize > source.itemsize else b.trunc(v, t)


def emit(
    b: ir.IRBuilder,
    e: Equation,
    values: list[tuple[ir.Value, np.dtype[Any]]],
    inline: bool = True,
) -> ir.Value:
    """The entry of e's output, from the entries of its inputs."""
    name, out = e.primitive.name, e.outputs[0].dtype
    if name in ("cast", "cast_discrete", "alias"):
        return convert(b, *values[0], out)
    if name == "where":
        condition = convert(b, *values[0], np.dtype(bool))
        return b.select(condition, convert(b, *values[1], out), convert(b, *values[2], out))
    dtype = compute_dtype(e)
    args = [convert(b, v, t, dtype) for v, t in values]
    if name in FUNCTIONS and dtype.kind == "f":
        return functions.call(b, name, args, inline)
    kind = "f" if dtype.kind == "f" else "b" if dtype == np.bool_ else "i"
    return _RULES[kind, name](b, *args)


def supports(name: str, dtype: np.dtype[Any]) -> bool:
    kind = "f" if dtype.kind == "f" else "b" if dtype == np.bool_ else "i"
    return name in ("cast", "cast_discrete", "alias", "where") or (kind, name) in _RULES


# ---- rules, by kind of number


def _intrinsic(name: str) -> Callable[..., ir.Value]:
    def rule(b: ir.IRBuilder, *args: ir.Value) -> ir.Value:
        t = args[0].type
        function = b.module.declare_intrinsic(name, [t], ir.FunctionType(t, [t] * len(args)))
        return b.call(function, args)

    return rule


# NaN if either is, as NumPy has it; one instruction on arm64, and a reduction LLVM can vectorise.
_maximum = _intrinsic("llvm.maximum")
_minimum = _intrinsic("llvm.minimum")


def _sign(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """−1, 0, 1; NaN of NaN, and the zero itself (NumPy keeps no sign of zero: 0.0)."""
    zero, one = ir.Constant(x.type, 0.0), ir.Constant(x.type, 1.0)
    up = b.select(b.fcmp_ordered(">", x, zero), one, zero)
    signed = b.select(b.fcmp_ordered("<", x, zero), ir.Constant(x.type, -1.0), up)
    return b.select(b.fcmp_unordered("uno", x, x), x, signed)


def _is_infinite(sign: float | None) -> Callable[..., ir.Value]:
    def rule(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        if sign is None:
            return b.fcmp_ordered("==", _intrinsic("llvm.fabs")(b, x), ir.Constant(x.type, np.inf))
        return b.fcmp_ordered("==", x, ir.Constant(x.type, sign * np.inf))

    return rule


def _is_finite(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return b.fcmp_ordered("<", _intrinsic("llvm.fabs")(b, x), ir.Constant(x.type, np.inf))


def _float_test(op: str) -> Callable[..., ir.Value]:
    if op == "!=":
        return lambda b, x, y: b.fcmp_unordered("!=", x, y)
    return lambda b, x, y: b.fcmp_ordered(op, x, y)


def _int_test(op: str) -> Callable[..., ir.Value]:
    return lambda b, x, y: b.icmp_signed(op, x, y)


def _clip(lower: Any, upper: Any) -> Callable[..., ir.Value]:
    return lambda b, x, low, high: upper(b, lower(b, x, low), high)


def _int_maximum(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.select(b.icmp_signed(">", x, y), x, y)


def _int_minimum(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.select(b.icmp_signed("<", x, y), x, y)


def _remainder(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Python's: the sign of the divisor, also of a zero."""
    zero = ir.Constant(x.type, 0.0)
    r = b.frem(x, y)
    apart = b.xor(b.fcmp_ordered("<", y, zero), b.fcmp_ordered("<", r, zero))
    moved = b.select(apart, b.fadd(r, y), r)
    return b.select(b.fcmp_ordered("==", r, zero), _intrinsic("llvm.copysign")(b, zero, y), moved)


_TESTS = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_FLOAT: dict[str, Callable[..., ir.Value]] = {
    # A product and a sum may become one fused operation, which rounds once instead of twice.
    "add": lambda b, x, y: b.fadd(x, y, flags=("contract",)),
    "subtract": lambda b, x, y: b.fsub(x, y, flags=("contract",)),
    "multiply": lambda b, x, y: b.fmul(x, y, flags=("contract",)),
    "divide": lambda b, x, y: b.fdiv(x, y),
    "negative": lambda b, x: b.fneg(x),
    "reciprocal": lambda b, x: b.fdiv(ir.Constant(x.type, 1.0), x),
    "square": lambda b, x: b.fmul(x, x, flags=("contract",)),
    "sqrt": _intrinsic("llvm.sqrt"),
    "absolute": _intrinsic("llvm.fabs"),
    "fabs": _intrinsic("llvm.fabs"),
    "floor": _intrinsic("llvm.floor"),
    "ceil": _intrinsic("llvm.ceil"),
    "trunc": _intrinsic("llvm.trunc"),
    "rint": _intrinsic("llvm.rint"),
    "maximum": _maximum,
    "minimum": _minimum,
    "clip": _clip(_maximum, _minimum),
    "sign": _sign,
    "copysign": _intrinsic("llvm.copysign"),
    "fmod": lambda b, x, y: b.frem(x, y),
    "remainder": _remainder,
    "isnan": lambda b, x: b.fcmp_unordered("uno", x, x),
    "isinf": _is_infinite(None),
    "isposinf": _is_infinite(1.0),
    "isneginf": _is_infinite(-1.0),
    "isfinite": _is_finite,
    **{name: _float_test(op) for name, op in _TESTS.items()},
}
_INT: dict[str, Callable[..., ir.Value]] = {
    "add": lambda b, x, y: b.add(x, y),
    "subtract": lambda b, x, y: b.sub(x, y),
    "multiply": lambda b, x, y: b.mul(x, y),
    "negative": lambda b, x: b.neg(x),
    "square": lambda b, x: b.mul(x, x),
    "bitwise_and": lambda b, x, y: b.and_(x, y),
    "bitwise_or": lambda b, x, y: b.or_(x, y),
    "bitwise_xor": lambda b, x, y: b.xor(x, y),
    "invert": lambda b, x: b.not_(x),
    "maximum": _int_maximum,
    "minimum": _int_minimum,
    "clip": _clip(_int_maximum, _int_minimum),
    **{name: _int_test(op) for name, op in _TESTS.items()},
}
_LOGIC: dict[str, Callable[..., ir.Value]] = {
    "logical_and": lambda b, x, y: b.and_(x, y),
    "logical_or": lambda b, x, y: b.or_(x, y),
    "logical_xor": lambda b, x, y: b.xor(x, y),
    "logical_not": lambda b, x: b.not_(x),
    "bitwise_and": lambda b, x, y: b.and_(x, y),
    "bitwise_or": lambda b, x, y: b.or_(x, y),
    "bitwise_xor": lambda b, x, y: b.xor(x, y),
    "invert": lambda b, x: b.not_(x),
    "equal": lambda b, x, y: b.not_(b.xor(x, y)),
    "not_equal": lambda b, x, y: b.xor(x, y),
}
_RULES = (
    {("f", n): r for n, r in _FLOAT.items()}
    | {("i", n): r for n, r in (SIGNED | _INT).items()}
    | {("b", n): r for n, r in (LOGIC | _LOGIC).items()}
)

# ---- how reductions combine entries, and what they start from

COMBINE: dict[str, Callable[[ir.IRBuilder, ir.Value, ir.Value, np.dtype[Any]], ir.Value]] = {
    # Sums and products may be taken in any order: that is what lets them run in vector registers.
    "add": lambda b, x, y, t: (
        b.fadd(x, y, flags=("reassoc", "contract")) if t.kind == "f" else b.add(x, y)
    ),
    "mul": lambda b, x, y, t: b.fmul(x, y, flags=("reassoc",)) if t.kind == "f" else b.mul(x, y),
    "max": lambda b, x, y, t: _maximum(b, x, y) if t.kind == "f" else _int_maximum(b, x, y),
    "min": lambda b, x, y, t: _minimum(b, x, y) if t.kind == "f" else _int_minimum(b, x, y),
    "or": lambda b, x, y, t: b.or_(x, y),
    "and": lambda b, x, y, t: b.and_(x, y),
}


def start_of(how: str, dtype: np.dtype[Any]) -> ir.Constant:
    if how in ("max", "min"):
        if dtype.kind == "f":
            return number(-np.inf if how == "max" else np.inf, dtype)
        limits = np.iinfo(dtype)
        return number(limits.min if how == "max" else limits.max, dtype)
    return number({"add": 0, "mul": 1, "or": False, "and": True}[how], dtype)
