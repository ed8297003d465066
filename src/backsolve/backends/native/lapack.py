"""Triangular systems and elimination by the LAPACK that SciPy ships (Cholesky factors: cholesky.py).

LAPACK counts columns first: a matrix stored by rows is to it the transposed one. So it is asked for the
other triangle, or for the transposed system, and nothing is moved around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Equation, Var, type_of
from . import threads
from .blas import LINES, SHARE, by_address, fortran, layout, pointer, share_lines
from .contraction import has_unit_stride, same_dtype
from .failure import CODE, FINE, call_step, fail_if, placed
from .numbers.registers import each, load, parts, select, store
from .steps import Site, Step
from .views import Buffer, View

if TYPE_CHECKING:
    from .schedule import Schedule

INT, CINT, POINTER = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer()
BIT = ir.IntType(1)
SINGULAR, INDEFINITE = "Singular matrix", "Matrix is not positive definite"


@dataclass(eq=False)
class Stacked(Step):
    """One routine for every matrix of a stack: `body(b, pointers)` is emitted in a loop.

    The views have the shape (count, rows, columns).
    """

    name: str
    views: list[View]
    steps: int  # multiplications and additions for one matrix
    body: Callable[..., None]

    def buffers(self) -> list[Buffer]:
        return list(dict.fromkeys(v.buffer for v in self.views))

    @property
    def flops(self) -> int:
        return self.views[0].shape[0] * self.steps

    def emit(self, site: Site) -> None:
        bases = [site.address(v) for v in self.views]
        signature = ir.FunctionType(CODE, [x.type for x in bases])
        function = ir.Function(site.module, signature, site.name)
        function.linkage = "internal"
        b = ir.IRBuilder(function.append_basic_block("entry"))
        with counting(b, self.views[0].shape[0]) as k:
            steps = [INT(v.strides[0]) for v in self.views]
            pairs = zip(function.args, steps, strict=True)
            self.body(b, [b.gep(x, [b.mul(k, step)]) for x, step in pairs])
        b.ret(FINE)
        call_step(site.b, function, bases)

    def describe(self) -> str:
        return f"{self.name} {' × '.join(str(v.shape) for v in self.views)}"


@dataclass(eq=False)
class Lines(Step):
    """T with every column (or row) of a matrix, for a stack of both: what threads can share.

    `body(b, pointers, length)` treats `length` lines, which begin where the second pointer points.
    """

    name: str
    T: View
    x: View
    columns: bool
    body: Callable[[ir.IRBuilder, list[ir.Value], Any], None]

    def buffers(self) -> list[Buffer]:
        return [self.T.buffer, self.x.buffer]

    @property
    def flops(self) -> int:
        return prod(self.x.shape) * self.T.shape[-1]

    def emit(self, site: Site) -> None:
        count, rows, columns = self.x.shape
        lines, stride = (columns, 1) if self.columns else (rows, columns)
        starts = [site.address(self.T), site.address(self.x)]
        most = min(self.flops // (2 * SHARE), -(-count * lines // LINES))
        pointer("dtrsm")  # loads BLAS
        if most >= 2 and threads.limits_blas():
            strides = [(self.T.strides[0], 0), (self.x.strides[0], stride)]
            share_lines(site, starts, strides, (count, lines), most, self.body)
            return
        whole = Stacked(self.name, [self.T, self.x], 0, lambda b, p: self.body(b, p, lines))
        whole.emit(site)

    def describe(self) -> str:
        return f"{self.name} {self.T.shape} × {self.x.shape}"


@contextmanager
def counting(
    b: ir.IRBuilder, count: int | ir.Value, start: ir.Value | None = None
) -> Iterator[ir.Value]:
    """for k in range(start, count): …"""
    before = b.block
    head, inside, after = (b.append_basic_block() for _ in range(3))
    b.branch(head)
    b.position_at_end(head)
    k = b.phi(INT)
    k.add_incoming(INT(0) if start is None else start, before)
    end = INT(count) if isinstance(count, int) else count
    b.cbranch(b.icmp_signed("<", k, end), inside, after)
    b.position_at_end(inside)
    yield k
    k.add_incoming(b.add(k, INT(1)), b.block)
    b.branch(head)
    b.position_at_end(after)


# ---- lowering


def refuse(schedule: Schedule, message: str, e: Equation) -> int:
    """The code of a matrix that has no factor or inverse."""
    said = f"{message}, in the argument `a` of {e.primitive.name}"
    return schedule.fail(np.linalg.LinAlgError, placed(said, e.where))


def lower_triangular_solve(schedule: Schedule, e: Equation) -> View:
    out = e.outputs[0]
    lower, unit = e.params["lower"], e.params["unit"]
    T = stack_of(schedule, schedule.in_memory(e.inputs[0]), out.dtype)
    if type_of(e.inputs[1]).dtype == out.dtype:
        view = schedule.own(e.inputs[1], (e.inputs[0],))
        x = as_stack(view)
    else:
        view, x = _copied(schedule, schedule.view_of(e.inputs[1]), out.dtype)
    n, k = out.shape[-2:]
    by_columns, leading = layout(T)
    triangle = "L" if lower == by_columns else "U"
    code = refuse(schedule, "singular matrix: a zero on the diagonal", e)
    step = sum(T.strides[-2:])
    diagonal = "U" if unit else "N"

    def check(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
        _refuse_zeros(b, pointers[0], out.dtype, n, step, code)

    def one(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
        matrix, right = pointers
        turned = "N" if by_columns else "T"
        fortran(b, out.dtype, "trsv", triangle, turned, diagonal, n, matrix, leading, right, 1)

    def some(b: ir.IRBuilder, pointers: list[ir.Value], length: Any) -> None:  # xᵀ Tᵀ = bᵀ
        matrix, right = pointers
        sides = ("R", triangle, "T" if by_columns else "N", diagonal)
        size = by_address(b, length)
        fortran(b, out.dtype, "trsm", *sides, size, n, 1.0, matrix, leading, right, k)

    if x.imaginary.size:
        if not unit:
            append(schedule, Stacked("diagonal", [T], n, check))
        if k == 1:
            append(schedule, Stacked("triangular solve", [T, x], n * n, one), x)
        else:
            append(schedule, Lines("triangular solve", T, x, True, some), x)
    return view


def lower_solve(schedule: Schedule, e: Equation) -> View:
    out = e.outputs[0]
    n, k = out.shape[-2:]
    factor, pivots, turned = _factored(schedule, e.inputs[0], out.dtype)
    right = schedule.view_of(e.inputs[1])
    # getrs wants the right-hand sides by columns.
    view, x = _copied(schedule, swapped(right), out.dtype)
    code = refuse(schedule, SINGULAR, e)

    def body(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
        matrix, order, columns = pointers
        _refuse_zeros(b, matrix, out.dtype, n, n + 1, code)
        how, info = "N" if turned else "T", slot(b)
        fortran(b, out.dtype, "getrs", how, n, k, matrix, n, order, columns, n, info)

    if x.imaginary.size:
        append(schedule, Stacked("solve", [factor, pivots, x], 2 * n * n * k, body), x)
    return swapped(view)


def lower_inv(schedule: Schedule, e: Equation) -> View:
    out = e.outputs[0]
    n = out.shape[-1]
    factor, pivots, turned = _factored(schedule, e.inputs[0], out.dtype)
    view, stack = _copied(schedule, factor, out.dtype)
    view = View.whole(view.buffer, out.shape)
    work = schedule.new_buffer((1, 1, 64 * n), out.dtype)
    code = refuse(schedule, SINGULAR, e)

    def body(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
        matrix, order, space = pointers
        _refuse_zeros(b, matrix, out.dtype, n, n + 1, code)
        fortran(b, out.dtype, "getri", n, matrix, n, order, space, 64 * n, slot(b))

    if factor.imaginary.size:
        shared = work.broadcast((stack.shape[0], 1, 64 * n))
        append(schedule, Stacked("inv", [stack, pivots, shared], 4 * n**3 // 3, body), stack)
    return swapped(view) if turned else view


def lower_lu_diagonal(schedule: Schedule, e: Equation) -> View:
    """The pivots, each with the sign of its exchange of rows: their product is the determinant."""
    out = e.outputs[0]
    n = out.shape[-1]
    factor, pivots, _ = _factored(schedule, e.inputs[0], out.dtype)
    view = schedule.new_buffer(out.shape, out.dtype)
    flat = view.reshape((prod(out.shape[:-1]), 1, n))
    assert flat is not None

    def body(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
        matrix, order, diagonal = pointers
        with counting(b, n) as i:
            pivot = load(b, b.gep(matrix, [b.mul(i, INT(n + 1))]), out.dtype)
            own = b.trunc(b.add(i, INT(1)), CINT)
            stayed = b.icmp_signed("==", b.load(b.gep(order, [i])), own)
            signed = select(b, stayed, pivot, each(b.fneg, pivot))
            store(b, signed, b.gep(diagonal, [i]), out.dtype)

    if flat.imaginary.size:
        append(schedule, Stacked("pivots", [factor, pivots, flat], n, body), flat)
    return view


def _factored(schedule: Schedule, a: Any, dtype: np.dtype[Any]) -> tuple[View, View, bool]:
    """P L U of a matrix or of its transposed (then True), once for all that ask for either."""
    key, turned = _origin(schedule, a)
    if (key, dtype) not in schedule.factors:
        _, factor = _copied(schedule, schedule.view_of(key), dtype)
        count, n = factor.shape[0], factor.shape[-1]
        pivots = schedule.new_buffer((count, 1, n), np.dtype(np.int32))

        def body(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
            matrix, order = pointers
            fortran(b, dtype, "getrf", n, n, matrix, n, order, slot(b))

        if factor.imaginary.size:
            append(
                schedule,
                Stacked("eliminate", [factor, pivots], 2 * n**3 // 3, body),
                factor,
                pivots,
            )
        schedule.factors[key, dtype] = factor, pivots
    return (*schedule.factors[key, dtype], turned)


def _origin(schedule: Schedule, a: Any) -> tuple[Any, bool]:
    """The variable that `a` is, or whose matrices' transposed it is."""
    maker = schedule.makers.get(a) if type(a) is Var else None
    if maker is None or maker.primitive.name != "permute":
        return a, False
    rank = len(a.shape)
    swap = (*range(rank - 2), rank - 1, rank - 2)
    return (maker.inputs[0], True) if tuple(maker.params["axes"]) == swap else (a, False)


