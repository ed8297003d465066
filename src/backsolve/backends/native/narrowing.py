"""sin, cos and tan in fused loops: the narrow forms, and the largest argument they were given.

The narrow forms hold up to a limit (mathematics.RANGE_LIMIT) that nearly all arguments keep. An argument
may be computed in the loop itself, so nobody can look at it beforehand: the loop keeps the largest |x| of
a block of entries beside its work, and a block where that is beyond the limit, or NaN, is computed again
by the wide forms, from the state it began with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Equation
from .elementwise import combine
from .mathematics import NARROW, RANGE_LIMIT
from .numbers.registers import convert, each, number
from .repeat import INT, arrive, loop_with
from .support import compute_dtype
from .totals import Totals

if TYPE_CHECKING:
    from .kernel import Kernel

BLOCK = 1024  # entries; what a block reads and writes stays in the first cache


class Narrow:
    """The largest |x| so far, by dtype, of the arguments of narrow forms."""

    def __init__(self, dtypes: Sequence[np.dtype[Any]], largest: Sequence[ir.Value]):
        self.largest = dict(zip(dtypes, largest, strict=True))
        self.seen: set[ir.Value] = set()  # sin and cos of the same x

    def takes(self, e: Equation) -> bool:
        return e.primitive.name in NARROW and compute_dtype(e) in self.largest

    def emit(
        self, b: ir.IRBuilder, e: Equation, inputs: list[tuple[ir.Value, np.dtype[Any]]]
    ) -> ir.Value:
        dtype = compute_dtype(e)
        x = convert(b, *inputs[0], dtype)
        if x not in self.seen:
            self.seen.add(x)
            fabs = b.module.declare_intrinsic("llvm.fabs", [x.type])
            self.largest[dtype] = combine(b, "max", self.largest[dtype], b.call(fabs, [x]), dtype)
        return NARROW[e.primitive.name](b, x)


def narrow_dtypes(kernel: Kernel) -> list[np.dtype[Any]]:
    """The dtypes of the arguments of narrow forms, where a block may be computed twice: nothing that
    it writes is read or added to, and no failure can come of a wrong intermediate value."""
    read = {v.buffer for v in [*kernel.loads.values(), *[p.view for p in kernel.reads.values()]]}
    made = [x for p in kernel.reads.values() for x in p.axes if x.index in kernel.made]
    may_mislead = bool(kernel.refusals) or any(x.code is not None for x in made)
    if kernel.writes or may_mislead or any(v.buffer in read for _, v in kernel.stores):
        return []
    found = {compute_dtype(e) for e in kernel.statements if e.primitive.name in NARROW}
    return sorted((t for t in found if t.name in RANGE_LIMIT), key=lambda t: t.name)


def beyond_range(b: ir.IRBuilder, largest: dict[np.dtype[Any], ir.Value]) -> ir.Value:
    """Whether some argument was too large, or NaN."""
    tests = [b.fcmp_unordered(">", v, number(RANGE_LIMIT[t.name], t)) for t, v in largest.items()]
    result = tests[0]
    for test in tests[1:]:
        result = b.or_(result, test)
    return result


def loop_in_blocks(
    b: ir.IRBuilder,
    count: int | ir.Value,
    size: int,
    totals: Totals,
    body: Any,
    side_by_side: int,
    dtypes: Sequence[np.dtype[Any]],
    last: int = 0,
) -> list[ir.Value]:
    """As loop_with, in blocks of `size` entries, whose totals are put together.

    A body that takes narrow forms, of `dtypes`, is done by these first, and if need be again without."""

    def block(b: ir.IRBuilder, k: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        first = b.mul(k, INT(size), flags=("nsw",))
        length: Any = count
        if not is_one:
            left = b.sub(stop, first)
            length = b.select(b.icmp_signed("<", left, INT(size)), left, INT(size))
        starts = totals.before(state)

        def at(b: ir.IRBuilder, i: ir.Value) -> ir.Value:
            return b.add(first, i, flags=("nsw",))

        def wide(b: ir.IRBuilder, i: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
            return body(b, at(b, i), now)

        def quick(b: ir.IRBuilder, i: ir.Value, now: list[ir.Value]) -> list[ir.Value]:
            narrow = Narrow(dtypes, now[len(state) :])
            new = body(b, at(b, i), now[: len(state)], narrow)
            return [*new, *narrow.largest.values()]

        if not dtypes:
            return totals.after(b, state, loop_with(b, length, starts, wide, side_by_side))
        zeros = [number(0.0, t) for t in dtypes]
        done = loop_with(b, length, [*starts, *zeros], quick, side_by_side, last if is_one else 0)
        largest = dict(zip(dtypes, done[len(state) :], strict=True))
        before = b.block
        with b.if_then(beyond_range(b, largest), likely=False):
            again = loop_with(b, length, starts, wide, side_by_side)
            behind = b.block
        result = [each(lambda x: b.phi(x.type), v) for v in starts]
        arrive(result, done[: len(state)], before)
        arrive(result, again, behind)
        return totals.after(b, state, result)

    stop = INT(count) if isinstance(count, int) else count
    is_one = isinstance(count, int) and count <= size
    if isinstance(count, int):
        return loop_with(b, -(-count // size), totals.starts(), block)
    blocks = b.udiv(b.add(count, INT(size - 1)), INT(size))
    return loop_with(b, blocks, totals.starts(), block)
