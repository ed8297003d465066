"""Eigenvalues and eigenvectors, by LAPACK's ?syevd, ?heevd and ?geev, as NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Equation
from .blas import fortran
from .columns import C, Columns, at_place, fail_on, lines_of, only_reads, part_of, stack_of_columns
from .failure import fail_if
from .matrices import INT, counting, lowering, slot
from .numbers.registers import Complex, convert, load, parts, real_dtype, store
from .views import View
from .workspace import ASK, sizes

if TYPE_CHECKING:
    from .schedule import Schedule

EIGENVALUES = "Eigenvalues did not converge"
NOT_FINITE = "Array must not contain infs or NaNs"


# ---- A = V diag(w) Vᴴ


def lower_eigh(schedule: Schedule, e: Equation) -> View:
    values_only = only_reads(schedule, e, 0, 1)
    at = Columns(schedule, e, doubled=not values_only)
    result, memory = at.result()
    n = at.a.shape[-1]
    if not memory.imaginary.size:
        return at.done(result)
    real = real_dtype(at.dtype)
    matrix, whole = at.put_matrix(part_of(memory, 1, n + 1)), stack_of_columns(memory)
    run, views = _eigh(at, "N" if values_only else "V", n + 1)
    w = at.scratch(n, real)

    def body(b: ir.IRBuilder, A: ir.Value, out: ir.Value, w: ir.Value, *work: ir.Value) -> None:
        run(b, A, w, list(work))
        with counting(b, n) as j:
            value = load(b, b.gep(w, [j]), real)
            store(b, convert(b, value, real, at.dtype), at_place(b, out, (j, n + 1)), at.dtype)

    name = "eigvalsh" if values_only else "eigh"
    at.append(name, [matrix, whole, w, *views], 9 * n**3, [whole], body)
    return at.done(result)


def lower_eigvalsh(schedule: Schedule, e: Equation) -> View:
    at = Columns(schedule, e)
    n = at.a.shape[-1]
    values = schedule.new_buffer(at.out.shape, at.out.dtype)
    if not values.imaginary.size:
        return values
    matrix = at.put_matrix()
    run, views = _eigh(at, "N", n)
    w = lines_of(values)

    def body(b: ir.IRBuilder, A: ir.Value, w: ir.Value, *work: ir.Value) -> None:
        run(b, A, w, list(work))

    at.append("eigvalsh", [matrix, w, *views], 2 * n**3, [w], body)
    return values


def _eigh(at: Columns, job: str, leading: int) -> tuple[Callable[..., None], list[View]]:
    """?syevd or ?heevd on a matrix in place, and what it works in."""
    n, real = at.a.shape[-1], real_dtype(at.dtype)
    triangle = "L" if at.e.params["lower"] else "U"
    is_complex = at.dtype.kind == "c"
    name, kinds = ("heevd", [at.dtype, real, C]) if is_complex else ("syevd", [at.dtype, C])
    asked = [x for kind in kinds for x in (kind, ASK)]
    code = at.refuse(EIGENVALUES)
    lengths = sizes(at.dtype, name, job, triangle, n, at.dtype, leading, real, *asked, C)

    def run(b: ir.IRBuilder, A: ir.Value, w: ir.Value, work: list[ir.Value]) -> None:
        info = slot(b)
        space = [x for pair in zip(work, lengths, strict=True) for x in pair]
        fortran(b, at.dtype, name, job, triangle, n, A, leading, w, *space, info)
        fail_on(b, info, code)

    return run, [at.scratch(k, kind) for k, kind in zip(lengths, kinds, strict=True)]


# ---- A V = V diag(w)


def lower_eig(schedule: Schedule, e: Equation) -> View:
    at = Columns(schedule, e, doubled=True)
    result, memory = at.result()
    n = at.a.shape[-1]
    if not memory.imaginary.size:
        return at.done(result)
    matrix, whole = at.put_matrix(), stack_of_columns(memory)
    is_complex = at.dtype.kind == "c"
    run, views = _geev(at, "V", n + 1 if is_complex else n)
    # Of real matrices it gives both parts of w, and packed vectors.
    apart = [n] if is_complex else [n, n, n * n]

    def body(b: ir.IRBuilder, A: ir.Value, out: ir.Value, *work: ir.Value) -> None:
        found, rest = list(work[: len(apart)]), list(work[len(apart) :])
        if not is_complex:
            run(b, A, found[:2], found[2], rest)
            _unpack(b, n, at.made, out, *found)
            return
        run(b, A, found, b.gep(out, [INT(1)]), rest)
        with counting(b, n) as j:
            value = load(b, b.gep(found[0], [j]), at.dtype)
            store(b, value, at_place(b, out, (j, n + 1)), at.dtype)

    scratch = [at.scratch(k, at.dtype) for k in apart]
    at.append("eig", [matrix, whole, *scratch, *views], 25 * n**3, [whole], body)
    return at.done(result)


def lower_eigvals(schedule: Schedule, e: Equation) -> View:
    at = Columns(schedule, e, doubled=True)
    n = at.a.shape[-1]
    values = schedule.new_buffer(at.out.shape, at.made)
    if not values.imaginary.size:
        return at.done(values)
    matrix, line = at.put_matrix(), lines_of(values)
    run, views = _geev(at, "N", n)
    halves = [] if at.dtype.kind == "c" else [at.scratch(n, at.dtype) for _ in range(2)]

    def body(b: ir.IRBuilder, A: ir.Value, out: ir.Value, *work: ir.Value) -> None:
        if not halves:
            run(b, A, [out], out, list(work))
            return
        re, im, *rest = work
        run(b, A, [re, im], re, rest)
        with counting(b, n) as j:
            w = Complex(*(b.load(b.gep(x, [j])) for x in (re, im)))
            store(b, w, b.gep(out, [j]), at.made)

    at.append("eigvals", [matrix, line, *halves, *views], 10 * n**3, [line], body)
    return at.done(values)


def _geev(at: Columns, job: str, leading: int) -> tuple[Callable[..., None], list[View]]:
    """?geev on a matrix that it destroys, and what it works in."""
    n, real, is_complex = at.a.shape[-1], real_dtype(at.dtype), at.dtype.kind == "c"
    halves = 1 if is_complex else 2
    rest = [real] if is_complex else []
    arrays = [at.dtype] * halves
    code, not_finite = at.refuse(EIGENVALUES), at.refuse(NOT_FINITE)
    (length,) = sizes(
        at.dtype, "geev", "N", job, n, at.dtype, n, *arrays, at.dtype, 1, at.dtype, leading,
        at.dtype, ASK, *rest, C,
    )  # fmt: skip

    def run(
        b: ir.IRBuilder, A: ir.Value, w: list[ir.Value], V: ir.Value, work: list[ir.Value]
    ) -> None:
        refuse_not_finite(b, at.dtype, A, n * n, not_finite)
        info, (space, *others) = slot(b), work
        fortran(
            b, at.dtype, "geev", "N", job, n, A, n, *w, V, 1, V, leading, space, length, *others, info
        )  # fmt: skip
        fail_on(b, info, code)

    return run, [at.scratch(length, at.dtype), *(at.scratch(2 * n, real) for _ in rest)]


def refuse_not_finite(
    b: ir.IRBuilder, dtype: np.dtype[Any], A: ir.Value, size: int, code: int
) -> None:
    with counting(b, size) as k:
        entry = load(b, b.gep(A, [k]), dtype)
        zero = ir.Constant(parts(entry)[0].type, 0.0)
        apart = [b.fcmp_unordered("!=", b.fsub(x, x), zero) for x in parts(entry)]
        fail_if(b, reduce(b.or_, apart), code)


def _unpack(
    b: ir.IRBuilder,
    n: int,
    dtype: np.dtype[Any],
    out: ir.Value,
    re: ir.Value,
    im: ir.Value,
    v: ir.Value,
) -> None:
    """Of real matrices: a pair of eigenvalues has its vector's parts in two neighbouring columns."""
    with counting(b, n) as j:
        w = Complex(b.load(b.gep(re, [j])), b.load(b.gep(im, [j])))
        store(b, w, at_place(b, out, (j, n + 1)), dtype)
        zero = ir.Constant(w.im.type, 0.0)
        first, second = b.fcmp_ordered(">", w.im, zero), b.fcmp_ordered("<", w.im, zero)
        of_re = b.select(second, b.sub(j, INT(1)), j)
        of_im = b.select(first, b.add(j, INT(1)), j)
        with counting(b, n) as i:
            x = b.load(at_place(b, v, (of_re, n), (i, 1)))
            y = b.load(at_place(b, v, (of_im, n), (i, 1)))
            y = b.select(first, y, b.select(second, b.fneg(y), zero))
            store(b, Complex(x, y), b.gep(at_place(b, out, (j, n + 1), (i, 1)), [INT(1)]), dtype)


LOWER = {
    "eigh": lowering(lower_eigh),
    "eigvalsh": lowering(lower_eigvalsh),
    "eig": lowering(lower_eig),
    "eigvals": lowering(lower_eigvals),
}