def product_with_factor(schedule: Schedule, e: Equation, a: View, b: View, c: View) -> bool:
    """C = A B for half the work where A or B is a Cholesky factor; False, and nothing, where none is."""
    for k, (T, other) in enumerate([(a, b), (b, a)]):
        factor, _ = _origin(schedule, e.inputs[k])
        maker = schedule.makers.get(factor) if type(factor) is Var else None
        stack = T.reshape((prod(T.shape[:-2]), *T.shape[-2:]))
        if maker is None or maker.primitive.name != "cholesky" or stack is None:
            continue
        known = schedule.views[factor]
        if T.buffer is not known.buffer or c.shape[-1 - k] == 1:
            continue
        schedule.copy(other, c)
        lower = T.strides == known.strides
        append(schedule, _triangular_product(stack, as_stack(c), lower, left=k == 0), c)
        return True
    return False


def _triangular_product(T: View, c: View, lower: bool, left: bool) -> Lines:
    """C := T C, or C := C T."""
    by_columns, leading = layout(T)
    n = c.shape[-1]
    side, triangle = "R" if left else "L", "L" if lower == by_columns else "U"
    sides = (side, triangle, "T" if by_columns else "N", "N")

    def some(b: ir.IRBuilder, pointers: list[ir.Value], length: Any) -> None:
        matrix, product = pointers
        size = by_address(b, length)
        sizes = (size, T.shape[-1]) if left else (n, size)  # Cᵀ := Cᵀ Tᵀ, or Tᵀ Cᵀ
        fortran(b, c.dtype, "trmm", *sides, *sizes, 1.0, matrix, leading, product, n)

    return Lines("triangular product", T, c, left, some)


