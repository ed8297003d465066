"""Systems given by their bands, Sylvester's equation and square roots of matrices, by LAPACK.

A X + X B = Q is triangular in the Schur forms A = U R Uᴴ and B = V S Vᴴ, and so is the adjoint equation, with
Rᴴ and Sᴴ: a matrix has its Schur form computed once for both. The square root of A is U √R Uᴴ, which is a
Schur form again (roots.py): the derivatives of a square root need no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Equation, Var, type_of
from ...primitives.equations import NO_SINGLE_SOLUTION, NOT_FINITE, NoRealRootError
from .blas import fortran
from .columns import C, fail_on, stack_of_columns
from .eigenvalues import refuse_not_finite
from .failure import fail_if, placed
from .matrices import INT, Stacked, append, lowering, refuse, slot, swapped
from .numbers.registers import convert, memory_type, number, real_dtype, store
from .roots import emit_root
from .views import View
from .workspace import ASK, sizes

if TYPE_CHECKING:
    from .schedule import Schedule


# ---- A x = b by the diagonals of A


def lower_banded_solve(schedule: Schedule, e: Equation) -> View:
    out, lower, upper = e.outputs[0], e.params["lower"], e.params["upper"]
    n, k = out.shape[-2:]
    bands, right = (schedule.view_of(a) for a in e.inputs)
    x = schedule.new_buffer(swapped(right).shape, out.dtype)
    if not x.imaginary.size:
        return swapped(x)
    schedule.copy(swapped(right), x)
    columns, code = stack_of_columns(x), refuse(schedule, "singular matrix", e)
    width = lower + upper + 1
    if lower == upper == 1:
        diagonals = schedule.new_buffer(bands.shape, out.dtype)
        schedule.copy(bands, diagonals)

        def three(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
            first, right = pointers
            above, middle, below = (b.gep(first, [INT(at)]) for at in (1, n, 2 * n))
            info = slot(b)
            fortran(b, out.dtype, "gtsv", n, k, below, middle, above, right, n, info)
            fail_on(b, info, code)

        matrices = stack_of_columns(diagonals)
        step = Stacked("tridiagonal solve", [matrices, columns], 5 * n * k, three)
        append(schedule, step, columns, matrices)
        return swapped(x)
    # Column by column, with room above for what exchanges of rows fill in.
    leading = lower + width
    memory = schedule.new_buffer((*bands.shape[:-2], n, leading), out.dtype)
    schedule.copy(swapped(bands), memory.with_(memory.imaginary[..., lower:]))
    matrices = stack_of_columns(memory)
    pivots = _scratch(schedule, matrices.shape[0], n, C)

    def several(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
        matrix, right, order = pointers
        info = slot(b)
        fortran(
            b, out.dtype, "gbsv", n, lower, upper, k, matrix, leading, order, right, n, info
        )  # fmt: skip
        fail_on(b, info, code)

    work = 2 * n * (leading * lower + (width + lower) * k)
    step = Stacked("banded solve", [matrices, columns, pivots], work, several)
    append(schedule, step, columns, matrices)
    return swapped(x)


# ---- A X + X B = Q


def lower_sylvester(schedule: Schedule, e: Equation) -> View:
    out = e.outputs[0]
    m, n = out.shape[-2:]
    dtype = out.dtype
    source = swapped(schedule.view_of(e.inputs[2]))
    memory = schedule.new_buffer(source.shape, dtype)
    if not memory.imaginary.size:
        return swapped(memory)
    R, U, turned_a = _schur(schedule, e, e.inputs[0], dtype)
    S, V, turned_b = _schur(schedule, e, e.inputs[1], dtype)
    schedule.copy(source, memory)
    x = stack_of_columns(memory)
    product = _scratch(schedule, x.shape[0], m * n, dtype)
    code = schedule.fail(np.linalg.LinAlgError, placed(NO_SINGLE_SOLUTION, e.where))
    how = ["C" if turned and dtype.kind == "c" else "NT"[turned] for turned in (turned_a, turned_b)]
    adjoint, real = "C" if dtype.kind == "c" else "T", real_dtype(dtype)

    def body(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
        R, U, S, V, x, w = pointers
        info = slot(b)
        with b.goto_entry_block():
            scale, factor = b.alloca(memory_type(real)), b.alloca(memory_type(dtype))
        fortran(b, dtype, "gemm", adjoint, "N", m, n, m, 1.0, U, m, x, m, 0.0, w, m)
        fortran(b, dtype, "gemm", "N", "N", m, n, n, 1.0, w, m, V, n, 0.0, x, m)
        fortran(b, dtype, "trsyl", *how, 1, m, n, R, m, S, n, x, m, scale, info)
        fail_on(b, info, code)
        # What was solved is R Y + Y S = scale · Uᴴ Q V, lest Y overflow.
        one = b.fdiv(number(1.0, real), b.load(scale))
        store(b, convert(b, one, real, dtype), factor, dtype)
        fortran(b, dtype, "gemm", "N", "N", m, n, m, factor, U, m, x, m, 0.0, w, m)
        fortran(b, dtype, "gemm", "N", adjoint, m, n, n, 1.0, w, m, V, n, 0.0, x, m)

    work = 5 * m * n * (m + n)
    append(schedule, Stacked("sylvester", [R, U, S, V, x, product], work, body), x)
    return swapped(memory)


def _schur(
    schedule: Schedule, e: Equation, a: Any, dtype: np.dtype[Any]
) -> tuple[View, View, bool]:
    """R and U of a matrix or of its adjoint (then True), once for all that ask for either."""
    origin, turned = _origin(schedule, a)
    key = ("schur", origin, dtype)
    if key not in schedule.factors:
        schedule.factors[key] = emit_schur(schedule, e, origin, dtype)
    return (*schedule.factors[key], turned)


def _origin(schedule: Schedule, a: Any) -> tuple[Any, bool]:
    """The variable that `a` is, or whose matrices' adjoint it is."""
    rank = len(a.shape)
    swap = (*range(rank - 2), rank - 1, rank - 2)
    names = ["permute", "conjugate"] if type_of(a).dtype.kind == "c" else ["permute"]
    at = a
    while names:
        maker = schedule.makers.get(at) if type(at) is Var else None
        if maker is None or maker.primitive.name not in names:
            return a, False
        if maker.primitive.name == "permute" and tuple(maker.params["axes"]) != swap:
            return a, False
        names.remove(maker.primitive.name)
        at = maker.inputs[0]
    return at, True


