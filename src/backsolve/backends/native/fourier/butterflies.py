"""Transforms of a few complex numbers that stand in registers, each a vector of them."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ..numbers.registers import Complex
from .roots import roots

CONTRACT = ("contract",)  # a product and a sum may be rounded once


def add(b: ir.IRBuilder, x: Complex, y: Complex) -> Complex:
    return Complex(*(b.fadd(p, q, flags=CONTRACT) for p, q in zip(x, y, strict=True)))


def subtract(b: ir.IRBuilder, x: Complex, y: Complex) -> Complex:
    return Complex(*(b.fsub(p, q, flags=CONTRACT) for p, q in zip(x, y, strict=True)))


def add_turned(b: ir.IRBuilder, x: Complex, y: Complex) -> Complex:
    """x + i y"""
    return Complex(b.fsub(x.re, y.im, flags=CONTRACT), b.fadd(x.im, y.re, flags=CONTRACT))


def subtract_turned(b: ir.IRBuilder, x: Complex, y: Complex) -> Complex:
    """x − i y"""
    return Complex(b.fadd(x.re, y.im, flags=CONTRACT), b.fsub(x.im, y.re, flags=CONTRACT))


def multiply(b: ir.IRBuilder, x: Complex, w: Complex) -> Complex:
    def parts(p: ir.Value, q: ir.Value) -> tuple[ir.Value, ir.Value]:
        return b.fmul(p, w.re, flags=CONTRACT), b.fmul(q, w.im, flags=CONTRACT)

    return Complex(
        b.fsub(*parts(x.re, x.im), flags=CONTRACT), b.fadd(*parts(x.im, x.re), flags=CONTRACT)
    )


def scale(b: ir.IRBuilder, x: Complex, factor: float) -> Complex:
    f = constant(x.re.type, factor)
    return Complex(*(b.fmul(part, f, flags=CONTRACT) for part in x))


def constant(t: ir.Type, value: float) -> ir.Constant:
    if isinstance(t, ir.VectorType):
        return ir.Constant(t, [value] * t.count)
    return ir.Constant(t, value)


def transform(b: ir.IRBuilder, x: list[Complex]) -> list[Complex]:
    """y_k = Σ_j x_j e^{-2πi jk/r}"""
    r = len(x)
    if r == 1:
        return x
    if r == 2:
        return [add(b, *x), subtract(b, *x)]
    if r == 4:
        return _four(b, x)
    if r == 8:
        return _eight(b, x)
    return _odd(b, x)


def _four(b: ir.IRBuilder, x: list[Complex]) -> list[Complex]:
    s, d = add(b, x[0], x[2]), subtract(b, x[0], x[2])
    t, e = add(b, x[1], x[3]), subtract(b, x[1], x[3])
    return [add(b, s, t), subtract_turned(b, d, e), subtract(b, s, t), add_turned(b, d, e)]


def _eight(b: ir.IRBuilder, x: list[Complex]) -> list[Complex]:
    even, odd = _four(b, x[::2]), _four(b, x[1::2])
    half = 0.5**0.5
    # (1 − i) z and (−1 − i) z, both to be scaled.
    first = scale(b, subtract_turned(b, odd[1], odd[1]), half)
    third = scale(b, subtract_turned(b, Complex(*map(b.fneg, odd[3])), odd[3]), half)
    pairs = [
        (add(b, even[0], odd[0]), subtract(b, even[0], odd[0])),
        (add(b, even[1], first), subtract(b, even[1], first)),
        (subtract_turned(b, even[2], odd[2]), add_turned(b, even[2], odd[2])),
        (add(b, even[3], third), subtract(b, even[3], third)),
    ]
    return [p for p, _ in pairs] + [q for _, q in pairs]


def _odd(b: ir.IRBuilder, x: list[Complex]) -> list[Complex]:
    """With sums and differences of x_j and x_{r−j}, y_k and y_{r−k} are c ∓ i s."""
    r = len(x)
    w = roots(range(r), r)
    half = range(1, r // 2 + 1)
    sums = {j: add(b, x[j], x[r - j]) for j in half}
    differences = {j: subtract(b, x[j], x[r - j]) for j in half}
    y: list[Any] = [None] * r
    total = x[0]
    for j in half:
        total = add(b, total, sums[j])
    y[0] = total
    for k in half:
        c, s = x[0], None
        for j in half:
            cosine, minus_sine = (float(v) for v in w[j * k % r])
            c = add(b, c, scale(b, sums[j], cosine))
            term = scale(b, differences[j], -minus_sine)
            s = term if s is None else add(b, s, term)
        assert s is not None
        y[k], y[r - k] = subtract_turned(b, c, s), add_turned(b, c, s)
    return y
