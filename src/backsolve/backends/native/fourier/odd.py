"""Transforms of an odd number n = r m of real numbers, and back to them, for half the work.

The first pass of radix r has real numbers to start from. Of the r complex transforms of length m that are left
to do, of z_k = w^{p k} Σ_j x_{p + m j} e^{-2πi jk/r} with w = e^{-2πi/n}, those of k and r − k tell each other,

    y_{k + r q} = conj y_{n − k − r q}

so those of k ≤ r/2 are enough. Back: after as many transforms, of every r-th number from the k-th on,

    x_{p + m j} = z_0 + 2 Re Σ_k e^{2πi jk/r} conj(w^{p k}) z_k,    k = 1 … (r−1)/2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir

from ..library import shared
from ..numbers.registers import Complex, register_type
from ..repeat import loop_between
from .butterflies import CONTRACT, constant, multiply
from .lines import INT, Access, Lines, in_vectors, moved
from .passes import in_order
from .roots import roots
from .transform import Memory, Transform, joined, lanes_for

RADICES = (15, 9, 13, 11, 7, 5, 3)  # the more, the nearer to half the work
PART, JOIN, SPREAD, COLLECT = "part", "join", "spread", "collect"


def radix_of(n: int) -> int | None:
    """The radix for an odd n; None if it has none of them."""
    return next((r for r in RADICES if n % r == 0), None)


class _Odd(Transform):
    def __init__(self, n: int, r: int, make: Callable[[int], Transform]):
        self.n, self.r, self.m, self.inner = n, r, n // r, make(n // r)
        self.width, self.dtype = self.inner.width, self.inner.dtype
        self.is_line = self.width == 1
        self.count = r // 2 + 1  # transforms
        self.size = self.m * self.width  # of each
        self.room = 4 * self.count * self.size + self.inner.room
        factors = roots(np.arange(self.m)[:, None] * np.arange(1, self.count), n)
        first = in_order(factors, self.is_line).astype(self.dtype)
        self.table, self.starts = joined([self.inner.table, first])

    def planes(self, b: ir.IRBuilder, at: Memory, which: int) -> Lines:
        """Room for all transforms, one behind the other."""
        size = self.count * self.size
        return at.planes(b, 2 * which * size, size, self.width)

    def transforms(self, b: ir.IRBuilder, x: Lines, y: Lines, at: Memory, is_inverse: bool) -> None:
        inside = at.after(b, 4 * self.count * self.size, self.starts[0])

        def one(b: ir.IRBuilder, k: ir.Value) -> None:
            row = b.mul(k, INT(self.m))
            source, target = x.at(b, row), y.at(b, row)
            if is_inverse:
                source, target = source.swapped(), target.swapped()
            self.inner.emit(b, source, target, inside)

        loop_between(b, INT(0), INT(self.count), one)

    def call(
        self, b: ir.IRBuilder, what: str, x: Lines, y: Lines, at: Memory, numbers: int, **ways: bool
    ) -> None:
        is_line = self.is_line and what in (PART, JOIN)
        lanes = lanes_for(self.dtype, self.m if is_line else self.width)
        made = OddPass(what, self.r, self.dtype, x.kind, y.kind, lanes, is_line, **ways)
        table = b.gep(at.table, [INT(self.starts[1])])
        sizes = (self.m, self.width, x.stride, y.stride, numbers)
        b.call(made.function(b.module), [x.re, x.im, y.re, y.im, table, *map(INT, sizes)])


class OddFromReal(_Odd):
    def __init__(
        self, n: int, r: int, make: Callable[[int], Transform], is_full: bool, is_inverse: bool
    ):
        super().__init__(n, r, make)
        self.numbers, self.is_inverse = n if is_full else n // 2 + 1, is_inverse

    def emit(self, b: ir.IRBuilder, x: Lines, y: Lines, at: Memory) -> None:
        first, second = (self.planes(b, at, k) for k in (0, 1))
        self.call(b, PART, x, first, at, self.n)
        self.transforms(b, first, second, at, is_inverse=False)
        self.call(b, SPREAD, second, y, at, self.numbers, is_inverse=self.is_inverse)


class OddToReal(_Odd):
    def emit(self, b: ir.IRBuilder, x: Lines, y: Lines, at: Memory) -> None:
        first, second = (self.planes(b, at, k) for k in (0, 1))
        self.call(b, COLLECT, x, first, at, self.n)
        self.transforms(b, first, second, at, is_inverse=True)
        self.call(b, JOIN, second, y, at, self.n)


@dataclass(frozen=True)
class OddPass:
    """A function of the library: into transforms (PART, COLLECT), or from them (SPREAD, JOIN)."""

    what: str
    radix: int
    dtype: np.dtype[Any]
    source: str
    target: str
    lanes: int
    is_line: bool
    is_inverse: bool = False  # SPREAD conjugates

    def function(self, module: ir.Module) -> ir.Function:
        """f(x: its parts, y: its parts, table, m, width, steps of x and y, numbers of a line)."""
        real = register_type(self.dtype)
        kind = ir.FunctionType(ir.VoidType(), [real.as_pointer()] * 5 + [INT] * 5)
        ways = ["line"] * self.is_line + ["inverse"] * self.is_inverse
        words = ["odd", self.what, self.radix, self.dtype.name, self.source, self.target]
        name = f"fourier_{'_'.join(map(str, [*words, self.lanes, *ways]))}"
        return shared(module, name, kind, partial(_emit, self))


def _emit(which: OddPass, function: ir.Function) -> None:
    for argument in function.args[:5]:
        argument.add_attribute("noalias")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    rows, (m, width) = _Rows(which, function), function.args[5:7]
    emit = {PART: rows.part, JOIN: rows.join, SPREAD: rows.spread, COLLECT: rows.collect}
    body = emit[which.what]
    if which.is_line:
        in_vectors(b, m, which.lanes, lambda b, p: body(b, p, INT(0)))
    else:

        def row(b: ir.IRBuilder, p: ir.Value) -> None:
            in_vectors(b, width, which.lanes, lambda b, q: body(b, p, q))

        loop_between(b, INT(0), m, row)
    b.ret_void()


class _Rows:
    """What is done at row p (in a line, to a vector of rows from there on) and column q."""

    def __init__(self, which: OddPass, function: ir.Function):
        self.which, self.half = which, range(1, which.radix // 2 + 1)
        self.access = Access(register_type(which.dtype), which.lanes)
        x_re, x_im, y_re, y_im, self.table, self.m, _, *steps, self.numbers = function.args
        self.x, self.y = [x_re, x_im], [y_re, y_im]
        self.x_step, self.y_step = steps
        self.roots = roots(range(which.radix), which.radix)

    def _load(self, b: ir.IRBuilder, row: ir.Value, q: ir.Value) -> Complex:
        starts = moved(b, self.which.source, self.x, b.mul(row, self.x_step))
        return self.access.load(b, self.which.source, starts, q)

    def _store(self, b: ir.IRBuilder, v: Complex, row: ir.Value, q: ir.Value) -> None:
        starts = moved(b, self.which.target, self.y, b.mul(row, self.y_step))
        self.access.store(b, v, self.which.target, starts, q)

    def _far(self, b: ir.IRBuilder, p: ir.Value, j: int) -> ir.Value:
        return b.add(p, b.mul(self.m, INT(j)))

    def _factor(self, b: ir.IRBuilder, p: ir.Value, k: int) -> Complex:
        """w^{p k}"""
        if self.which.is_line:
            places = [self._far(b, p, 2 * (k - 1) + part) for part in (0, 1)]
            return Complex(*(self.access.plain(b, b.gep(self.table, [at])) for at in places))
        start = b.mul(p, INT(2 * len(self.half)))
        places = [b.add(start, INT(2 * (k - 1) + part)) for part in (0, 1)]
        return Complex(*(self.access.spread(b, b.load(b.gep(self.table, [at]))) for at in places))

    def _weighted(self, b: ir.IRBuilder, values: Any, k: int, part: int) -> ir.Value:
        """Σ_j of cosines (part 0) or sines of 2πjk/r with values, in the order of the values."""
        total = None
        for j, v in values.items():
            weight = float(self.roots[j * k % self.which.radix][part]) * (-1 if part else 1)
            term = b.fmul(v, constant(v.type, weight), flags=CONTRACT)
            total = term if total is None else b.fadd(total, term, flags=CONTRACT)
        return total

    def part(self, b: ir.IRBuilder, p: ir.Value, q: ir.Value) -> None:
        r = self.which.radix
        x = [self._load(b, self._far(b, p, j), q).re for j in range(r)]
        sums = {j: b.fadd(x[j], x[r - j]) for j in self.half}
        differences = {j: b.fsub(x[j], x[r - j]) for j in self.half}
        total = x[0]
        for s in sums.values():
            total = b.fadd(total, s)
        self._store(b, Complex(total, self.access.zero), p, q)
        for k in self.half:
            re = b.fadd(x[0], self._weighted(b, sums, k, 0), flags=CONTRACT)
            im = b.fneg(self._weighted(b, differences, k, 1))
            z = multiply(b, Complex(re, im), self._factor(b, p, k))
            self._store(b, z, self._far(b, p, k), q)

    def join(self, b: ir.IRBuilder, p: ir.Value, q: ir.Value) -> None:
        r, zero = self.which.radix, self.access.zero
        first = self._load(b, p, q).re
        z = {}
        for k in self.half:
            w = self._factor(b, p, k)
            found = multiply(b, self._load(b, self._far(b, p, k), q), Complex(w.re, b.fneg(w.im)))
            z[k] = Complex(*(b.fadd(v, v) for v in found))
        total = first
        for v in z.values():
            total = b.fadd(total, v.re)
        self._store(b, Complex(total, zero), p, q)
        for j in self.half:
            c = b.fadd(first, self._weighted(b, {k: v.re for k, v in z.items()}, j, 0))
            s = self._weighted(b, {k: v.im for k, v in z.items()}, j, 1)
            self._store(b, Complex(b.fsub(c, s), zero), self._far(b, p, j), q)
            self._store(b, Complex(b.fadd(c, s), zero), self._far(b, p, r - j), q)

    def spread(self, b: ir.IRBuilder, p: ir.Value, q: ir.Value) -> None:
        """The numbers from r p on, as far as they are wanted."""
        r = self.which.radix
        for k in range(r):
            at = b.add(b.mul(p, INT(r)), INT(k))
            mirrored = k not in (0, *self.half)
            with b.if_then(b.icmp_signed("<", at, self.numbers)):
                row = b.sub(b.sub(self.m, INT(1)), p) if mirrored else p
                v = self._load(b, self._far(b, row, r - k if mirrored else k), q)
                if mirrored != self.which.is_inverse:
                    v = Complex(v.re, b.fneg(v.im))
                self._store(b, v, at, q)

    def collect(self, b: ir.IRBuilder, p: ir.Value, q: ir.Value) -> None:
        """The numbers k + r p, k ≤ r/2; those beyond half are conjugates. Of the first, the real part."""
        r, zero = self.which.radix, self.access.zero
        for k in (0, *self.half):
            at = b.add(b.mul(p, INT(r)), INT(k))
            mirror = b.sub(self.numbers, at)
            below = b.icmp_signed("<", at, mirror)
            v = self._load(b, b.select(below, at, mirror), q)
            im = b.select(below, v.im, b.fneg(v.im))
            if k == 0:
                im = b.select(b.icmp_signed("==", p, INT(0)), zero, im)
            self._store(b, Complex(v.re, im), self._far(b, p, k), q)