# ---- pieces


def _copied(schedule: Schedule, source: View, dtype: np.dtype[Any]) -> tuple[View, View]:
    """A copy to work on in place, and the same as a stack (count, rows, columns)."""
    view = schedule.new_buffer(source.shape, dtype)
    schedule.copy(source, view)
    return view, as_stack(view)


def as_stack(view: View) -> View:
    stack = view.reshape((prod(view.shape[:-2]), *view.shape[-2:]))
    assert stack is not None
    return stack


def stack_of(schedule: Schedule, view: View, dtype: np.dtype[Any]) -> View:
    """A matrix that is only read, copied only if LAPACK could not read it where it is."""
    view = same_dtype(schedule, view, dtype)
    stack = view.reshape((prod(view.shape[:-2]), *view.shape[-2:]))
    if stack is None or not has_unit_stride(stack):
        stack = as_stack(schedule.contiguous(view))
    return stack


def swapped(view: View) -> View:
    rank = len(view.shape)
    return view.permute((*range(rank - 2), rank - 1, rank - 2))


def append(schedule: Schedule, step: Step, *written: View) -> None:
    schedule.steps.append(step)
    for view in written:
        schedule.ready[view.buffer] = len(schedule.steps) - 1


def slot(b: ir.IRBuilder) -> ir.Value:
    with b.goto_entry_block():
        return b.alloca(CINT)


