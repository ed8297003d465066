"""One pass of a transform: n numbers in m groups of r that lie far apart become groups that lie side by side.

With row p + m j of the source as x_j (Stockham's order, in which nothing has to be put in order at the end),

    y_{r p + k} = w^{p k} Σ_j x_j e^{-2πi jk/r},    w = e^{-2πi/(r m)}

are the rows of the result; left to do are transforms of length m of every r-th row. Rows are `width` numbers
wide, all treated alike, so that vectors lie along rows: those of transforms side by side, and blocks of rows
that earlier passes are done with. In the first pass over a single line, whose rows are one number each, vectors
go over p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from ..library import shared
from ..numbers.registers import Complex, register_type
from ..repeat import loop_between
from .butterflies import multiply, transform
from .lines import INT, Access, in_vectors, moved
from .roots import roots


@dataclass(frozen=True)
class Pass:
    """A function of the library. Radix 1 multiplies row p by the number p of its table."""

    radix: int
    dtype: np.dtype[Any]  # of the parts
    source: str  # how numbers lie
    target: str
    lanes: int
    is_line: bool  # rows are one number each, and lie side by side
    turns: bool = True  # by factors w; those of the last pass are 1
    more = ()  # arguments

    def function(self, module: ir.Module) -> ir.Function:
        """f(x: its parts, y: its parts, table, m, blocks, width, steps of x and y from row to row).

        A row of m r may be a block of so many rows, all `width` wide, where these lie apart.
        """
        real = register_type(self.dtype)
        kind = ir.FunctionType(ir.VoidType(), [real.as_pointer()] * 5 + [INT] * 5)
        ways = ["line"] * self.is_line + ["turns"] * self.turns
        words = [self.radix, self.dtype.name, self.source, self.target, self.lanes, *ways]
        name = f"fourier_{'_'.join(map(str, words))}"
        return shared(module, name, kind, lambda function: _Emitter(self, function).emit())

    def table(self, m: int) -> Any:
        """The factors w^{p k}: for every p those of k = 1 … r − 1; of a line, for every k those of p."""
        r = self.radix
        powers = np.arange(m)[:, None] * np.arange(1, r)
        found = roots(powers, m * r)
        return in_order(found, self.is_line).astype(self.dtype)


def in_order(factors: Any, is_line: bool) -> Any:
    """Factors (p, k, part) as the passes read them."""
    return factors.transpose(1, 2, 0).ravel() if is_line else factors.ravel()


class _Emitter:
    def __init__(self, which: Pass, function: ir.Function):
        self.which, self.function = which, function
        self.access = Access(register_type(which.dtype), which.lanes)
        x_re, x_im, y_re, y_im, self.table, *sizes = function.args
        self.x, self.y = [x_re, x_im], [y_re, y_im]
        self.m, self.blocks, self.width, self.x_step, self.y_step = sizes
        first = min(1, which.radix - 1)
        self.turning = range(first, which.radix) if which.turns else range(0)  # have a factor

    def emit(self) -> None:
        for argument in self.function.args[:5]:
            argument.add_attribute("noalias")
        b = ir.IRBuilder(self.function.append_basic_block("entry"))
        if self.which.is_line:
            in_vectors(b, self.m, self.which.lanes, self._group)
        else:
            near, far = b.mul(self.blocks, self.y_step), b.mul(self.blocks, self.x_step)
            far = b.mul(self.m, far)
            self.x_distances, self.y_distances = (
                [b.mul(step, INT(j)) for j in range(self.which.radix)] for step in (far, near)
            )
            loop_between(b, INT(0), self.m, self._row)
        b.ret_void()

    def _group(self, b: ir.IRBuilder, p: ir.Value) -> None:
        """Vectors of p."""
        r, access = self.which.radix, self.access
        places = [b.add(p, b.mul(self.m, INT(j))) for j in range(r)]
        y = transform(b, [access.load(b, self.which.source, self.x, at) for at in places])
        for line, k in enumerate(self.turning):
            starts = [b.add(p, b.mul(self.m, INT(2 * line + part))) for part in (0, 1)]
            w = Complex(*(access.plain(b, b.gep(self.table, [at])) for at in starts))
            y[k] = multiply(b, y[k], w)
        if r == 1:
            access.store(b, y[0], self.which.target, self.y, p)
            return
        at = b.mul(p, INT(r))
        for start, part in zip(self.y, zip(*y, strict=True), strict=True):  # a line goes to planes
            access.interleave(b, list(part), b.gep(start, [at]))

    def _row(self, b: ir.IRBuilder, p: ir.Value) -> None:
        r, which, access = self.which.radix, self.which, self.access
        w = self._factors(b, p)

        def block(b: ir.IRBuilder, i: ir.Value) -> None:
            x_start = b.mul(b.add(i, b.mul(self.blocks, p)), self.x_step)
            y_start = b.mul(b.add(i, b.mul(self.blocks, b.mul(p, INT(r)))), self.y_step)
            x_rows, y_rows = (
                [moved(b, kind, starts, b.add(first, at)) for at in distances]
                for kind, starts, first, distances in (
                    (which.source, self.x, x_start, self.x_distances),
                    (which.target, self.y, y_start, self.y_distances),
                )
            )

            def numbers(b: ir.IRBuilder, q: ir.Value) -> None:
                y = transform(b, [access.load(b, which.source, row, q) for row in x_rows])
                for factor, k in zip(w, self.turning, strict=True):
                    y[k] = multiply(b, y[k], factor)
                for v, row in zip(y, y_rows, strict=True):
                    access.store(b, v, which.target, row, q)

            in_vectors(b, self.width, which.lanes, numbers)

        loop_between(b, INT(0), self.blocks, block)

    def _factors(self, b: ir.IRBuilder, p: ir.Value) -> list[Complex]:
        count = len(self.turning)
        start = b.mul(p, INT(2 * count))
        places = [b.gep(self.table, [b.add(start, INT(k))]) for k in range(2 * count)]
        found = [self.access.spread(b, b.load(place)) for place in places]
        return [Complex(*pair) for pair in zip(found[::2], found[1::2], strict=True)]
