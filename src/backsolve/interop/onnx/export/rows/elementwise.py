"""Element-wise rows that ONNX has an operator for, or nearly."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ir import Equation
from ..graph import Graph
from .base import ROWS, as_dtype, as_output, common_dtype, out_of, row, types_of

# ---- numbers of the output's dtype; of booleans, what NumPy does with them

_ONE_NODE = {
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan", "arcsin": "Asin",
    "arccos": "Acos", "arctan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "arcsinh": "Asinh",
    "arccosh": "Acosh", "arctanh": "Atanh", "sigmoid": "Sigmoid", "softplus": "Softplus", "erf": "Erf",
    "absolute": "Abs", "fabs": "Abs", "negative": "Neg", "sign": "Sign",
}  # fmt: skip
_LOGIC = {
    "add": ("Add", "Or"),
    "multiply": ("Mul", "And"),
    "maximum": ("Max", "Or"),
    "minimum": ("Min", "And"),
}


def _enter(name: str, op: str, of_booleans: str | None = None) -> None:
    @row(name)
    def rule(g: Graph, e: Equation, inputs: list[str]) -> str:
        given = as_output(g, e, inputs)
        if out_of(e).dtype == bool:
            if of_booleans is None:
                return given[0]
            return g.node(of_booleans, given)
        return g.node(op, given)


for _name, _op in _ONE_NODE.items():
    _enter(_name, _op)
for _name, _both in _LOGIC.items():
    _enter(_name, *_both)


@row("subtract")
def subtract(g: Graph, e: Equation, inputs: list[str]) -> str:
    return g.Sub(*as_output(g, e, inputs))


@row("square")
def square(g: Graph, e: Equation, inputs: list[str]) -> str:
    (a,) = as_output(g, e, inputs)
    return a if out_of(e).dtype == bool else g.Mul(a, a)


@row("alias", "detach", "real", "conjugate")
def alias(g: Graph, e: Equation, inputs: list[str]) -> str:
    return as_output(g, e, inputs)[0]


def _rounding(name: str, op: str) -> None:
    @row(name)
    def rule(g: Graph, e: Equation, inputs: list[str]) -> str:
        (a,) = as_output(g, e, inputs)
        return g.node(op, [a]) if out_of(e).dtype.kind == "f" else a


_rounding("floor", "Floor")
_rounding("ceil", "Ceil")
_rounding("rint", "Round")


@row("divide")
def divide(g: Graph, e: Equation, inputs: list[str]) -> str:
    return g.Div(*as_output(g, e, inputs))


@row("reciprocal")
def reciprocal(g: Graph, e: Equation, inputs: list[str]) -> str:
    (a,) = as_output(g, e, inputs)
    dtype = out_of(e).dtype
    if dtype.kind == "f":
        return g.Reciprocal(a)
    is_one = g.Equal(g.Abs(a), g.number(1, dtype))
    return g.Where(is_one, a, g.number(0, dtype))


@row("power")
def power(g: Graph, e: Equation, inputs: list[str]) -> str:
    dtype = out_of(e).dtype
    wide = dtype if dtype.kind == "f" else np.dtype(np.int64)
    return g.cast(g.Pow(*as_dtype(g, e, inputs, wide)), wide, dtype)


@row("exp2", "exp10")
def exp2(g: Graph, e: Equation, inputs: list[str]) -> str:
    (a,) = as_output(g, e, inputs)
    return g.Pow(g.number(2 if e.primitive.name == "exp2" else 10, out_of(e).dtype), a)


@row("log2", "log10")
def log2(g: Graph, e: Equation, inputs: list[str]) -> str:
    (a,) = as_output(g, e, inputs)
    base = np.log(2.0) if e.primitive.name == "log2" else np.log(10.0)
    return g.Div(g.Log(a), g.number(base, out_of(e).dtype))


@row("clip")
def clip(g: Graph, e: Equation, inputs: list[str]) -> str:
    a, low, high = as_output(g, e, inputs)
    if out_of(e).dtype == bool:
        return g.And(g.Or(a, low), high)
    return g.Min(g.Max(a, low), high)


@row("det")
def det(g: Graph, e: Equation, inputs: list[str]) -> str:
    return g.Det(*as_output(g, e, inputs))


# ---- comparisons and logic

_COMPARE = {
    "equal": "Equal",
    "less": "Less",
    "greater": "Greater",
    "less_equal": "LessOrEqual",
    "greater_equal": "GreaterOrEqual",
}


def _compared(op: str) -> Any:
    def rule(g: Graph, e: Equation, inputs: list[str]) -> str:
        dtype = common_dtype(e)
        dtype = np.dtype(np.int32) if dtype.kind == "b" and op != "Equal" else dtype
        return g.node(op, as_dtype(g, e, inputs, dtype))

    return rule


ROWS.update((_name, _compared(_op)) for _name, _op in _COMPARE.items())


@row("not_equal")
def not_equal(g: Graph, e: Equation, inputs: list[str]) -> str:
    return g.Not(ROWS["equal"](g, e, inputs))


def _logical(name: str, op: str) -> None:
    row(name)(lambda g, e, inputs: g.node(op, as_dtype(g, e, inputs, bool)))


_logical("logical_and", "And")
_logical("logical_or", "Or")
_logical("logical_xor", "Xor")
_logical("logical_not", "Not")


def _bits(name: str, op: str, of_booleans: str) -> None:
    @row(name)
    def rule(g: Graph, e: Equation, inputs: list[str]) -> str:
        return g.node(of_booleans if out_of(e).dtype == bool else op, as_output(g, e, inputs))


_bits("bitwise_and", "BitwiseAnd", "And")
_bits("bitwise_or", "BitwiseOr", "Or")
_bits("bitwise_xor", "BitwiseXor", "Xor")
_bits("invert", "BitwiseNot", "Not")


def _of_floats(name: str, op: str, **attributes: Any) -> None:
    """A question that integers answer with no (or, if finite, yes)."""

    @row(name)
    def rule(g: Graph, e: Equation, inputs: list[str]) -> str:
        dtype = types_of(e)[0].dtype
        known = dtype.kind == "f" and dtype.itemsize > 2
        a = inputs[0] if known else g.cast(inputs[0], dtype, np.float32)
        return g.node(op, [a], **attributes)


_of_floats("isnan", "IsNaN")
_of_floats("isinf", "IsInf")
_of_floats("isneginf", "IsInf", detect_positive=0)
_of_floats("isposinf", "IsInf", detect_negative=0)


@row("isfinite")
def isfinite(g: Graph, e: Equation, inputs: list[str]) -> str:
    return g.Not(g.Or(ROWS["isnan"](g, e, inputs), ROWS["isinf"](g, e, inputs)))


@row("where")
def where(g: Graph, e: Equation, inputs: list[str]) -> str:
    dtype = out_of(e).dtype
    condition, a, b = [
        g.cast(x, t.dtype, bool if k == 0 else dtype)
        for k, (x, t) in enumerate(zip(inputs, types_of(e), strict=True))
    ]
    return g.where(condition, a, b, dtype)


@row("cast", "cast_discrete")
def cast(g: Graph, e: Equation, inputs: list[str]) -> str:
    return as_output(g, e, inputs)[0]


# ---- quotients and remainders: the sign of NumPy's, and 0 where integers are divided by 0


@row("fmod")
def fmod(g: Graph, e: Equation, inputs: list[str]) -> str:
    a, b = as_output(g, e, inputs)
    dtype = out_of(e).dtype
    if dtype.kind == "f":
        return g.Mod(a, b, fmod=1)
    zero = g.Equal(b, g.number(0, dtype))
    safe = g.Where(zero, g.number(1, dtype), b)
    return g.Where(zero, g.number(0, dtype), g.Mod(a, safe, fmod=1))


@row("remainder")
def remainder(g: Graph, e: Equation, inputs: list[str]) -> str:
    a, b = as_output(g, e, inputs)
    return _divmod(g, a, b, out_of(e).dtype)[1]


@row("floor_divide")
def floor_divide(g: Graph, e: Equation, inputs: list[str]) -> str:
    a, b = as_output(g, e, inputs)
    return _divmod(g, a, b, out_of(e).dtype)[0]


def _divmod(g: Graph, a: str, b: str, dtype: Any) -> tuple[str, str]:
    zero, one = g.number(0, dtype), g.number(1, dtype)
    if dtype.kind != "f":
        none = g.Equal(b, zero)
        safe = g.Where(none, one, b)
        rest = g.Mod(a, safe)
        quotient = g.Div(g.Sub(a, rest), safe)
        return g.Where(none, zero, quotient), g.Where(none, zero, rest)
    rest = g.Mod(a, b, fmod=1)
    quotient = g.Div(g.Sub(a, rest), b)
    turned = g.And(g.Not(g.Equal(rest, zero)), g.Xor(g.Less(b, zero), g.Less(rest, zero)))
    rest = g.Where(turned, g.Add(rest, b), rest)
    quotient = g.Where(turned, g.Sub(quotient, one), quotient)
    none = g.Equal(b, zero)
    nan = g.number(np.nan, dtype)
    return g.Where(none, g.Div(a, b), g.Round(quotient)), g.Where(none, nan, rest)
