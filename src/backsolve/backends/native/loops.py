"""A kernel as LLVM: one function with a loop nest, which LLVM unrolls and vectorises.

Each buffer comes as a pointer that aliases no other. Axes that all views walk evenly are merged first,
so that most nests are one loop. A reduction whose output does not move along the innermost loop is
kept in a register there; one that does is added into memory, entry by entry. Where a total is done with a
row, it is stored, and what follows from it is computed there and then (row_ends.py).
"""

from __future__ import annotations

from contextlib import nullcontext
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Shape, Var
from .elementwise import combine, start_of
from .entries import Entries
from .guard import condition_of_sums
from .narrowing import BLOCK, Narrow, loop_in_blocks, narrow_dtypes
from .nests import LONG_LOOP, fill, left_over, loop, rounds_together, walk, written_out
from .numbers.registers import (
    convert,
    load,
    memory_type,
    store,
)
from .repeat import loop_between, loop_with
from .totals import BLOCK as TOTAL
from .totals import ROWS, Totals, entry_dtype, wide_dtype
from .under_way import vectors_under_way
from .views import Buffer, View

if TYPE_CHECKING:
    from .kernel import Kernel

INT = ir.IntType(64)
APART = 4  # entries of a vector


class Emitter(Entries):
    def __init__(
        self,
        kernel: Kernel,
        numbers: dict[Var, Any],
        pointers: dict[Buffer, Any],
        count: ir.Value | None = None,
        first: ir.Value | None = None,
        length: ir.Value | None = None,
    ):
        super().__init__(kernel, numbers, pointers)
        self.count = count  # of the outermost loop, if it is not known
        self.first = first  # its first round, if it is a part of all
        self.length = length  # of rows that lie one after another, if it is not known
        self.ends: list[Entries] = []  # of what is done at the end of a row
        # By reduction: from which loop on, and where.
        self.aside: dict[int, tuple[int, ir.Value]] = {}
        self.written_out = 0  # the first loop that is written out round by round
        self.narrow: Narrow | None = None  # of the loop around those

    def run(self, b: ir.IRBuilder) -> None:
        kernel = self.kernel
        views = kernel.views()
        domain, strides = walk(kernel, views)
        self.strides = {id(v): s for v, s in zip(views, strides, strict=True)}
        if self.length is not None:
            self.strides = {v: (s and self.length, t) for v, (s, t) in self.strides.items()}
        self.written_out = written_out(kernel, domain)
        inner = len(domain) - 1
        self.in_register = [
            k
            for k, (_, _, v) in enumerate(kernel.reductions)
            if not domain or self.strides[id(v)][inner] == 0
        ]
        self.stored = [k for k in self.in_register if self._is_done_with_a_row(domain, k)]
        at_once = {id(kernel.reductions[k][2]) for k in self.stored}
        for how, view in starting(kernel) if self.first is None else ():
            if id(view) not in at_once:
                fill(b, self.pointers[view.buffer], view.buffer, start_of(how, view.dtype))
        if 0 in domain:
            return
        for end in kernel.ends:
            self.ends.append(Entries(end, self.numbers, self.pointers))
            self.ends[-1].strides = self.strides
        for k in self.in_register:
            self._keep_aside(b, domain, k)
        self._nest(b, domain, 0, [])

    def _is_done_with_a_row(self, domain: Shape, k: int) -> bool:
        """Whether one run of the innermost loop makes the whole of a total: nothing need be there before."""
        view = self.kernel.reductions[k][2]
        if self.first is not None or self.kernel.adds or 0 in domain or self._guard(domain):
            return False
        return all(self.strides[id(view)][:-1]) and prod(domain[:-1]) == view.buffer.size

    def _keep_aside(self, b: ir.IRBuilder, domain: Shape, k: int) -> None:
        """A total of many rows is added up in double precision, and then to what memory holds."""
        how, _, view = self.kernel.reductions[k]
        strides = self.strides[id(view)]
        first = max([axis + 1 for axis, s in enumerate(strides) if s], default=0)
        wide = wide_dtype(how, view.dtype)
        if wide != view.dtype and prod(domain[first:-1]) >= ROWS:
            self.aside[k] = first, b.alloca(memory_type(wide))

    def _nest(self, b: ir.IRBuilder, domain: Shape, axis: int, index: list[ir.Value]) -> None:
        begun = [k for k, (first, _) in self.aside.items() if first == axis]
        for k in begun:
            how, _, view = self.kernel.reductions[k]
            wide = wide_dtype(how, view.dtype)
            store(b, start_of(how, wide), self.aside[k][1], wide)
        self._loops(b, domain, axis, index)
        for k in begun:
            how, _, view = self.kernel.reductions[k]
            wide = wide_dtype(how, view.dtype)
            last = [*index, *[INT(0)] * (len(domain) - axis)]
            self.combine_in_memory(b, how, view, last, load(b, self.aside[k][1], wide), wide)

    def _loops(self, b: ir.IRBuilder, domain: Shape, axis: int, index: list[ir.Value]) -> None:
        if axis >= len(domain) - 1:
            with self._if_anything_is_added(b, domain, index):
                self._innermost(b, domain, [index])
            return
        guarded = self._guard(domain) is not None
        together = 1
        if axis == len(domain) - 2 and not guarded:
            together = rounds_together(self.kernel, domain, self.strides)
        several = together > 1
        first, count = (self.first, self.count) if axis == 0 else (None, None)

        def group(b: ir.IRBuilder, i: ir.Value) -> None:
            row = b.mul(i, INT(together), flags=("nsw",))
            row = row if first is None else b.add(first, row, flags=("nsw",))
            rows = [b.add(row, INT(k), flags=("nsw",)) for k in range(together)]
            self._innermost(b, domain, [[*index, row] for row in rows])

        def single(b: ir.IRBuilder, i: ir.Value) -> None:
            self._nest(b, domain, axis + 1, [*index, i])

        if axis >= self.written_out:
            for k in range(domain[axis]):
                single(b, INT(k))
            return
        if axis == self.written_out - 1 and self._narrow_around(domain):
            self._loop_around(b, domain, axis, index)
            return
        if first is None:
            done = domain[axis] - domain[axis] % together if several else 0
            if several:
                loop(b, done // together, group)
            loop(b, domain[axis] - done, lambda b, i: single(b, b.add(i, INT(done)) if done else i))
            return
        low = first
        if several:
            groups = b.udiv(count, INT(together))
            loop_between(b, INT(0), groups, group)
            low = b.add(first, b.mul(groups, INT(together)))
        loop_between(b, low, b.add(first, count), single)

    def _narrow_around(self, domain: Shape) -> list[np.dtype[Any]]:
        """Of the loop around rows that are written out: dtypes of narrow forms, where each row makes the whole
        of its totals."""
        is_whole = len(self.stored) == len(self.kernel.reductions)
        return narrow_dtypes(self.kernel) if self.written_out < len(domain) and is_whole else []

    def _loop_around(
        self, b: ir.IRBuilder, domain: Shape, axis: int, index: list[ir.Value]
    ) -> None:
        first, count = (self.first, self.count) if axis == 0 else (None, None)

        def rows(b: ir.IRBuilder, i: ir.Value, now: Any, narrow: Narrow | None = None) -> Any:
            self.narrow = narrow
            self._nest(b, domain, axis + 1, [*index, i])
            self.narrow = None
            return now

        step = rows if first is None else from_(first, rows)
        rounds: Any = domain[axis] if count is None else count
        size = BLOCK // prod(domain[axis + 1 :])
        anything = nullcontext() if count is None else b.if_then(b.icmp_signed(">", count, INT(0)))
        with anything:
            loop_in_blocks(b, rounds, size, Totals([], []), step, 0, self._narrow_around(domain))

    def _guard(self, domain: Shape) -> View | None:
        if not domain or (self.count is not None and len(domain) == 1):
            return None
        return condition_of_sums(self.kernel, domain[-1], lambda v: self.strides[id(v)][-1])

    def _if_anything_is_added(self, b: ir.IRBuilder, domain: Shape, index: list[ir.Value]) -> Any:
        view = self._guard(domain)
        if view is None:
            return nullcontext()
        condition = self.entry(b, view.buffer, self.offset(b, view, [*index, INT(0)]))
        return b.if_then(convert(b, condition, view.dtype, np.dtype(bool)))

    def _innermost(self, b: ir.IRBuilder, domain: Shape, rows: list[list[ir.Value]]) -> None:
        """The last loop, over several rows of it together."""
        kernel = self.kernel
        # One running total a row, or one for all of them where they are summed up as well.
        slots = [
            (k, r)
            for k in self.in_register
            for r in range(1 if domain[1:] and self._strides(k)[-2] == 0 else len(rows))
        ]
        carried = [kernel.reductions[k] for k, _ in slots]
        dtypes = [_dtype_of_entries(how, a, v) for how, a, v in carried]
        hows = [how for how, _, _ in carried]
        starts = [start_of(how, t) for how, t in zip(hows, dtypes, strict=True)]

        def body(
            b: ir.IRBuilder,
            i: ir.Value | None,
            totals: list[ir.Value],
            narrow: Narrow | None = None,
        ) -> list[ir.Value]:
            new = dict(zip(slots, totals, strict=True))
            for r, row in enumerate(rows):
                place = row if i is None else [*row, i]
                values = self.entries(b, place, narrow)
                for write in kernel.writes:
                    self.write(b, write, values, place)
                for k, (how, a, view) in enumerate(kernel.reductions):
                    dtype = _dtype_of_entries(how, a, view)
                    v = convert(b, *self.value(b, a, values, dtype), dtype)
                    if k in self.in_register:
                        slot = (k, r) if (k, r) in new else (k, 0)
                        new[slot] = combine(b, how, new[slot], v, dtype)
                    else:
                        self.combine_in_memory(b, how, view, place, v, dtype)
            return list(new.values())

        is_long = bool(domain) and domain[-1] >= LONG_LOOP
        side_by_side = 1
        if len(rows) == 1:
            moved = self._loads_and_stores()
            side_by_side = vectors_under_way(kernel, is_long, bool(carried), moved)
        narrow = narrow_dtypes(kernel) if len(self.in_register) == len(kernel.reductions) else []
        if self._narrow_around(domain):
            narrow = []
        in_blocks = Totals(hows, dtypes)
        size = BLOCK if narrow else TOTAL
        first, count = (self.first, self.count) if len(domain) == 1 else (None, None)
        rounds: Any = domain[-1] if domain and count is None else count
        if self.length is not None:
            rounds = self.length
        behind = left_over(rounds, kernel.views()) if isinstance(rounds, int) else 0
        step = body if first is None else from_(first, body)
        if not domain:
            totals = body(b, None, starts)
        elif narrow or (in_blocks.are_wider and domain[-1] >= 2 * size and len(rows) == 1):
            dtypes = in_blocks.dtypes
            totals = loop_in_blocks(b, rounds, size, in_blocks, step, side_by_side, narrow, behind)
        elif self.written_out < len(domain):
            totals = starts
            for k in range(domain[-1]):
                totals = body(b, INT(k), totals, self.narrow)
        else:
            totals = loop_with(b, rounds, starts, step, side_by_side, behind)
        for (k, r), dtype, total in zip(slots, dtypes, totals, strict=True):
            how, _, view = kernel.reductions[k]
            if k in self.aside:
                address, wide = self.aside[k][1], wide_dtype(how, view.dtype)
                v = combine(b, how, load(b, address, wide), convert(b, total, dtype, wide), wide)
                store(b, v, address, wide)
                continue
            last = [*rows[r], INT(0)] if domain else rows[r]
            if k in self.stored:
                v = convert(b, total, dtype, view.dtype)
                store(b, v, self.address(b, view, last), view.dtype)
            else:
                self.combine_in_memory(b, how, view, last, total, dtype)
        for row in rows:
            for end in self.ends:
                end.entries(b, [*row, INT(0)])

    def _loads_and_stores(self) -> int:
        """How many a vector of entries takes; what lies apart is loaded or stored number by number."""
        views = [*self.kernel.loads.values(), *[view for _, view in self.kernel.stores]]
        steps = [abs(s[-1]) for v in views if (s := self.strides[id(v)])]
        return sum(APART if step > 1 else step for step in steps)

    def _strides(self, k: int) -> tuple[int, ...]:
        return self.strides[id(self.kernel.reductions[k][2])]


def _dtype_of_entries(how: str, a: Any, view: View) -> np.dtype[Any]:
    """What entries are combined in on their way to a total that stands in `view`."""
    return entry_dtype(how, a.dtype if type(a) is Var else None, view.dtype)


def starting(kernel: Kernel) -> list[tuple[str, View]]:
    """What a kernel sums up or adds to, and how: it begins with what that starts from."""
    sums = [] if kernel.adds else [(how, view) for how, _, view in kernel.reductions]
    return sums + [(w.how, w.place.view) for w in kernel.writes if w.fresh]


def from_(first: ir.Value, body: Any) -> Any:
    """The body of a loop that begins with round `first`."""
    return lambda b, i, *state: body(b, b.add(first, i, flags=("nsw",)), *state)
