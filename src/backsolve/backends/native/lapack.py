"""Triangular systems and elimination by the LAPACK that SciPy ships (Cholesky factors: cholesky.py).

LAPACK counts columns first: a matrix stored by rows is to it the transposed one. So it is asked for the
other triangle, or for the transposed system, and nothing is moved around.
"""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Equation, Var, type_of
from ...primitives.adjugate import TOO_MANY_ZEROS
from .blas import by_address, fortran, layout
from .failure import fail_if, placed
from .matrices import (
    CINT,
    INT,
    Lines,
    Stacked,
    append,
    as_stack,
    copied,
    counting,
    lowering,
    refuse,
    slot,
    stack_of,
    swapped,
)
from .numbers.registers import Register, convert, each, load, parts, real_dtype, select, store
from .views import View

if TYPE_CHECKING:
    from .schedule import Schedule

SINGULAR = "Singular matrix"


def lower_triangular_solve(schedule: Schedule, e: Equation) -> View:
    out = e.outputs[0]
    lower, unit = e.params["lower"], e.params["unit"]
    T = stack_of(schedule, schedule.in_memory(e.inputs[0]), out.dtype)
    if type_of(e.inputs[1]).dtype == out.dtype:
        view = schedule.own(e.inputs[1], (e.inputs[0],))
        x = as_stack(view)
    else:
        view, x = copied(schedule, schedule.view_of(e.inputs[1]), out.dtype)
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
    view, x = copied(schedule, swapped(right), out.dtype)
    code = refuse(schedule, SINGULAR, e)

    def body(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
        matrix, order, columns = pointers
        _refuse_zeros(b, matrix, out.dtype, n, n + 1, code)
        how = "N" if turned else "T"
        if k == 1:
            fortran(b, out.dtype, "getrs", how, n, k, matrix, n, order, columns, n, slot(b))
            return
        # OpenBLAS's getrs shares out the exchanges of two columns and more among its threads, however small
        # they are, and on a busy machine waits for the system to run these.
        if turned:
            _exchange(b, columns, order, n, k, out.dtype, backwards=False)
        triangles = [("L", "U"), ("U", "N")]
        for triangle, diagonal in triangles if turned else reversed(triangles):
            sides = ("L", triangle, how, diagonal)
            fortran(b, out.dtype, "trsm", *sides, n, k, 1.0, matrix, n, columns, n)
        if not turned:
            _exchange(b, columns, order, n, k, out.dtype, backwards=True)

    if x.imaginary.size:
        append(schedule, Stacked("solve", [factor, pivots, x], 2 * n * n * k, body), x)
    return swapped(view)


def _exchange(
    b: ir.IRBuilder, columns: Any, order: Any, n: int, k: int, dtype: Any, backwards: bool
) -> None:
    """The exchanges of rows that elimination made, in k columns; or their inverse."""
    with counting(b, k) as j:
        column = b.gep(columns, [b.mul(j, INT(n))])
        with counting(b, n) as i:
            row = b.sub(INT(n - 1), i) if backwards else i
            other = b.sub(b.sext(b.load(b.gep(order, [row])), INT), INT(1))
            one, two = b.gep(column, [row]), b.gep(column, [other])
            first, second = load(b, one, dtype), load(b, two, dtype)
            store(b, second, one, dtype)
            store(b, first, two, dtype)


def lower_inv(schedule: Schedule, e: Equation) -> View:
    out = e.outputs[0]
    n = out.shape[-1]
    factor, pivots, turned = _factored(schedule, e.inputs[0], out.dtype)
    view, stack = copied(schedule, factor, out.dtype)
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


def lower_inv_of_pivots(schedule: Schedule, e: Equation) -> View:
    """The same with given numbers in place of zero pivots; it fails if that overflows."""
    out = e.outputs[0]
    n = out.shape[-1]
    factor, pivots, turned = _factored(schedule, e.inputs[0], out.dtype)
    view, stack = copied(schedule, factor, out.dtype)
    view = View.whole(view.buffer, out.shape)
    tiny = stack_of(schedule, schedule.view_of(e.inputs[1]), real_dtype(out.dtype))
    work = schedule.new_buffer((1, 1, 64 * n), out.dtype)
    code = schedule.fail(np.linalg.LinAlgError, placed(TOO_MANY_ZEROS, e.where))

    def body(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
        matrix, order, tiny, space = pointers
        some = slot(b)
        b.store(CINT(0), some)
        with counting(b, n) as i:
            place = b.gep(matrix, [b.mul(i, INT(n + 1))])
            with b.if_then(_is_zero(b, load(b, place, out.dtype)), likely=False):
                given = load(b, tiny, real_dtype(out.dtype))
                store(b, convert(b, given, real_dtype(out.dtype), out.dtype), place, out.dtype)
                b.store(CINT(1), some)
        fortran(b, out.dtype, "getri", n, matrix, n, order, space, 64 * n, slot(b))
        with b.if_then(b.trunc(b.load(some), ir.IntType(1)), likely=False), counting(b, n * n) as i:
            for x in parts(load(b, b.gep(matrix, [i]), out.dtype)):
                zero = ir.Constant(x.type, 0.0)
                fail_if(b, b.fcmp_unordered("!=", b.fmul(x, zero), zero), code)

    if factor.imaginary.size:
        shared = work.broadcast((stack.shape[0], 1, 64 * n))
        views = [stack, pivots, tiny, shared]
        append(schedule, Stacked("inv", views, 4 * n**3 // 3, body), stack)
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
        _, factor = copied(schedule, schedule.view_of(key), dtype)
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


def _refuse_zeros(
    b: ir.IRBuilder, matrix: ir.Value, dtype: np.dtype[Any], n: int, step: int, code: int
) -> None:
    """Fail with `code` if an entry of the diagonal is zero."""
    with counting(b, n) as i:
        entry = load(b, b.gep(matrix, [b.mul(i, INT(step))]), dtype)
        fail_if(b, _is_zero(b, entry), code)


def _is_zero(b: ir.IRBuilder, entry: Register) -> ir.Value:
    zeros = [b.fcmp_ordered("==", x, ir.Constant(x.type, 0.0)) for x in parts(entry)]
    return reduce(b.and_, zeros)


LOWER = {
    "triangular_solve": lowering(lower_triangular_solve),
    "solve": lowering(lower_solve),
    "inv": lowering(lower_inv),
    "inv_of_pivots": lowering(lower_inv_of_pivots),
    "lu_diagonal": lowering(lower_lu_diagonal),
}