def emit_schur(schedule: Schedule, e: Equation, a: Any, dtype: np.dtype[Any]) -> tuple[View, View]:
    """R and U with A = U R Uᴴ, column by column. Of real matrices R has 2 × 2 blocks on its diagonal."""
    source = swapped(schedule.view_of(a))
    memory = schedule.new_buffer(source.shape, dtype)
    schedule.copy(source, memory)
    matrices = stack_of_columns(memory)
    count, n, _ = matrices.shape
    vectors = stack_of_columns(schedule.new_buffer(source.shape, dtype))
    is_complex, real = dtype.kind == "c", real_dtype(dtype)
    values, rest = ([dtype], [real]) if is_complex else ([dtype, dtype], [])
    # The function by which eigenvalues might be sorted is not called.
    (length,) = sizes(
        dtype, "gees", "V", "N", C, n, dtype, n, C, *values, dtype, n, dtype, ASK, *rest, C, C
    )  # fmt: skip
    kinds = [*[(n, t) for t in values], (length, dtype), *[(n, t) for t in rest], (n, C)]
    scratch = [_scratch(schedule, count, size, t) for size, t in kinds]
    not_finite = refuse(schedule, NOT_FINITE, e)
    code = refuse(schedule, "Schur form not found", e)

    def body(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
        A, U, *work = pointers
        refuse_not_finite(b, dtype, A, n * n, not_finite)
        w, space, others = work[: len(values)], work[len(values)], work[len(values) + 1 :]
        info, chosen = slot(b), slot(b)
        fortran(
            b, dtype, "gees", "V", "N", chosen, n, A, n, chosen, *w, U, n, space, length,
            *others, info,
        )  # fmt: skip
        fail_on(b, info, code)

    views = [matrices, vectors, *scratch]
    append(schedule, Stacked("schur", views, 25 * n**3, body), matrices, vectors)
    return matrices, vectors


# ---- Y Y = A


def lower_sqrtm(schedule: Schedule, e: Equation) -> View:
    out, dtype = e.outputs[0], e.outputs[0].dtype
    n = out.shape[-1]
    memory = schedule.new_buffer(out.shape, dtype)
    if not memory.imaginary.size:
        return memory
    R, U = emit_schur(schedule, e, e.inputs[0], dtype)
    y = stack_of_columns(memory)
    product = _scratch(schedule, y.shape[0], n * n, dtype)
    code = schedule.fail(NoRealRootError, placed(NoRealRootError.message, e.where))
    adjoint = "C" if dtype.kind == "c" else "T"

    def body(b: ir.IRBuilder, pointers: list[ir.Value]) -> None:
        R, U, y, w = pointers
        emit_root(b, dtype, n, R, lambda b, condition: fail_if(b, condition, code))
        fortran(b, dtype, "gemm", "N", "N", n, n, n, 1.0, U, n, R, n, 0.0, w, n)
        fortran(b, dtype, "gemm", "N", adjoint, n, n, n, 1.0, w, n, U, n, 0.0, y, n)

    append(schedule, Stacked("square root", [R, U, y, product], 5 * n**3, body), R, y)
    schedule.factors["schur", out, dtype] = R, U
    return swapped(memory)


def _scratch(schedule: Schedule, count: int, size: int, dtype: Any) -> View:
    """Memory for one matrix after the other."""
    view = schedule.new_buffer((1, 1, size), np.dtype(dtype))
    return view.broadcast((count, 1, size))


LOWER = {
    "banded_solve": lowering(lower_banded_solve),
    "sylvester": lowering(lower_sylvester),
    "sqrtm": lowering(lower_sqrtm),
}
