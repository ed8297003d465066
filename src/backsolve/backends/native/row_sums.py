"""Rows of numbers added to rows of others, in vectors that are written out.

Rows of images are short: LLVM would unroll their loops into single numbers before it looks for vectors.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from .repeat import loop_with

INT, CINT = ir.IntType(64), ir.IntType(32)
NUMBERS = (np.dtype(np.float32), np.dtype(np.float64))
WIDTH = 64  # bytes added at once, in as many vectors as the processor needs for them
UNROLLED = 4  # so many times WIDTH without a loop


def add_row(b: ir.IRBuilder, to: ir.Value, step: int, new: ir.Value, length: int) -> None:
    """to[step · j] += new[j] for all j < length; the step is 1 or 2.

    With a step of 2, zeros are added in between. They change nothing, for a sum that began with +0 is no −0.
    """
    most = WIDTH // _nbytes(new)
    in_vectors = length - (step - 1)  # behind the last entry there may be nothing
    whole = in_vectors // most

    def add(b: ir.IRBuilder, at: ir.Value, width: int) -> None:
        x = _load(b, b.gep(new, [at]), width)
        x = _with_zeros(b, x) if step == 2 else x
        _add(b, b.gep(to, [b.mul(at, INT(step))]), x)

    def add_most(b: ir.IRBuilder, i: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        add(b, b.mul(i, INT(most)), most)
        return []

    at, width = 0, most
    if whole > UNROLLED:
        loop_with(b, whole, [], add_most)
        at = whole * most
    while at < in_vectors:
        while at + width > in_vectors:
            width //= 2
        add(b, INT(at), width)
        at += width
    if at < length:
        _add(b, b.gep(to, [INT(at * step)]), _load(b, b.gep(new, [INT(at)]), 1))


def _add(b: ir.IRBuilder, address: ir.Value, x: ir.Value) -> None:
    total = b.fadd(_load(b, address, x.type.count), x)
    b.store(total, b.bitcast(address, x.type.as_pointer()), align=_nbytes(address))


def _load(b: ir.IRBuilder, address: ir.Value, width: int) -> ir.Value:
    vector = ir.VectorType(address.type.pointee, width)
    return b.load(b.bitcast(address, vector.as_pointer()), align=_nbytes(address))


def _with_zeros(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """x₀, 0, x₁, 0, …"""
    width = x.type.count
    order = [k // 2 if k % 2 == 0 else width for k in range(2 * width)]
    places = ir.Constant(ir.VectorType(CINT, 2 * width), order)
    return b.shuffle_vector(x, ir.Constant(x.type, [0.0] * width), places)


def _nbytes(pointer: ir.Value) -> int:
    return 4 if pointer.type.pointee == ir.FloatType() else 8
