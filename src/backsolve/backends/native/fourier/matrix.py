"""The transform of a long line: as a matrix, whose columns and rows fit the caches, and which threads share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from ..blas import spread
from ..library import shared
from ..numbers.registers import Complex, register_type
from ..packing import turned
from ..repeat import loop_between
from .butterflies import multiply
from .lines import INT, PLANES, Access, Lines, in_vectors
from .roots import near_root, roots
from .transform import Memory, Plain, Transform, joined, lanes_for

COLUMNS = 16  # at a time
APART = 8  # numbers between rows: those a power of two apart would share places in the caches


class Matrix(Transform):
    """Columns, factors, and rows, which by then lie as columns.

    With j = n₂ j₁ + j₂ and k = k₁ + n₁ k₂, the exponent jk/n is j₁k₁/n₁ + j₂k₁/n + j₂k₂/n₂, but for whole
    turns. The factors e^{-2πi j₂k₁/n} are products of those of some columns' first one, and of their distance
    from it: two short tables.
    """

    def __init__(self, radices: tuple[int, ...], dtype: np.dtype[Any], workers: int):
        first, second = near_root(radices)
        self.width, self.dtype, self.n, self.workers = 1, dtype, prod(radices), workers
        self.columns, self.rows = (Plain(r, COLUMNS, dtype) for r in (first, second))
        n1, n2 = self.columns.n, self.rows.n
        self.stride = n1 + APART
        self.between = n2 * self.stride  # a plane of what columns leave to rows
        self.own = max(self.columns.room + 2 * n1 * COLUMNS, self.rows.room)  # to a worker
        self.room = 2 * self.between + workers * self.own
        starts = np.minimum(np.arange(0, n2, COLUMNS), n2 - COLUMNS)
        of_starts = roots(starts[:, None] * np.arange(n1), self.n)
        of_distances = roots(np.arange(n1)[:, None] * np.arange(COLUMNS), self.n)
        tables = [of_starts, of_distances.transpose(0, 2, 1)]
        self.table, self.starts = joined(
            [self.columns.table, self.rows.table, *(t.ravel().astype(dtype) for t in tables)]
        )

    def emit(self, b: ir.IRBuilder, x: Lines, y: Lines, at: Memory) -> None:
        self._share(b, x, at, self.rows.n, self._some_columns)
        self._share(b, y, at, self.columns.n, self._some_rows)

    def _share(
        self, b: ir.IRBuilder, lines: Lines, at: Memory, size: int, body: Callable[..., None]
    ) -> None:
        def part(
            b: ir.IRBuilder, given: list[ir.Value], low: ir.Value, high: ir.Value, worker: ir.Value
        ) -> None:
            re, im, *places = given
            here, at = lines._replace(re=re, im=im), Memory(*places)
            own = b.add(INT(2 * self.between), b.mul(worker, INT(self.own)))

            def some(b: ir.IRBuilder, k: ir.Value) -> None:
                first, last = b.mul(k, INT(COLUMNS)), INT(size - COLUMNS)
                first = b.select(b.icmp_signed("<", first, last), first, last)
                body(b, here, at, own, k, first)

            loop_between(b, low, high, some)

        share(b, [lines.re, lines.im, *at], -(-size // COLUMNS), self.workers, part)

    def _some_columns(
        self, b: ir.IRBuilder, x: Lines, at: Memory, own: Any, k: Any, first: Any
    ) -> None:
        n1, n2 = self.columns.n, self.rows.n
        columns, _, of_starts, of_distances = self.starts
        mine = at.after(b, own, columns)
        done = mine.planes(b, self.columns.room, n1 * COLUMNS, COLUMNS)
        self.columns.emit(b, x._replace(stride=n2).at(b, 0, first), done, mine)
        target = at.planes(b, 0, self.between, self.stride).at(b, first)
        tables = [
            b.gep(at.table, [b.add(INT(of_starts), b.mul(k, INT(2 * n1)))]),
            b.gep(at.table, [INT(of_distances)]),
        ]
        lanes = lanes_for(self.dtype, n1)
        given = [done.re, done.im, target.re, target.im, *tables, INT(n1), INT(self.stride)]
        b.call(_turning(b.module, self.dtype, lanes), given)

    def _some_rows(
        self, b: ir.IRBuilder, y: Lines, at: Memory, own: Any, _: Any, first: Any
    ) -> None:
        source = at.planes(b, 0, self.between, self.stride).at(b, 0, first)
        target = y._replace(stride=self.columns.n).at(b, 0, first)
        self.rows.emit(b, source, target, at.after(b, own, self.starts[1]))


def _turning(module: ir.Module, dtype: np.dtype[Any], lanes: int) -> ir.Function:
    """f(x: its planes, y: its planes, factors of the first column, of distances, rows of x, step of y).

    y_{jk} = u_k v_{kj} x_{kj}, with COLUMNS columns of x.
    """
    real = register_type(dtype)
    kind = ir.FunctionType(ir.VoidType(), [real.as_pointer()] * 6 + [INT] * 2)
    name = f"fourier_turning_{dtype.name}_{lanes}x{COLUMNS}"
    return shared(module, name, kind, partial(_emit_turning, Access(real, lanes)))


def _emit_turning(access: Access, function: ir.Function) -> None:
    x_re, x_im, y_re, y_im, of_start, of_distances, n, y_step = function.args
    lanes = access.lanes
    for argument in function.args[:4]:
        argument.add_attribute("noalias")

    def rows(b: ir.IRBuilder, k: ir.Value) -> None:
        lines = [b.add(k, INT(i)) for i in range(lanes)]
        places = [b.mul(line, INT(2)) for line in lines]
        u = [
            Complex(*(access.spread(b, b.load(b.gep(of_start, [at]))) for at in (re, b.add(re, INT(1)))))
            for re in places
        ]  # fmt: skip

        def columns(b: ir.IRBuilder, j: ir.Value) -> None:
            def value(line: ir.Value, u: Complex) -> Complex:
                at = b.add(b.mul(line, INT(COLUMNS)), j)
                x = access.load(b, PLANES, [x_re, x_im], at)
                start = b.add(b.mul(line, INT(2 * COLUMNS)), j)
                v = Complex(
                    *(
                        access.plain(b, b.gep(of_distances, [b.add(start, INT(part * COLUMNS))]))
                        for part in (0, 1)
                    )
                )
                return multiply(b, x, multiply(b, u, v))

            values = [value(line, w) for line, w in zip(lines, u, strict=True)]
            for start, part in zip((y_re, y_im), zip(*values, strict=True), strict=True):
                for i, v in enumerate(turned(b, list(part))):
                    at = b.add(b.mul(b.add(j, INT(i)), y_step), k)
                    access.put(b, v, b.gep(start, [at]))

        in_vectors(b, INT(COLUMNS), lanes, columns)

    b = ir.IRBuilder(function.append_basic_block("entry"))
    in_vectors(b, n, lanes, rows)
    b.ret_void()


def share(
    b: ir.IRBuilder,
    values: list[ir.Value],
    count: int,
    workers: int,
    body: Callable[[ir.IRBuilder, list[ir.Value], ir.Value, ir.Value, ir.Value], None],
) -> None:
    """body(b, values, low, high, worker) over `count` indices, on up to so many workers."""
    most = min(workers, count)
    if most < 2:
        body(b, values, INT(0), INT(count), INT(0))
        return

    def part(b: ir.IRBuilder, given: list[ir.Value], low: ir.Value, high: ir.Value) -> None:
        body(b, given, low, high, b.function.args[-1])

    name = b.module.get_unique_name("fourier_part")
    spread(b, name, values, part, count, most, as_it_is=True)