def _refuse_zeros(
    b: ir.IRBuilder, matrix: ir.Value, dtype: np.dtype[Any], n: int, step: int, code: int
) -> None:
    """Fail with `code` if an entry of the diagonal is zero."""
    with counting(b, n) as i:
        entry = load(b, b.gep(matrix, [b.mul(i, INT(step))]), dtype)
        zeros = [b.fcmp_ordered("==", x, ir.Constant(x.type, 0.0)) for x in parts(entry)]
        fail_if(b, reduce(b.and_, zeros), code)


def lowering(lower: Callable[[Schedule, Equation], View]) -> Callable[[Schedule, Equation], None]:
    def run(schedule: Schedule, e: Equation) -> None:
        schedule.views[e.outputs[0]] = lower(schedule, e)

    return run


def lower_repeated_square(schedule: Schedule, e: Equation) -> View:
    """Each matrix of a stack is squared as often as its own number says."""
    n = e.outputs[0].shape[-1]
    view = schedule.own(e.inputs[0])
    stack = as_stack(view)
    if not stack.imaginary.size:
        return view
    times = schedule.contiguous(schedule.in_memory(e.inputs[1])).reshape((stack.shape[0], 1, 1))
    assert times is not None
    space = schedule.new_buffer((1, n, n), view.dtype).broadcast(stack.shape)

    def body(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
        matrix, number, product = pointers
        copy = b.module.declare_intrinsic("llvm.memcpy", [POINTER, POINTER, INT])
        size = INT(n * n * view.dtype.itemsize)
        with counting(b, b.load(number)):
            sides = (1.0, matrix, n, matrix, n, 0.0, product, n)
            fortran(b, view.dtype, "gemm", "N", "N", n, n, n, *sides)
            b.call(copy, [*(b.bitcast(x, POINTER) for x in (matrix, product)), size, BIT(0)])

    append(schedule, Stacked("repeated square", [stack, times, space], 20 * n**3, body), stack)
    return view


def lower_repeated_square_along(schedule: Schedule, e: Equation) -> View:
    """E ← A E + E A, then A ← A², as often as the number of each matrix of a stack says."""
    n = e.outputs[0].shape[-1]
    squared, along = as_stack(schedule.own(e.inputs[0])), schedule.own(e.inputs[1])
    stack = as_stack(along)
    if not stack.imaginary.size:
        return along
    times = schedule.contiguous(schedule.in_memory(e.inputs[2])).reshape((stack.shape[0], 1, 1))
    assert times is not None
    space = schedule.new_buffer((1, n, n), along.dtype).broadcast(stack.shape)

    def body(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
        direction, matrix, number, product = pointers
        copy = b.module.declare_intrinsic("llvm.memcpy", [POINTER, POINTER, INT])
        size = INT(n * n * along.dtype.itemsize)

        def times_to(x: ir.Value, y: ir.Value, added_to: float) -> None:
            sides = (1.0, x, n, y, n, added_to, product, n)
            fortran(b, along.dtype, "gemm", "N", "N", n, n, n, *sides)

        def move(target: ir.Value) -> None:
            b.call(copy, [*(b.bitcast(x, POINTER) for x in (target, product)), size, BIT(0)])

        with counting(b, b.load(number)):
            times_to(matrix, direction, 0.0)
            times_to(direction, matrix, 1.0)
            move(direction)
            times_to(matrix, matrix, 0.0)
            move(matrix)

    views = [stack, squared, times, space]
    append(schedule, Stacked("repeated square along", views, 60 * n**3, body), stack, squared)
    return along


LOWER = {
    "repeated_square": lowering(lower_repeated_square),
    "repeated_square_along": lowering(lower_repeated_square_along),
    "triangular_solve": lowering(lower_triangular_solve),
    "solve": lowering(lower_solve),
    "inv": lowering(lower_inv),
    "lu_diagonal": lowering(lower_lu_diagonal),
}
