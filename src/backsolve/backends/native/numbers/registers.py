"""Numbers in registers and in memory: their LLVM types, loads, stores and NumPy's astype.

A complex number is two registers, and two neighbours in memory: LLVM loads and stores vectors of them
with one instruction each. A boolean is one bit in a register and a byte in memory. A float16 is its bits
(half.py). Integers carry no sign in LLVM: whoever compares, divides, widens or converts them looks at
their dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from . import half

BOOL = ir.IntType(1)
BYTE = ir.IntType(8)
CINT = ir.IntType(32)
_TYPES: dict[np.dtype[Any], ir.Type] = {
    np.dtype("?"): BOOL,
    np.dtype("f2"): half.HALF,
    np.dtype("f4"): ir.FloatType(),
    np.dtype("f8"): ir.DoubleType(),
    **{np.dtype(f"{k}{n}"): ir.IntType(8 * n) for k in "iu" for n in (1, 2, 4, 8)},
}
_REAL: dict[Any, np.dtype[Any]] = {np.dtype("c8"): np.dtype("f4"), np.dtype("c16"): np.dtype("f8")}
DTYPES = frozenset([*_TYPES, *_REAL])
_HALF, _SINGLE = np.dtype("f2"), np.dtype("f4")


class Complex(NamedTuple):
    re: ir.Value
    im: ir.Value


Register = Any  # an ir.Value, or a Complex of two


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """That of the parts of a complex number; a real dtype itself."""
    return _REAL.get(dtype, dtype)


def register_type(dtype: np.dtype[Any]) -> ir.Type:
    """The type of a register, or of both registers of a complex number."""
    return _TYPES[real_dtype(dtype)]


def memory_type(dtype: np.dtype[Any]) -> ir.Type:
    if dtype.kind == "c":
        return ir.LiteralStructType([register_type(dtype)] * 2)
    return BYTE if dtype == np.bool_ else register_type(dtype)


def parts(v: Register) -> list[ir.Value]:
    return list(v) if isinstance(v, Complex) else [v]


def each(f: Callable[[ir.Value], ir.Value], v: Register) -> Register:
    return Complex(f(v.re), f(v.im)) if isinstance(v, Complex) else f(v)


def load(b: ir.IRBuilder, address: ir.Value, dtype: np.dtype[Any]) -> Register:
    if dtype.kind == "c":
        return Complex(*(b.load(b.gep(address, [CINT(0), CINT(k)])) for k in (0, 1)))
    v = b.load(address)
    return b.icmp_unsigned("!=", v, BYTE(0)) if dtype == np.bool_ else v


def store(b: ir.IRBuilder, v: Register, address: ir.Value, dtype: np.dtype[Any]) -> None:
    if isinstance(v, Complex):
        for k, part in enumerate(v):
            b.store(part, b.gep(address, [CINT(0), CINT(k)]))
        return
    b.store(b.zext(v, BYTE) if dtype == np.bool_ else v, address)


def is_zero(v: Register) -> bool:
    """Of a known number."""
    return all(x.constant == 0 for x in parts(v))


def clear(b: ir.IRBuilder, address: ir.Value, nbytes: int) -> None:
    """Zeros, all of whose bits are 0 in every dtype."""
    pointer, size = BYTE.as_pointer(), ir.IntType(64)
    memset = b.module.declare_intrinsic("llvm.memset", [pointer, size])
    b.call(memset, [b.bitcast(address, pointer), BYTE(0), size(nbytes), BOOL(0)])


def number(value: Any, dtype: np.dtype[Any]) -> Register:
    t = register_type(dtype)
    if dtype.kind == "c":
        z = dtype.type(value)
        return Complex(ir.Constant(t, float(z.real)), ir.Constant(t, float(z.imag)))
    if dtype == _HALF:
        with np.errstate(over="ignore"):
            return ir.Constant(t, int(np.array(value, dtype).view(np.uint16)))
    if dtype.kind == "f":
        return ir.Constant(t, float(dtype.type(value)))
    return ir.Constant(t, int(value) if dtype != np.bool_ else int(bool(value)))


def select(b: ir.IRBuilder, condition: ir.Value, x: Register, y: Register) -> Register:
    if isinstance(x, Complex):
        return Complex(b.select(condition, x.re, y.re), b.select(condition, x.im, y.im))
    return b.select(condition, x, y)


def convert(b: ir.IRBuilder, v: Register, source: np.dtype[Any], target: np.dtype[Any]) -> Register:
    """NumPy's astype on one entry."""
    if source == target:
        return v
    if isinstance(v, Complex):
        if target.kind == "c":
            of_parts = real_dtype(source), real_dtype(target)
            return Complex(convert(b, v.re, *of_parts), convert(b, v.im, *of_parts))
        if target == np.bool_:
            return b.or_(*(convert(b, x, real_dtype(source), target) for x in v))
        return convert(b, v.re, real_dtype(source), target)
    if source == _HALF:
        return convert(b, half.to_single(b, v), _SINGLE, target)
    if target == _HALF:
        if source.itemsize == 8 and source.kind == "f":
            return half.from_double(b, v)
        return half.from_single(b, convert(b, v, source, _SINGLE))
    t = register_type(target)
    if target.kind == "c":
        return Complex(convert(b, v, source, real_dtype(target)), ir.Constant(t, 0.0))
    if target == np.bool_:
        zero = ir.Constant(register_type(source), 0)
        differs = b.fcmp_unordered if source.kind == "f" else b.icmp_signed
        return differs("!=", v, zero)
    if target.kind == "f":
        if source.kind == "f":
            return b.fpext(v, t) if target.itemsize > source.itemsize else b.fptrunc(v, t)
        return b.sitofp(v, t) if source.kind == "i" else b.uitofp(v, t)
    if source.kind == "f":
        return _truncated(b, v, source, target)
    if source == np.bool_:
        return b.zext(v, t)
    if target.itemsize == source.itemsize:
        return v
    if target.itemsize < source.itemsize:
        return b.trunc(v, t)
    return b.sext(v, t) if source.kind == "i" else b.zext(v, t)


def _truncated(
    b: ir.IRBuilder, v: ir.Value, source: np.dtype[Any], target: np.dtype[Any]
) -> ir.Value:
    """A float towards zero. What does not fit is no matter of NumPy's either, but it is defined here:
    a 32- or 64-bit integer takes its nearest limit, a narrower one the lowest bits of that, NaN is 0.
    """
    wide = 64 if source.itemsize == 8 or target.itemsize == 8 else 32
    unsigned = target.kind == "u" and 8 * target.itemsize == wide
    name = f"llvm.fpto{'u' if unsigned else 's'}i.sat"
    t = ir.IntType(wide)
    f = b.module.declare_intrinsic(name, [t, v.type], ir.FunctionType(t, [v.type]))
    whole = b.call(f, [v])
    return whole if 8 * target.itemsize == wide else b.trunc(whole, register_type(target))
