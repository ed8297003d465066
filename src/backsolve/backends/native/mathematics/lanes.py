"""Arithmetic on one lane: operators on LLVM values, so that the emitters read as formulas.

A `Real` is a float32 or float64 value under construction, `Bits` an integer of the same width, `Mask`
a comparison. They hold scalars; a loop of them has no branches, so LLVM's vectoriser widens it to
whatever the processor has. No instruction carries a fast-math flag: the double-length arithmetic of
`pairs` needs every rounding to happen where it is written.

What is avoided, because some vector unit lacks it: 64-bit integer multiplication and conversion
between float64 and int64 (NEON, AVX2), arithmetic shift right of int64 (AVX2). fma is taken for granted:
an x86-64 processor older than AVX2 gets the same results by calls of libm's fma, slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir


@dataclass(frozen=True)
class Format:
    """An IEEE format: `digits` of significand, the hidden one included, and the exponent's bias."""

    name: str
    real: ir.Type
    bits: ir.Type
    dtype: Any
    digits: int
    bias: int

    @property
    def width(self) -> int:
        return int(self.bits.width)

    @property
    def magic(self) -> float:
        """1.5 · 2^(digits−1): x + magic has the integer nearest to x in its lowest bits."""
        return 1.5 * 2.0 ** (self.digits - 1)

    @property
    def tiny(self) -> float:
        """The smallest normal number."""
        return float(np.finfo(self.dtype).tiny)

    def round(self, x: Any) -> float:
        """The number of this format nearest to x (an mpmath number, a float)."""
        return float(self.dtype(float(x)))


FLOAT64 = Format("float64", ir.DoubleType(), ir.IntType(64), np.float64, 53, 1023)
FLOAT32 = Format("float32", ir.FloatType(), ir.IntType(32), np.float32, 24, 127)
FORMATS = {f.name: f for f in (FLOAT64, FLOAT32)}


@dataclass(frozen=True, eq=False)
class Lane:
    """What Real, Bits and Mask share."""

    b: ir.IRBuilder
    value: ir.Value
    format: Format


class Mask(Lane):
    def __and__(self, other: Mask) -> Mask:
        return Mask(self.b, self.b.and_(self.value, other.value), self.format)

    def __or__(self, other: Mask) -> Mask:
        return Mask(self.b, self.b.or_(self.value, other.value), self.format)

    def __xor__(self, other: Mask) -> Mask:
        return Mask(self.b, self.b.xor(self.value, other.value), self.format)

    def __invert__(self) -> Mask:
        return Mask(self.b, self.b.not_(self.value), self.format)

    def bits(self) -> Bits:
        """All ones where it is true."""
        return Bits(self.b, self.b.sext(self.value, self.format.bits), self.format)


class Bits(Lane):
    def lift(self, other: Bits | int) -> ir.Value:
        if isinstance(other, Bits):
            return other.value
        return ir.Constant(self.format.bits, other % (1 << self.format.width))

    def _new(self, op: Callable[..., ir.Value], other: Bits | int) -> Bits:
        return Bits(self.b, op(self.value, self.lift(other)), self.format)

    def __add__(self, other: Bits | int) -> Bits:
        return self._new(self.b.add, other)

    def __sub__(self, other: Bits | int) -> Bits:
        return self._new(self.b.sub, other)

    def __and__(self, other: Bits | int) -> Bits:
        return self._new(self.b.and_, other)

    def __or__(self, other: Bits | int) -> Bits:
        return self._new(self.b.or_, other)

    def __xor__(self, other: Bits | int) -> Bits:
        return self._new(self.b.xor, other)

    def __lshift__(self, other: Bits | int) -> Bits:
        return self._new(self.b.shl, other)

    def __rshift__(self, other: Bits | int) -> Bits:
        """A logical shift: zeros come in."""
        return self._new(self.b.lshr, other)

    def __rsub__(self, other: int) -> Bits:
        return Bits(self.b, self.b.sub(self.lift(other), self.value), self.format)

    def __neg__(self) -> Bits:
        return Bits(self.b, self.b.neg(self.value), self.format)

    def equals(self, other: Bits | int) -> Mask:
        return Mask(self.b, self.b.icmp_signed("==", self.value, self.lift(other)), self.format)

    def __lt__(self, other: Bits | int) -> Mask:
        return Mask(self.b, self.b.icmp_signed("<", self.value, self.lift(other)), self.format)

    def real(self) -> Real:
        return Real(self.b, self.b.bitcast(self.value, self.format.real), self.format)


