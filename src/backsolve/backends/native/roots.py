"""The square root of a triangular matrix, in place and column by column.

    r_jj = √t_jj        (r_ii + r_jj) r_ij = t_ij − Σ_{i<k<j} r_ik r_kj

from the diagonal upwards; as soon as r_ij is known, its products are taken off the entries above it. In a real
Schur form a pair of conjugate eigenvalues is a block [a b; c a] on the diagonal, with b c < 0. Its root is
[α, b/2α; c/2α, α], α² = (a + √(a² − b c)) / 2, and an entry beside it is a block X with R_i X + X R_j = T.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from .blas import fortran
from .matrices import CINT, INT, counting, slot
from .numbers import complex as complex_number
from .numbers import real as real_number
from .numbers.integer import while_
from .numbers.real import fabs, intrinsic
from .numbers.registers import Register, load, memory_type, number, select, store

sqrt = intrinsic("llvm.sqrt")
Refuse = Callable[[ir.IRBuilder, ir.Value], None]


def emit_root(b: ir.IRBuilder, dtype: np.dtype[Any], n: int, R: ir.Value, refuse: Refuse) -> None:
    """R := √R; `refuse(b, condition)` leaves where a real matrix has no real root."""
    root = _Root(dtype, n, R)
    if dtype.kind == "c":
        root.emit_complex(b)
    else:
        root.emit_real(b, refuse)


class _Root:
    def __init__(self, dtype: np.dtype[Any], n: int, R: ir.Value):
        self.dtype, self.n, self.R = dtype, n, R
        self.rules = complex_number.RULES if dtype.kind == "c" else real_number.RULES

    def at(self, b: ir.IRBuilder, i: ir.Value, j: ir.Value) -> ir.Value:
        return b.gep(self.R, [b.add(i, b.mul(j, INT(self.n)))])

    def load(self, b: ir.IRBuilder, i: ir.Value, j: ir.Value) -> Register:
        return load(b, self.at(b, i, j), self.dtype)

    def store(self, b: ir.IRBuilder, x: Register, i: ir.Value, j: ir.Value) -> None:
        store(b, x, self.at(b, i, j), self.dtype)

    def emit_complex(self, b: ir.IRBuilder) -> None:
        with counting(b, self.n) as j:
            self.store(b, self.rules["sqrt"](b, self.load(b, j, j)), j, j)
        with counting(b, self.n) as j, counting(b, j) as k:
            i = b.sub(b.sub(j, INT(1)), k)
            self._divide(b, i, j)
            self._take_off(b, i, j)

    def emit_real(self, b: ir.IRBuilder, refuse: Refuse) -> None:
        self._blocks(b, lambda b, j, pair: self._diagonal(b, j, pair, refuse))

        def column(b: ir.IRBuilder, j: ir.Value, pair: ir.Value) -> None:
            width = self._width(b, pair)

            def upwards(b: ir.IRBuilder, end: ir.Value) -> list[ir.Value]:
                last = b.sub(end, INT(1))
                several = b.icmp_signed(">", last, INT(0))
                before = b.select(several, b.sub(last, INT(1)), INT(0))
                paired = b.and_(several, self._is_below(b, last, before))
                i = b.select(paired, before, last)
                with b.if_else(b.or_(pair, paired)) as (block, one):
                    with block:
                        self._solve(b, i, j, self._width(b, paired), width)
                    with one:
                        self._divide(b, i, j)
                with counting(b, b.add(j, width), j) as q, counting(b, end, i) as p:
                    self._take_off(b, p, q, i)
                return [i]

            while_(b, [j], lambda b, end: b.icmp_signed(">", end, INT(0)), upwards)

        self._blocks(b, column)

    def _blocks(self, b: ir.IRBuilder, body: Callable[..., None]) -> None:
        """`body(b, j, whether it is a pair)` for every block on the diagonal."""

        def step(b: ir.IRBuilder, j: ir.Value) -> list[ir.Value]:
            following = b.add(j, INT(1))
            inside = b.icmp_signed("<", following, INT(self.n))
            pair = b.and_(inside, self._is_below(b, b.select(inside, following, j), j))
            body(b, j, pair)
            return [b.add(j, self._width(b, pair))]

        while_(b, [INT(0)], lambda b, j: b.icmp_signed("<", j, INT(self.n)), step)

    def _is_below(self, b: ir.IRBuilder, i: ir.Value, j: ir.Value) -> ir.Value:
        """Whether there is an entry below the diagonal; none is on it."""
        entry = self.load(b, i, j)
        nonzero = b.fcmp_unordered("!=", entry, ir.Constant(entry.type, 0.0))
        return b.and_(nonzero, b.icmp_signed(">", i, j))

    def _width(self, b: ir.IRBuilder, pair: ir.Value) -> ir.Value:
        return b.select(pair, INT(2), INT(1))

    def _diagonal(self, b: ir.IRBuilder, j: ir.Value, pair: ir.Value, refuse: Refuse) -> None:
        a = self.load(b, j, j)
        zero, half, two = (ir.Constant(a.type, c) for c in (0.0, 0.5, 2.0))
        with b.if_then(pair):
            next_ = b.add(j, INT(1))
            beside, below = self.load(b, j, next_), self.load(b, next_, j)
            mu = b.fmul(sqrt(b, fabs(b, beside)), sqrt(b, fabs(b, below)))
            size = fabs(b, a)
            wide = b.fcmp_ordered(">=", size, mu)
            high, low = b.select(wide, size, mu), b.select(wide, mu, size)
            ratio = b.fdiv(low, high)
            one = ir.Constant(a.type, 1.0)
            modulus = b.fmul(high, sqrt(b, b.fadd(one, b.fmul(ratio, ratio))))
            larger = sqrt(b, b.fadd(b.fmul(half, size), b.fmul(half, modulus)))
            smaller = b.fdiv(mu, b.fmul(two, larger))
            alpha = b.select(b.fcmp_ordered(">=", a, zero), larger, smaller)
            for i in (j, next_):
                self.store(b, alpha, i, i)
            twice = b.fmul(two, alpha)
            self.store(b, b.fdiv(beside, twice), j, next_)
            self.store(b, b.fdiv(below, twice), next_, j)
        with b.if_then(b.not_(pair)):
            refuse(b, b.fcmp_ordered("<", a, zero))
            self.store(b, sqrt(b, a), j, j)

    def _divide(self, b: ir.IRBuilder, i: ir.Value, j: ir.Value) -> None:
        """A zero stays one, also where both roots are 0."""
        t = self.load(b, i, j)
        total = self.rules["add"](b, self.load(b, i, i), self.load(b, j, j))
        x = self.rules["divide"](b, t, total)
        zero = number(0.0, self.dtype)
        nothing = self.rules["equal"](b, t, zero)
        self.store(b, select(b, nothing, t, x), i, j)

    def _solve(
        self, b: ir.IRBuilder, i: ir.Value, j: ir.Value, rows: ir.Value, columns: ir.Value
    ) -> None:
        """A block of two rows or columns. (It is scaled only if it would overflow.)"""
        with b.goto_entry_block():
            sizes = [b.alloca(CINT) for _ in range(2)]
            scale = b.alloca(memory_type(self.dtype))
        for place, size in zip(sizes, (rows, columns), strict=True):
            b.store(b.trunc(size, CINT), place)
        blocks = [self.at(b, i, i), self.n, self.at(b, j, j), self.n, self.at(b, i, j), self.n]
        fortran(b, self.dtype, "trsyl", "N", "N", 1, *sizes, *blocks, scale, slot(b))

    def _take_off(
        self, b: ir.IRBuilder, i: ir.Value, j: ir.Value, end: ir.Value | None = None
    ) -> None:
        """The products of r_ij off what is above row `end` (or i) of column j."""
        x = self.load(b, i, j)
        with counting(b, i if end is None else end) as k:
            product = self.rules["multiply"](b, self.load(b, k, i), x)
            self.store(b, self.rules["subtract"](b, self.load(b, k, j), product), k, j)
