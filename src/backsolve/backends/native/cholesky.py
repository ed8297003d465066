"""Cholesky factors and their adjoints, block by block, so that threads can share the work.

Matrices are stored by rows; in the eyes of BLAS they are the transposed ones. A block of columns [j, k)
divides the lower triangle of L into

    R  D .      rows [j, k)         R: columns [0, j)
    B  C .      rows [k, n)         D: the triangle on the diagonal

Forward, left to right:    D ← chol(D − R Rᴴ),   C ← (C − B Rᴴ) D⁻ᴴ.
Adjoint (real), right to left, on L̄ in place (I. Murray, Differentiation of the Cholesky decomposition, 2016):

    C̄ ← C̄ D⁻¹,   B̄ ← B̄ − C̄ R,   S ← the adjoint of chol at D, of D̄ − C̄ᵀ C, plus its transposed,
    R̄ ← R̄ − C̄ᵀ B − S R

which takes 2n³/3 multiplications and additions, not the 3n³ of L⁻ᵀ Φ(Lᵀ L̄) L⁻¹.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Equation
from . import threads
from .blas import by_address, fortran, pointer, spread
from .failure import CODE, FINE, call_step, fail_if
from .matrices import (
    Stacked,
    append,
    as_stack,
    counting,
    lowering,
    refuse,
    slot,
    stack_of,
)
from .steps import Site
from .views import View

if TYPE_CHECKING:
    from .schedule import Schedule

INT, CINT, POINTER = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer()
BLOCK = 64
SHARED = 192  # rows from which a matrix is worth several threads
UNIT = 16  # rows or columns that are handed out together
ALONE = 6  # units of time that the block on the diagonal takes, beside which others work


@dataclass(eq=False)
class Blocked(Stacked):
    """`body(grid)`, one function of matrices (by their pointers), for every place of stacks (count, n, n)."""

    def emit(self, site: Site) -> None:
        bases = [site.address(v) for v in self.views]
        count, _, n = self.views[0].shape
        function = ir.Function(
            site.module, ir.FunctionType(CODE, [x.type for x in bases]), f"{site.name}_one"
        )
        function.linkage = "internal"
        inside = ir.IRBuilder(function.append_basic_block("entry"))
        self.body(Grid(inside, site.name, n, self.views[0].dtype, list(function.args)))
        inside.ret(FINE)

        def some(b: ir.IRBuilder, bases: list[ir.Value], low: ir.Value, high: ir.Value) -> None:
            with counting(b, high, low) as k:
                moved = [
                    b.gep(x, [b.mul(k, INT(v.strides[0]))])
                    for x, v in zip(bases, self.views, strict=True)
                ]
                call_step(b, function, moved)

        pointer("dgemm")  # loads BLAS
        shared = count > 1 and self.flops > 1 << 18 and threads.limits_blas()
        if shared:
            spread(site.b, f"{site.name}_stack", bases, some, count, count)
        else:
            some(site.b, bases, INT(0), INT(count))

    def describe(self) -> str:
        return f"{self.name} {self.views[0].shape}"


class Grid:
    """Where one matrix, or several of the same size, are worked on: places, routines and jobs."""

    def __init__(
        self, b: ir.IRBuilder, name: str, n: int, dtype: np.dtype[Any], given: list[ir.Value]
    ):
        self.b, self.name, self.n, self.dtype, self.given = b, name, n, dtype, given

    def at(self, matrix: ir.Value, row: Any, column: Any) -> ir.Value:
        return self.b.gep(matrix, [self.b.add(self.b.mul(row, INT(self.n)), column)])

    def call(self, routine: str, *args: Any) -> None:
        """A routine of BLAS; 64-bit numbers are its sizes."""
        b = self.b
        sized = [
            by_address(b, b.trunc(a, CINT)) if isinstance(a, ir.Value) and a.type == INT else a
            for a in args
        ]
        fortran(b, self.dtype, routine, *sized)

    @contextmanager
    def blocks(self, backwards: bool = False) -> Iterator[tuple[ir.Value, ir.Value]]:
        """for [j, k) in the blocks of columns"""
        b, count = self.b, -(-self.n // BLOCK)
        with counting(b, INT(count)) as t:
            block = b.sub(INT(count - 1), t) if backwards else t
            j = b.mul(block, INT(BLOCK))
            yield j, self.least(b.add(j, INT(BLOCK)), INT(self.n))

    def least(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.b.select(self.b.icmp_signed("<", x, y), x, y)

    def most(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.b.select(self.b.icmp_signed(">", x, y), x, y)

    def job(
        self,
        name: str,
        lines: ir.Value,
        j: ir.Value,
        k: ir.Value,
        body: Callable[[Grid, ir.Value, ir.Value, ir.Value, ir.Value], None],
        alone: Callable[[Grid, ir.Value, ir.Value], None] | None = None,
    ) -> None:
        """`body(grid, j, k, first, count)` for ranges of lines, on several threads.

        `alone(grid, j, k)` runs once, beside them: inside the job, where BLAS keeps to one thread.
        """
        b = self.b
        before = ALONE if alone else 0
        units = b.add(b.sdiv(b.add(lines, INT(UNIT - 1)), INT(UNIT)), INT(before))
        values = [*self.given, lines, j, k]

        def share(b: ir.IRBuilder, values: list[ir.Value], low: ir.Value, high: ir.Value) -> None:
            *given, lines, j, k = values
            grid = Grid(b, self.name, self.n, self.dtype, given)
            if alone:
                with b.if_then(b.icmp_signed("==", low, INT(0))):
                    alone(grid, j, k)

            def line(unit: ir.Value) -> ir.Value:
                moved = grid.most(b.sub(unit, INT(before)), INT(0))
                return grid.least(b.mul(moved, INT(UNIT)), lines)

            first, stop = line(low), line(high)
            with b.if_then(b.icmp_signed("<", first, stop)):
                body(grid, j, k, first, b.sub(stop, first))

        most = self.n // UNIT + ALONE if self.n >= SHARED and threads.limits_blas() else 1
        spread(b, f"{self.name}_{name}", values, share, units, most)


# ---- the factor


def lower_cholesky(schedule: Schedule, e: Equation) -> View:
    n = e.outputs[0].shape[-1]
    view = schedule.own(e.inputs[0])
    stack = as_stack(view)
    if not stack.imaginary.size:
        return view
    code = refuse(schedule, "Matrix is not positive definite", e)

    def body(grid: Grid) -> None:
        if n < SHARED:
            _factor_at_once(grid, code)
        else:
            several = grid.b.call(threads.workers(grid.b.module), [INT(2), INT(2)])
            alone = grid.b.icmp_signed("==", several, INT(1))
            with grid.b.if_else(alone) as (then, otherwise):
                with then:
                    _factor_at_once(grid, code)
                with otherwise:
                    _factor_by_blocks(grid, code)
        _clear_above(grid, grid.given[0])

    append(schedule, Blocked("cholesky", [stack], n**3 // 3, body), stack)
    return view


def _factor_at_once(grid: Grid, code: int) -> None:
    info = slot(grid.b)
    grid.call("potrf", "U", grid.n, grid.given[0], grid.n, info)
    fail_if(grid.b, grid.b.icmp_signed("!=", grid.b.load(info), CINT(0)), code)


def _factor_by_blocks(grid: Grid, code: int) -> None:
    n = grid.n

    def diagonal(grid: Grid, j: ir.Value, k: ir.Value) -> None:
        (a,), b = grid.given, grid.b
        size, D, R, info = b.sub(k, j), grid.at(a, j, j), grid.at(a, j, INT(0)), slot(b)
        grid.call("gemm", "C", "N", size, size, j, -1.0, R, n, R, n, 1.0, D, n)
        grid.call("potrf", "U", size, D, n, info)
        fail_if(b, b.icmp_signed("!=", b.load(info), CINT(0)), code)

    def below(grid: Grid, j: ir.Value, k: ir.Value, first: ir.Value, count: ir.Value) -> None:
        (a,), b = grid.given, grid.b
        row = b.add(k, first)
        R, B, C = grid.at(a, j, INT(0)), grid.at(a, row, INT(0)), grid.at(a, row, j)
        grid.call("gemm", "C", "N", b.sub(k, j), count, j, -1.0, R, n, B, n, 1.0, C, n)

    def solve(grid: Grid, j: ir.Value, k: ir.Value, first: ir.Value, count: ir.Value) -> None:
        (a,), b = grid.given, grid.b
        C, D = grid.at(a, b.add(k, first), j), grid.at(a, j, j)
        grid.call("trsm", "L", "U", "C", "N", b.sub(k, j), count, 1.0, D, n, C, n)

    with grid.blocks() as (j, k):
        rest = grid.b.sub(INT(n), k)
        grid.job("columns", rest, j, k, below, diagonal)
        grid.job("solve", rest, j, k, solve)


def _clear_above(grid: Grid, matrix: ir.Value) -> None:
    """Zeros above the diagonal."""
    b, n = grid.b, grid.n
    memset = b.module.declare_intrinsic("llvm.memset", [POINTER, INT])
    with counting(b, INT(n)) as i:
        above = grid.at(matrix, i, b.add(i, INT(1)))
        length = b.mul(b.sub(INT(n - 1), i), INT(grid.dtype.itemsize))
        b.call(memset, [b.bitcast(above, POINTER), ir.IntType(8)(0), length, ir.IntType(1)(0)])


# ---- its adjoint


def lower_adjoint(schedule: Schedule, e: Equation) -> View:
    out = e.outputs[0]
    n = out.shape[-1]
    factor = stack_of(schedule, schedule.in_memory(e.inputs[0]), out.dtype)
    factor = as_stack(schedule.contiguous(factor))
    view = schedule.own(e.inputs[1], (e.inputs[0],))
    stack = as_stack(view)
    if stack.imaginary.size:
        append(schedule, Blocked("cholesky adjoint", [stack, factor], 2 * n**3 // 3, _pull), stack)
    return view


def _pull(grid: Grid) -> None:
    n = grid.n

    def rows(grid: Grid, j: ir.Value, k: ir.Value, first: ir.Value, count: ir.Value) -> None:
        (bar, L), b = grid.given, grid.b
        row, size = b.add(k, first), b.sub(k, j)
        D, R = grid.at(L, j, j), grid.at(L, j, INT(0))
        C_, B_ = grid.at(bar, row, j), grid.at(bar, row, INT(0))
        grid.call("trsm", "L", "U", "N", "N", size, count, 1.0, D, n, C_, n)
        grid.call("gemm", "N", "N", j, count, size, -1.0, R, n, C_, n, 1.0, B_, n)

    def columns(grid: Grid, j: ir.Value, k: ir.Value, first: ir.Value, count: ir.Value) -> None:
        (bar, L), b = grid.given, grid.b
        B, C_, R_ = grid.at(L, k, first), grid.at(bar, k, j), grid.at(bar, j, first)
        rest = b.sub(INT(n), k)
        grid.call("gemm", "N", "T", count, b.sub(k, j), rest, -1.0, B, n, C_, n, 1.0, R_, n)

    def diagonal(grid: Grid, j: ir.Value, k: ir.Value) -> None:
        (bar, L), b = grid.given, grid.b
        size, rest = b.sub(k, j), b.sub(INT(n), k)
        D, C, D_, C_ = grid.at(L, j, j), grid.at(L, k, j), grid.at(bar, j, j), grid.at(bar, k, j)
        grid.call("gemm", "N", "T", size, size, rest, -1.0, C, n, C_, n, 1.0, D_, n)
        _lower_half(grid, D_, size, 1.0)
        grid.call("trmm", "R", "U", "T", "N", size, size, 1.0, D, n, D_, n)  # Dᵀ D̄
        _lower_half(grid, D_, size, 0.5)
        grid.call("trsm", "L", "U", "N", "N", size, size, 1.0, D, n, D_, n)
        grid.call("trsm", "R", "U", "T", "N", size, size, 1.0, D, n, D_, n)
        with _triangle(grid, D_, size) as (entry, mirrored, _):
            total = b.fadd(b.load(entry), b.load(mirrored))
            b.store(total, entry)
            b.store(total, mirrored)

    def through(grid: Grid, j: ir.Value, k: ir.Value, first: ir.Value, count: ir.Value) -> None:
        (bar, L), b = grid.given, grid.b
        R, S, R_ = grid.at(L, j, first), grid.at(bar, j, j), grid.at(bar, j, first)
        size = b.sub(k, j)
        grid.call("gemm", "N", "N", count, size, size, -1.0, R, n, S, n, 1.0, R_, n)

    with grid.blocks(backwards=True) as (j, k):
        grid.job("rows", grid.b.sub(INT(n), k), j, k, rows)
        grid.job("columns", j, j, k, columns, diagonal)
        grid.job("through", j, j, k, through)
    _lower_half(grid, grid.given[0], INT(n), 0.5)


def _lower_half(grid: Grid, block: ir.Value, size: ir.Value, factor: float) -> None:
    """Zeros above the diagonal, and a factor on it."""
    b = grid.b
    with _triangle(grid, block, size) as (entry, mirrored, is_diagonal):
        value = b.load(entry)
        b.store(ir.Constant(value.type, 0.0), mirrored)
        b.store(b.select(is_diagonal, b.fmul(value, ir.Constant(value.type, factor)), value), entry)


@contextmanager
def _triangle(
    grid: Grid, block: ir.Value, size: ir.Value
) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
    """for i ≥ j: the places of entries (i, j) and (j, i), and whether they are one"""
    b = grid.b
    with counting(b, size) as i, counting(b, b.add(i, INT(1))) as j:
        yield grid.at(block, i, j), grid.at(block, j, i), b.icmp_signed("==", i, j)


LOWER = {
    "cholesky": lowering(lower_cholesky),
    "cholesky_adjoint": lowering(lower_adjoint),
}
