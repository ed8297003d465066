"""Singular values and QR factors, by LAPACK's ?gesdd, ?geqrf and ?orgqr, as NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from llvmlite import ir

from ...ir import Equation, type_of
from .blas import fortran
from .columns import C, Columns, at_place, fail_on, lines_of, only_reads, part_of, stack_of_columns
from .matrices import INT, counting, lowering, slot, swapped
from .numbers.registers import Complex, convert, each, load, parts, real_dtype, store
from .views import View
from .workspace import ASK, sizes

if TYPE_CHECKING:
    from .schedule import Schedule

SVD = "SVD did not converge"


# ---- A = U diag(s) Vᴴ


def lower_svd(schedule: Schedule, e: Equation) -> View:
    m, n = type_of(e.inputs[0]).shape[-2:]
    values_only = only_reads(schedule, e, m, m + 1)
    at = Columns(schedule, e, doubled=not values_only)
    result, memory = at.result()
    if not memory.imaginary.size:
        return at.done(result)
    k, real, leading = min(m, n), real_dtype(at.dtype), m + 1 + n
    matrix, whole = at.put_matrix(), stack_of_columns(memory)
    s, turned = at.scratch(k, real), at.scratch(1 if values_only else k * n, at.dtype)
    run, views = _gesdd(at, "N" if values_only else "S", leading)

    def body(b: ir.IRBuilder, A: ir.Value, out: ir.Value, *work: ir.Value) -> None:
        s, V, *rest = work
        run(b, A, s, out, V, rest)
        with counting(b, k) as j:
            column = at_place(b, out, (j, leading))
            value = convert(b, load(b, b.gep(s, [j]), real), real, at.dtype)
            store(b, value, b.gep(column, [INT(m)]), at.dtype)
            with counting(b, 0 if values_only else n) as i:
                entry = load(b, at_place(b, V, (i, k), (j, 1)), at.dtype)
                if isinstance(entry, Complex):
                    entry = Complex(entry.re, b.fneg(entry.im))
                store(b, entry, b.gep(column, [b.add(i, INT(m + 1))]), at.dtype)

    name = "svdvals" if values_only else "svd"
    at.append(name, [matrix, whole, s, turned, *views], 22 * m * n * k, [whole], body)
    return at.done(result)


def lower_svdvals(schedule: Schedule, e: Equation) -> View:
    at = Columns(schedule, e)
    values = schedule.new_buffer(at.out.shape, at.out.dtype)
    if not values.imaginary.size:
        return values
    m, n = at.a.shape[-2:]
    matrix, line = at.put_matrix(), lines_of(values)
    run, views = _gesdd(at, "N", m)

    def body(b: ir.IRBuilder, A: ir.Value, s: ir.Value, *work: ir.Value) -> None:
        run(b, A, s, A, A, list(work))

    at.append("svdvals", [matrix, line, *views], 4 * m * n * min(m, n), [line], body)
    return values


def _gesdd(at: Columns, job: str, leading: int) -> tuple[Callable[..., None], list[View]]:
    """?gesdd on a matrix that it destroys, and what it works in."""
    m, n = at.a.shape[-2:]
    k, real, is_complex = min(m, n), real_dtype(at.dtype), at.dtype.kind == "c"
    # As in LAPACK's description; earlier versions of it wanted more where no vectors are asked for.
    reals = k * max(5 * k + 7, 2 * max(m, n) + 2 * k + 1) if job == "S" else 7 * k
    others = [real, C] if is_complex else [C]
    code = at.refuse(SVD)
    (length,) = sizes(
        at.dtype, "gesdd", job, m, n, at.dtype, m, real, at.dtype, leading, at.dtype, k,
        at.dtype, ASK, *others, C,
    )  # fmt: skip

    def run(
        b: ir.IRBuilder, A: ir.Value, s: ir.Value, U: ir.Value, V: ir.Value, work: list[ir.Value]
    ) -> None:
        info, (space, *rest) = slot(b), work
        fortran(
            b, at.dtype, "gesdd", job, m, n, A, m, s, U, leading, V, k, space, length, *rest, info
        )  # fmt: skip
        fail_on(b, info, code)

    rest = [at.scratch(reals, real)] if is_complex else []
    return run, [at.scratch(length, at.dtype), *rest, at.scratch(8 * k, C)]


# ---- A = Q R


def lower_qr(schedule: Schedule, e: Equation) -> View:
    at = Columns(schedule, e)
    result, memory = at.result()
    if not memory.imaginary.size:
        return result
    m, n = at.a.shape[-2:]
    leading = m + n
    whole = stack_of_columns(memory)
    matrix = at.put_matrix(part_of(memory, 0, m))
    unpack = "ungqr" if at.dtype.kind == "c" else "orgqr"
    (first,) = sizes(at.dtype, "geqrf", m, n, at.dtype, leading, at.dtype, at.dtype, ASK, C)
    (second,) = sizes(at.dtype, unpack, m, n, n, at.dtype, leading, at.dtype, at.dtype, ASK, C)
    length = max(first, second)
    wants_q = not only_reads(schedule, e, m, leading)

    def body(b: ir.IRBuilder, A: ir.Value, out: ir.Value, tau: ir.Value, work: ir.Value) -> None:
        info = slot(b)
        fortran(b, at.dtype, "geqrf", m, n, A, leading, tau, work, length, info)
        with counting(b, n) as j, counting(b, n) as i:
            column = at_place(b, out, (j, leading))
            inside = b.icmp_signed("<=", i, j)
            r = load(b, b.gep(column, [b.select(inside, i, j)]), at.dtype)
            zero = ir.Constant(parts(r)[0].type, 0.0)
            r = each(lambda x: b.select(inside, x, zero), r)
            store(b, r, b.gep(column, [b.add(i, INT(m))]), at.dtype)
        if wants_q:
            fortran(b, at.dtype, unpack, m, n, n, A, leading, tau, work, length, info)

    views = [at.scratch(n, at.dtype), at.scratch(length, at.dtype)]
    at.append("qr" if wants_q else "r of qr", [matrix, whole, *views], 4 * m * n * n, [whole], body)
    return result


def lower_complement(schedule: Schedule, e: Equation) -> View:
    """The last columns of a whole Q."""
    at = Columns(schedule, e)
    m, n = at.a.shape[-2:]
    memory = schedule.new_buffer((*at.a.shape[:-2], m, m), at.dtype)
    result = swapped(memory.with_(memory.imaginary[..., n:, :]))
    if not result.imaginary.size:
        return View.whole(memory.buffer, at.out.shape)
    whole = stack_of_columns(memory)
    matrix = at.put_matrix(memory.with_(memory.imaginary[..., :n, :]))
    unpack = "ungqr" if at.dtype.kind == "c" else "orgqr"
    (first,) = sizes(at.dtype, "geqrf", m, n, at.dtype, m, at.dtype, at.dtype, ASK, C)
    (second,) = sizes(at.dtype, unpack, m, m, n, at.dtype, m, at.dtype, at.dtype, ASK, C)
    length = max(first, second)

    def body(b: ir.IRBuilder, A: ir.Value, out: ir.Value, tau: ir.Value, work: ir.Value) -> None:
        info = slot(b)
        fortran(b, at.dtype, "geqrf", m, n, A, m, tau, work, length, info)
        fortran(b, at.dtype, unpack, m, m, n, A, m, tau, work, length, info)

    views = [at.scratch(max(n, 1), at.dtype), at.scratch(length, at.dtype)]
    at.append("complement", [matrix, whole, *views], 4 * m * m * n, [whole], body)
    return result


LOWER = {
    "svd": lowering(lower_svd),
    "svdvals": lowering(lower_svdvals),
    "qr": lowering(lower_qr),
    "complement": lowering(lower_complement),
}
