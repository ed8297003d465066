"""Matrices squared again and again, as often as a number in memory says: the end of an exponential."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from ...ir import Equation
from .blas import fortran
from .matrices import INT, Stacked, append, as_stack, counting, lowering
from .views import View

if TYPE_CHECKING:
    from .schedule import Schedule

BIT, POINTER = ir.IntType(1), ir.IntType(8).as_pointer()


class _Squaring:
    """The matrices of one equation, the number of rounds of each, and room for a product."""

    def __init__(self, schedule: Schedule, e: Equation, view: View):
        self.stack, self.dtype, self.n = as_stack(view), view.dtype, view.shape[-1]
        if not self.stack.imaginary.size:
            return
        counts = schedule.contiguous(schedule.in_memory(e.inputs[-1]))
        times = counts.reshape((self.stack.shape[0], 1, 1))
        assert times is not None
        self.times = times
        room = schedule.new_buffer((1, self.n, self.n), self.dtype)
        self.room = room.broadcast(self.stack.shape)

    def multiply(
        self, b: ir.IRBuilder, x: ir.Value, y: ir.Value, product: ir.Value, kept: float = 0.0
    ) -> None:
        """product ← x y + kept product, all stored by rows as LAPACK's columns are."""
        n = self.n
        fortran(b, self.dtype, "gemm", "N", "N", n, n, n, 1.0, x, n, y, n, kept, product, n)

    def move(self, b: ir.IRBuilder, product: ir.Value, target: ir.Value) -> None:
        copy = b.module.declare_intrinsic("llvm.memcpy", [POINTER, POINTER, INT])
        size = INT(self.n * self.n * self.dtype.itemsize)
        b.call(copy, [*(b.bitcast(x, POINTER) for x in (target, product)), size, BIT(0)])


def lower_repeated_square(schedule: Schedule, e: Equation) -> View:
    """Each matrix of a stack is squared as often as its own number says."""
    view = schedule.own(e.inputs[0])
    s = _Squaring(schedule, e, view)
    if not s.stack.imaginary.size:
        return view

    def body(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
        matrix, number, product = pointers
        with counting(b, b.load(number)):
            s.multiply(b, matrix, matrix, product)
            s.move(b, product, matrix)

    views = [s.stack, s.times, s.room]
    append(schedule, Stacked("repeated square", views, 20 * s.n**3, body), s.stack)
    return view


def lower_repeated_square_along(schedule: Schedule, e: Equation) -> View:
    """E ← A E + E A, then A ← A², as often as the number of each matrix of a stack says."""
    squared, along = as_stack(schedule.own(e.inputs[0])), schedule.own(e.inputs[1])
    s = _Squaring(schedule, e, along)
    if not s.stack.imaginary.size:
        return along

    def body(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
        direction, matrix, number, product = pointers
        with counting(b, b.load(number)):
            s.multiply(b, matrix, direction, product)
            s.multiply(b, direction, matrix, product, 1.0)
            s.move(b, product, direction)
            s.multiply(b, matrix, matrix, product)
            s.move(b, product, matrix)

    views = [s.stack, squared, s.times, s.room]
    append(schedule, Stacked("repeated square along", views, 60 * s.n**3, body), s.stack, squared)
    return along


LOWER = {
    "repeated_square": lowering(lower_repeated_square),
    "repeated_square_along": lowering(lower_repeated_square_along),
}
