"""L U without exchanges of rows, block by block, and the exchanges that keep it stable.

Matrices are stored by rows; in the eyes of BLAS they are the transposed ones. A block of columns [j, k) divides

    D  B      rows [j, k)       D ← its own L U
    C  A      rows [k, n)       C ← C U⁻¹,   B ← L⁻¹ B,   A ← A − C B
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from llvmlite import ir

from ...ir import Equation
from .blas import fortran
from .cholesky import Blocked, Grid
from .columns import Columns, lines_of
from .failure import fail_if
from .matrices import CINT, INT, append, as_stack, counting, lowering, refuse, slot
from .numbers import complex as complex_number
from .numbers import real
from .numbers.registers import load, parts, store
from .views import View

if TYPE_CHECKING:
    from .schedule import Schedule

ZERO_PIVOT = "`lu` met a pivot of 0: the matrix is singular"


def lower_lu(schedule: Schedule, e: Equation) -> View:
    view = schedule.own(e.inputs[0])
    stack = as_stack(view)
    n = stack.shape[-1]
    if not stack.imaginary.size:
        return view
    code = refuse(schedule, ZERO_PIVOT, e)

    def body(grid: Grid) -> None:
        (a,), b = grid.given, grid.b
        with grid.blocks() as (j, k):
            _factor(grid, a, j, k, code)
            size, rest = b.sub(k, j), b.sub(INT(n), k)
            D, B, C, A = (grid.at(a, *at) for at in ((j, j), (j, k), (k, j), (k, k)))
            with b.if_then(b.icmp_signed("<", k, INT(n))):
                grid.call("trsm", "L", "L", "N", "N", size, rest, 1.0, D, n, C, n)
                grid.call("trsm", "R", "U", "N", "U", rest, size, 1.0, D, n, B, n)
                grid.call("gemm", "N", "N", rest, rest, size, -1.0, B, n, C, n, 1.0, A, n)

    append(schedule, Blocked("lu", [stack], 2 * n**3 // 3, body), stack)
    return view


def _factor(grid: Grid, a: ir.Value, j: ir.Value, k: ir.Value, code: int) -> None:
    """A block on the diagonal, by rank-one steps; the last pivot of the matrix is not divided by."""
    b, dtype = grid.b, grid.dtype
    rules = complex_number.RULES if dtype.kind == "c" else real.RULES
    with counting(b, k, j) as p:
        pivot = load(b, grid.at(a, p, p), dtype)
        zeros = [b.fcmp_ordered("==", x, ir.Constant(x.type, 0.0)) for x in parts(pivot)]
        divides = b.icmp_signed("<", p, INT(grid.n - 1))
        fail_if(b, reduce(b.and_, [*zeros, divides]), code)
        after = b.add(p, INT(1))
        with counting(b, k, after) as i:
            place = grid.at(a, i, p)
            factor = rules["divide"](b, load(b, place, dtype), pivot)
            store(b, factor, place, dtype)
            with counting(b, k, after) as c:
                entry = grid.at(a, i, c)
                taken = rules["multiply"](b, factor, load(b, grid.at(a, p, c), dtype))
                store(b, rules["subtract"](b, load(b, entry, dtype), taken), entry, dtype)


def lower_pivots(schedule: Schedule, e: Equation) -> View:
    at = Columns(schedule, e)
    m, n = at.a.shape[-2:]
    result = schedule.new_buffer(at.out.shape, at.out.dtype)
    if not result.imaginary.size:
        return result
    order = lines_of(result)
    matrix, k = at.put_matrix(), min(m, n)

    def body(b: ir.IRBuilder, A: ir.Value, order: ir.Value, exchanged: ir.Value) -> None:
        with counting(b, m) as i:
            b.store(i, b.gep(order, [i]))
        if k:
            fortran(b, at.dtype, "getrf", m, n, A, m, exchanged, slot(b))
        with counting(b, k) as i:
            other = b.sub(b.load(b.gep(exchanged, [i])), CINT(1))
            one, two = b.gep(order, [i]), b.gep(order, [b.sext(other, INT)])
            first, second = b.load(one), b.load(two)
            b.store(second, one)
            b.store(first, two)

    views = [matrix, order, at.scratch(max(k, 1), np.int32)]
    at.append("pivots", views, 2 * m * n * k // 3, [order], body)
    return result


LOWER = {"lu": lowering(lower_lu), "pivots": lowering(lower_pivots)}
