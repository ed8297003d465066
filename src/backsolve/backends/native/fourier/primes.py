"""A pass of a prime radix q that is too large to be written out, but not large enough for a convolution.

One function for all of them, which sums up (as butterflies.py does for small ones)

    c_k = x_0 + Σ_j cos(2πjk/q) (x_j + x_{q−j}),    s_k = Σ_j sin(2πjk/q) (x_j − x_{q−j}),    j = 1 … (q−1)/2

and has y_k = c_k − i s_k, y_{q−k} = c_k + i s_k. Two k at a time, so that what is loaded is used twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir

from ..library import shared
from ..numbers.registers import Complex, register_type
from ..repeat import loop_between, range_loop
from .butterflies import CONTRACT, add, add_turned, multiply, subtract, subtract_turned
from .lines import CINT, INT, Access, in_vectors, moved
from .roots import LARGEST, roots


@dataclass(frozen=True)
class PrimePass:
    """As a Pass along rows, with the radix as one more argument; its table begins with the roots."""

    radix: int
    dtype: np.dtype[Any]  # of the parts
    source: str
    target: str
    lanes: int
    turns: bool

    @property
    def more(self) -> tuple[int, ...]:
        return (self.radix,)

    def function(self, module: ir.Module) -> ir.Function:
        real = register_type(self.dtype)
        kind = ir.FunctionType(ir.VoidType(), [real.as_pointer()] * 5 + [INT] * 6)
        words = ["prime", self.dtype.name, self.source, self.target, self.lanes]
        name = f"fourier_{'_'.join(map(str, words))}{'_turns' * self.turns}"
        return shared(module, name, kind, partial(_emit, self))

    def table(self, m: int) -> Any:
        q = self.radix
        powers = np.arange(m)[:, None] * np.arange(1, q)
        found = [roots(np.arange(q), q), roots(powers if self.turns else powers[:0], m * q)]
        return np.concatenate([f.ravel() for f in found]).astype(self.dtype)


def _emit(which: PrimePass, function: ir.Function) -> None:
    for argument in function.args[:5]:
        argument.add_attribute("noalias")
    x_re, x_im, y_re, y_im, _, m, blocks, width, x_step, y_step, q = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    far, near = b.mul(m, b.mul(blocks, x_step)), b.mul(blocks, y_step)
    rows = _Rows(which, b, function, far, near)

    def group(b: ir.IRBuilder, p: ir.Value) -> None:
        def block(b: ir.IRBuilder, i: ir.Value) -> None:
            x_start = b.mul(b.add(i, b.mul(blocks, p)), x_step)
            y_start = b.mul(b.add(i, b.mul(blocks, b.mul(p, q))), y_step)
            x = moved(b, which.source, [x_re, x_im], x_start)
            y = moved(b, which.target, [y_re, y_im], y_start)
            in_vectors(b, width, which.lanes, lambda b, at: rows.emit(b, p, x, y, at))

        loop_between(b, INT(0), blocks, block)

    loop_between(b, INT(0), m, group)
    b.ret_void()


class _Rows:
    """What is done to a vector of every row of a group."""

    def __init__(
        self,
        which: PrimePass,
        b: ir.IRBuilder,
        function: ir.Function,
        far: ir.Value,
        near: ir.Value,
    ):
        self.which, self.far, self.near = which, far, near
        self.table, self.q = function.args[4], function.args[-1]
        self.access = Access(register_type(which.dtype), which.lanes)
        self.half = b.lshr(self.q, INT(1))
        self.sums = b.alloca(
            ir.ArrayType(self.access.zero.type, 4), LARGEST // 2
        )  # and differences

    def emit(
        self, b: ir.IRBuilder, p: ir.Value, x: list[ir.Value], y: list[ir.Value], at: ir.Value
    ) -> None:
        def load(b: ir.IRBuilder, j: ir.Value) -> Complex:
            row = moved(b, self.which.source, x, b.mul(j, self.far))
            return self.access.load(b, self.which.source, row, at)

        def store(b: ir.IRBuilder, v: Complex, k: ir.Value) -> None:
            row = moved(b, self.which.target, y, b.mul(k, self.near))
            self.access.store(b, v, self.which.target, row, at)

        def pair(b: ir.IRBuilder, j: ir.Value, total: list[ir.Value]) -> list[ir.Value]:
            u, v = load(b, b.add(j, INT(1))), load(b, b.sub(self.q, b.add(j, INT(1))))
            s = add(b, u, v)
            for k, part in enumerate([*s, *subtract(b, u, v)]):
                b.store(part, b.gep(self.sums, [j, CINT(k)]))
            return list(add(b, Complex(*total), s))

        first = load(b, INT(0))
        total = range_loop(b, INT(0), self.half, pair, list(first))
        store(b, Complex(*total), INT(0))

        def two(b: ir.IRBuilder, i: ir.Value) -> None:
            ks = [b.add(i, INT(k)) for k in (1, 2)]
            for k, (c, s) in zip(ks, self._sums(b, ks, first), strict=True):
                ends = (subtract_turned(b, c, s), k), (add_turned(b, c, s), b.sub(self.q, k))
                for v, row in ends:
                    store(b, self._turned(b, v, p, row), row)

        in_vectors(b, self.half, 2, two)

    def _sums(
        self, b: ir.IRBuilder, ks: list[ir.Value], first: Complex
    ) -> list[tuple[Complex, Complex]]:
        """c and s of both k."""

        def term(b: ir.IRBuilder, j: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
            found = [b.load(b.gep(self.sums, [j, CINT(k)])) for k in range(4)]
            new = []
            for n, k in enumerate(ks):
                power, *sums = state[5 * n : 5 * n + 5]
                cosine, minus_sine = self._root(b, power)
                factors = [cosine] * 2 + [minus_sine] * 2
                products = [
                    b.fmul(f, v, flags=CONTRACT) for f, v in zip(factors, found, strict=True)
                ]
                power = b.add(power, k)
                rest = b.sub(power, self.q)
                new += [b.select(b.icmp_signed("<", rest, INT(0)), power, rest)]
                new += [b.fadd(s, v, flags=CONTRACT) for s, v in zip(sums, products, strict=True)]
            return new

        zero = self.access.zero
        start = [value for k in ks for value in (k, *first, zero, zero)]
        done = range_loop(b, INT(0), self.half, term, start)
        sums = [done[5 * n + 1 : 5 * n + 5] for n in range(len(ks))]
        return [(Complex(*s[:2]), Complex(*(b.fneg(v) for v in s[2:]))) for s in sums]

    def _root(self, b: ir.IRBuilder, power: ir.Value, start: ir.Value | None = None) -> Complex:
        at = b.mul(power, INT(2))
        at = at if start is None else b.add(at, start)
        places = [b.gep(self.table, [b.add(at, INT(part))]) for part in (0, 1)]
        return Complex(*(self.access.spread(b, b.load(place)) for place in places))

    def _turned(self, b: ir.IRBuilder, v: Complex, p: ir.Value, row: ir.Value) -> Complex:
        if not self.which.turns:
            return v
        before = b.mul(p, b.sub(self.q, INT(1)))
        at = b.add(before, b.sub(row, INT(1)))
        return multiply(b, v, self._root(b, at, b.mul(self.q, INT(2))))
