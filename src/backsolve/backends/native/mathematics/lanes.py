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

    def _intrinsic(self, name: str) -> Real:
        f = self.b.module.declare_intrinsic(name, [self.format.real])
        return self._new(self.b.call(f, [self.value]))

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


def at_most(x: Real, high: Real | float) -> Real:
    """min(x, high); NaN stays NaN."""
    return select(x > high, high, x)


def at_least(x: Real, low: Real | float) -> Real:
    """max(x, low); NaN stays NaN."""
    return select(x < low, low, x)


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


def scale(x: Real, n: Bits) -> Real:
    """x 2^n rounded once, where 2^n itself may be no normal number: in two steps, n = m + (n − m)."""
    biased = n + 2 * n.format.bias  # positive, so that the logical shift halves it
    half = biased >> 1
    shift = n.format.digits - 1
    return x * (half << shift).real() * ((biased - half) << shift).real()


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """c₀ + c₁ x + c₂ x² + … by Estrin's scheme: pairs, pairs of pairs, …: a short chain of fma."""
    terms: list[Real | float] = list(coefficients)
    while len(terms) > 1:
        odd = len(terms) % 2
        # (c₀ + c₁ x) + (c₂ + c₃ x) x² + …
        paired: list[Real | float] = [
            fma(x, high, low) for low, high in zip(terms[::2], terms[1::2], strict=False)
        ]
        terms = paired + (terms[-1:] if odd else [])
        if len(terms) > 1:
            x = x * x
    first = terms[0]
    return first if isinstance(first, Real) else x.constant(first)