class Real(Lane):
    def constant(self, c: float) -> Real:
        return Real(self.b, ir.Constant(self.format.real, self.format.round(c)), self.format)

    def lift(self, other: Real | float) -> ir.Value:
        return other.value if isinstance(other, Real) else self.constant(other).value

    def _new(self, value: ir.Value) -> Real:
        return Real(self.b, value, self.format)

    def __add__(self, other: Real | float) -> Real:
        return self._new(self.b.fadd(self.value, self.lift(other)))

    def __sub__(self, other: Real | float) -> Real:
        return self._new(self.b.fsub(self.value, self.lift(other)))

    def __rsub__(self, other: float) -> Real:
        return self._new(self.b.fsub(self.lift(other), self.value))

    def __mul__(self, other: Real | float) -> Real:
        return self._new(self.b.fmul(self.value, self.lift(other)))

    def __truediv__(self, other: Real | float) -> Real:
        return self._new(self.b.fdiv(self.value, self.lift(other)))

    def __rtruediv__(self, other: float) -> Real:
        return self._new(self.b.fdiv(self.lift(other), self.value))

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Real:
        return self._new(self.b.fneg(self.value))

    # Ordered comparisons: false where either side is NaN.
    def _compare(self, sign: str, other: Real | float) -> Mask:
        return Mask(self.b, self.b.fcmp_ordered(sign, self.value, self.lift(other)), self.format)

    def __lt__(self, other: Real | float) -> Mask:
        return self._compare("<", other)

    def __le__(self, other: Real | float) -> Mask:
        return self._compare("<=", other)

    def __gt__(self, other: Real | float) -> Mask:
        return self._compare(">", other)

    def __ge__(self, other: Real | float) -> Mask:
        return self._compare(">=", other)

    def equals(self, other: Real | float) -> Mask:
        return self._compare("==", other)

    def is_nan(self) -> Mask:
        return Mask(self.b, self.b.fcmp_unordered("uno", self.value, self.value), self.format)

    def bits(self) -> Bits:
        return Bits(self.b, self.b.bitcast(self.value, self.format.bits), self.format)

    def _intrinsic(self, name: str, *others: Real | float) -> Real:
        t = self.format.real
        type = ir.FunctionType(t, [t] * (1 + len(others)))
        f = self.b.module.declare_intrinsic(name, [t], type)
        return self._new(self.b.call(f, [self.value, *(self.lift(v) for v in others)]))

    def sqrt(self) -> Real:
        return self._intrinsic("llvm.sqrt")

    def nearest(self) -> Real:
        """The nearest integer, ties to even."""
        return self._intrinsic("llvm.rint")

    def floor(self) -> Real:
        return self._intrinsic("llvm.floor")

    def fabs(self) -> Real:
        return self._intrinsic("llvm.fabs")

    def sign(self) -> Bits:
        """The sign bit alone."""
        return self.bits() & (1 << (self.format.width - 1))

    def signed_as(self, x: Real) -> Real:
        """|self| with the sign of x."""
        return self._intrinsic("llvm.copysign", x)

    def flip(self, sign: Bits) -> Real:
        """±self: negated where the sign bit is set."""
        return (self.bits() ^ sign).real()

    def to(self, format: Format) -> Real:
        if format is self.format:
            return self
        cast = self.b.fpext if format is FLOAT64 else self.b.fptrunc
        return Real(self.b, cast(self.value, format.real), format)


