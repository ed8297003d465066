"""One entry of an element-wise equation, as LLVM instructions.

The rules stand in `numbers/`, by kind of number; transcendental functions in `mathematics/`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from ...ir import Equation
from . import elliptic, functions, special
from .mathematics import EMITTERS, exponents
from .mathematics.lanes import FORMATS, Bits, Real
from .numbers import complex as complex_number
from .numbers import half, integer, real
from .numbers.registers import Complex, Register, convert, number, parts, select
from .rounding import ROUNDED
from .support import compute_dtype

FUNCTIONS = EMITTERS
LONG = FUNCTIONS.keys() - {"sqrt"}  # those that are more than one instruction
_RULES: dict[str, dict[str, Callable[..., Any]]] = {
    "f": real.RULES,
    "i": integer.SIGNED,
    "u": integer.UNSIGNED,
    "b": integer.LOGIC,
    "c": complex_number.RULES,
}


def is_cube(e: Equation) -> bool:
    """Whether this is a power that is two products; integers have their own."""
    power = e.inputs[1] if e.primitive.name == "power" else None
    return type(power) in (int, float) and power == 3 and compute_dtype(e).kind == "f"


def emit(
    b: ir.IRBuilder,
    e: Equation,
    values: list[tuple[Register, np.dtype[Any]]],
    inline: bool = True,
) -> Register:
    """The entry of e's output, from the entries of its inputs."""
    name, out = e.primitive.name, e.outputs[0].dtype
    if name in _MIXED:
        return _MIXED[name](b, values, out)
    if name in real.TESTS and {t for _, t in values} == {np.dtype("i8"), np.dtype("u8")}:
        (x, first), (y, _) = values
        return integer.compare_across(b, name, x, y, first.kind == "i")
    dtype = compute_dtype(e)
    args = [convert(b, v, t, dtype) for v, t in values]
    if dtype == np.float16:
        return half.RULES[name](b, *args)
    if is_cube(e):
        # As the NumPy backend does; of several products none is fused with a sum, as no power would be.
        return b.fmul(b.fmul(args[0], args[0]), args[0])
    if name in FUNCTIONS and dtype.kind == "f":
        return functions.call(b, name, args, inline)
    if name == "polygamma":
        return special.polygamma(b, args[0], e.params["n"])
    if name == "zeta":
        return special.zeta(b, *args)
    if name == "elliptic_moment":
        return elliptic.moment(b, *args, **e.params)
    if name in special.PARTS:
        return special.component(b, name, args, e.params.get("k", -1))
    if name in special.NAMES and name not in _RULES[dtype.kind]:
        return special.call(b, name, args)
    if ROUNDED in e.params:
        return real.ROUNDED[name](b, *args)
    return _RULES[dtype.kind][name](b, *args)


def supports(e: Equation) -> bool:
    name = e.primitive.name
    dtype = compute_dtype(e)
    kind = dtype.kind
    if dtype == np.float16:
        return name in _MIXED or name in half.RULES
    return (
        name in _MIXED
        or name in _RULES[kind]
        or (kind == "f" and name == "elliptic_moment")
        or (kind in "fc" and special.supports(name, of_complex=kind == "c"))
    )


# ---- equations whose inputs are not all computed with in one dtype


def _cast(b: ir.IRBuilder, values: Any, out: np.dtype[Any]) -> Register:
    (value, dtype), *_ = values
    return convert(b, value, dtype, out)


def _where(b: ir.IRBuilder, values: Any, out: np.dtype[Any]) -> Register:
    (c, of_c), (x, of_x), (y, of_y) = values
    condition = convert(b, c, of_c, np.dtype(bool))
    return select(b, condition, convert(b, x, of_x, out), convert(b, y, of_y, out))


def _ldexp(b: ir.IRBuilder, values: Any, out: np.dtype[Any]) -> Register:
    """The exponent as wide as the float; one that loses bits is far beyond all exponents."""
    (x, t), (n, s) = values
    format = FORMATS[out.name]
    wide = convert(b, n, s, np.dtype("i8"))
    limit = wide.type(1 << 20)
    low = b.icmp_signed("<", wide, b.neg(limit))
    high = b.icmp_signed(">", wide, limit)
    wide = b.select(low, b.neg(limit), b.select(high, limit, wide))
    exponent = convert(b, wide, np.dtype("i8"), np.dtype(f"i{format.width // 8}"))
    scaled = Real(b, convert(b, x, t, out), format)
    return exponents.ldexp(scaled, Bits(b, exponent, format)).value


_MIXED: dict[str, Callable[..., Register]] = {
    "cast": _cast,
    "cast_discrete": _cast,
    "alias": _cast,
    "detach": _cast,
    "where": _where,
    "ldexp": _ldexp,
}


# ---- how reductions combine entries, and what they start from

_NAMES = {
    "add": "add",
    "subtract": "subtract",
    "mul": "multiply",
    "max": "maximum",
    "min": "minimum",
}


def combine(b: ir.IRBuilder, how: str, x: Register, y: Register, dtype: np.dtype[Any]) -> Register:
    # Sums may be taken in any order: that lets them run in vector registers. Products are taken one after
    # another: of 1e30, 1e-30, 1e30, … every second one overflows, and the others vanish.
    if how == "add" and dtype.kind in "fc":
        sums = [
            b.fadd(p, q, flags=("reassoc", "contract"))
            for p, q in zip(parts(x), parts(y), strict=True)
        ]
        return Complex(*sums) if dtype.kind == "c" else sums[0]
    if how == "mul" and dtype.kind == "f":
        return b.fmul(x, y)
    if how in ("or", "and"):
        return (b.or_ if how == "or" else b.and_)(x, y)
    return _RULES[dtype.kind][_NAMES[how]](b, x, y)


def start_of(how: str, dtype: np.dtype[Any]) -> Register:
    if how in ("max", "min"):
        if dtype == np.bool_:
            return number(how == "min", dtype)
        if dtype.kind in "fc":
            limit = -np.inf if how == "max" else np.inf
            return number(limit if dtype.kind == "f" else complex(limit, limit), dtype)
        limits = np.iinfo(dtype)
        return number(limits.min if how == "max" else limits.max, dtype)
    return number({"add": 0, "mul": 1, "or": False, "and": True}[how], dtype)


__all__ = ["FUNCTIONS", "LONG", "combine", "emit", "start_of", "supports"]
