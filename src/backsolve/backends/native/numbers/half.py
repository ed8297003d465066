"""float16: its 16 bits, in registers as in memory, converted by integer instructions.

NumPy computes with such numbers in float32 and rounds every result; so does compiled code, whose Programs say
so (rewrite/half.py). LLVM's own type calls functions that only compilers ship where a processor has no such
instructions (x86-64 without F16C).
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

HALF, BITS, FLOAT, DOUBLE = ir.IntType(16), ir.IntType(32), ir.FloatType(), ir.DoubleType()
_SIGN, _SIZE = HALF(0x8000), HALF(0x7FFF)
_INFINITY, _NAN = HALF(0x7C00), HALF(0x7E00)


def to_single(b: ir.IRBuilder, v: ir.Value) -> ir.Value:
    """The same number as a float32: its exponent counts from 127, not from 15."""
    size = b.shl(b.zext(b.and_(v, _SIZE), BITS), BITS(13))
    scaled = b.bitcast(b.fmul(b.bitcast(size, FLOAT), ir.Constant(FLOAT, 2.0**112)), BITS)
    beyond = b.icmp_unsigned(">=", size, BITS(0x7C00 << 13))  # an infinity or NaN
    magnitude = b.select(beyond, b.or_(size, BITS(0xFF << 23)), scaled)
    sign = b.shl(b.zext(b.and_(v, _SIGN), BITS), BITS(16))
    return b.bitcast(b.or_(magnitude, sign), FLOAT)


def from_single(b: ir.IRBuilder, v: ir.Value) -> ir.Value:
    """The nearest float16, of two the even one."""
    bits = b.bitcast(v, BITS)
    sign = b.and_(bits, BITS(1 << 31))
    size = b.xor(bits, sign)
    # Below 2⁻¹⁴ they lie 2⁻²⁴ apart, as float32 do next to ½: adding that rounds.
    half = BITS(126 << 23)
    small = b.fadd(b.bitcast(size, FLOAT), b.bitcast(half, FLOAT))
    small = b.sub(b.bitcast(small, BITS), half)
    odd = b.and_(b.lshr(size, BITS(13)), BITS(1))
    usual = b.add(b.sub(size, BITS(112 << 23)), b.add(odd, BITS(0xFFF)))
    usual = b.lshr(usual, BITS(13))
    found = b.select(b.icmp_unsigned("<", size, BITS(113 << 23)), small, usual)
    found = b.select(b.icmp_unsigned(">=", size, BITS(143 << 23)), BITS(0x7C00), found)
    found = b.select(b.icmp_unsigned(">", size, BITS(255 << 23)), BITS(0x7E00), found)
    return b.trunc(b.or_(found, b.lshr(sign, BITS(16))), HALF)


def from_double(b: ir.IRBuilder, v: ir.Value) -> ir.Value:
    """Rounded once: by way of the float32 next to it whose last bit is 1, unless one is v itself."""
    near = b.fptrunc(v, FLOAT)
    back, bits = b.fpext(near, DOUBLE), b.bitcast(near, BITS)
    size = b.module.declare_intrinsic("llvm.fabs", [DOUBLE])
    outwards = b.fcmp_ordered(">", b.call(size, [v]), b.call(size, [back]))
    even = b.icmp_unsigned("==", b.and_(bits, BITS(1)), BITS(0))
    moved = b.add(bits, b.select(outwards, BITS(1), BITS(-1)))
    moves = b.and_(b.fcmp_ordered("!=", back, v), even)
    return from_single(b, b.bitcast(b.select(moves, moved, bits), FLOAT))


# ---- what looks at the bits themselves


def _is_nan(b: ir.IRBuilder, v: ir.Value) -> ir.Value:
    return b.icmp_unsigned(">", b.and_(v, _SIZE), _INFINITY)


def _nextafter(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    size, other = b.and_(x, _SIZE), b.and_(y, _SIZE)
    apart = b.icmp_unsigned("!=", b.and_(x, _SIGN), b.and_(y, _SIGN))
    inwards = b.or_(apart, b.icmp_unsigned(">", size, other))
    moved = b.add(x, b.select(inwards, HALF(-1), HALF(1)))
    nothing = b.icmp_unsigned("==", size, HALF(0))
    moved = b.select(nothing, b.or_(b.and_(y, _SIGN), HALF(1)), moved)
    zeros = b.icmp_unsigned("==", b.or_(size, other), HALF(0))
    same = b.or_(b.icmp_unsigned("==", x, y), zeros)
    return b.select(b.or_(_is_nan(b, x), _is_nan(b, y)), _NAN, b.select(same, x, moved))


def _spacing(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """To the next number above; at a power of two below 0 the gap is half as wide."""
    exponent = b.lshr(b.and_(x, _INFINITY), HALF(10))
    edge = b.icmp_unsigned("==", b.and_(x, HALF(0x3FF)), HALF(0))
    edge = b.and_(edge, b.icmp_unsigned("!=", b.and_(x, _SIGN), HALF(0)))
    place = b.sub(exponent, b.zext(edge, HALF))  # the gap is 2^(place − 25)
    normal = b.shl(b.sub(place, HALF(10)), HALF(10))
    shift = b.sub(place, HALF(1))
    shift = b.select(b.icmp_signed("<", shift, HALF(0)), HALF(0), shift)
    small = b.shl(HALF(1), b.and_(shift, HALF(15)))
    gap = b.select(b.icmp_signed(">", place, HALF(10)), normal, small)
    gap = b.select(b.icmp_unsigned("==", x, HALF(0x7BFF)), _INFINITY, gap)
    finite = b.icmp_unsigned("<", b.and_(x, _SIZE), _INFINITY)
    return b.select(finite, gap, _NAN)


RULES: dict[str, Callable[..., ir.Value]] = {"nextafter": _nextafter, "spacing": _spacing}