def fma(a: Real, b: Real | float, c: Real | float) -> Real:
    """a b + c with one rounding."""
    return Real(a.b, a.b.fma(a.value, a.lift(b), a.lift(c)), a.format)


def select(mask: Mask, a: Real | float, b: Real | float) -> Real:
    format = next((v.format for v in (a, b) if isinstance(v, Real)), mask.format)
    like = Real(mask.b, mask.value, format)
    return Real(mask.b, mask.b.select(mask.value, like.lift(a), like.lift(b)), format)


def select_bits(mask: Mask, a: Bits | int, b: Bits | int) -> Bits:
    format = next((v.format for v in (a, b) if isinstance(v, Bits)), mask.format)
    like = Bits(mask.b, mask.value, format)
    return Bits(mask.b, mask.b.select(mask.value, like.lift(a), like.lift(b)), format)


def at_most(x: Real, high: float) -> Real:
    """min(x, high); NaN stays NaN. One instruction, since `high` is a constant and not 0."""
    return x._intrinsic("llvm.minimum", high)


def at_least(x: Real, low: float) -> Real:
    """max(x, low); NaN stays NaN."""
    return x._intrinsic("llvm.maximum", low)


def within(x: Real, low: float, high: float) -> Real:
    return at_least(at_most(x, high), low)


def round_to_integer(x: Real, factor: Real | float = 1.0) -> tuple[Real, Bits]:
    """n = the integer nearest to factor · x, as a Real and as Bits; |n| < 2^(digits−2)."""
    magic = x.format.magic
    shifted = fma(x, factor, magic)
    return shifted - magic, shifted.bits() - integer_bits(x.format, magic)


def integer_bits(format: Format, c: float) -> int:
    """The bit pattern of a constant."""
    return int(format.dtype(c).view(f"int{format.width}"))


def as_real(n: Bits) -> Real:
    """A small signed integer as a Real: added to the magic number's bits, which is then taken off."""
    magic = n.format.magic
    return (n + integer_bits(n.format, magic)).real() - magic


def power_of_two(n: Bits) -> Real:
    """2^n for n within the exponents of normal numbers."""
    return ((n + n.format.bias) << (n.format.digits - 1)).real()


def round_to_exponent(x: Real, factor: float, offset: float | None = None) -> tuple[Real, Bits]:
    """n = the integer nearest to factor · x + offset, as a Real, and as what `times_power` takes.

    The magic number's lowest bits are 0: shifted to the exponent's place, n alone is left."""
    magic = x.format.magic
    shifted = fma(x, factor, magic) if offset is None else fma(x, factor, offset) + magic
    return shifted - magic, shifted.bits() << (x.format.digits - 1)


def times_power(c: float, n: Bits, sign: int = 1) -> Real:
    """c · 2^n (2^−n for sign −1) by one integer addition; c and the result are normal numbers."""
    bits = integer_bits(n.format, c)
    return (n + bits if sign > 0 else bits - n).real()


def scale(x: Real, n: Bits) -> Real:
    """x 2^n rounded once, where 2^n itself may be no normal number: in two steps, n = m + (n − m)."""
    biased = n + 2 * n.format.bias  # positive, so that the logical shift halves it
    half = biased >> 1
    shift = n.format.digits - 1
    return x * (half << shift).real() * ((biased - half) << shift).real()


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """c₀ + c₁ x + c₂ x² + …: pairs c₀ + c₁ x, c₂ + c₃ x, …, and these by Horner's rule in x².

    Half the depth of Horner's rule, and with one multiplication more it is cheaper: the sum with a
    constant needs a copy of it on arm64, whose fma overwrites the addend; a pair may be overwritten.
    """
    pairs = [
        fma(x, pair[1], pair[0]) if len(pair) == 2 else x.constant(pair[0])
        for pair in (coefficients[k : k + 2] for k in range(0, len(coefficients), 2))
    ]
    total = pairs.pop()
    square = x * x
    while pairs:
        total = fma(square, total, pairs.pop())
    return total
