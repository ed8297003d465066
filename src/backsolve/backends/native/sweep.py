"""A sweep: one loop over slices, with all its steps done on each (see cutting.py for which and why).

It is emitted as a function of its own, `body(context, low, high, worker)`, over a range of slices: so
several workers can share them. Arrays that live only inside have one slice of memory per worker; sums
over the slices are gathered there, and put together in the order of the workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from . import cutting, threads
from .arena import lay_out
from .attention import Attention
from .cutting import Plan, Put, find_plan, one_by_one
from .elementwise import start_of
from .entry import ALIGNMENT
from .failure import CODE, FINE, call_step
from .functions import keep_apart
from .gathering import add_others, copy_first
from .kernel import Kernel
from .nests import fill
from .numbers.registers import memory_type
from .repeat import loop_between
from .row_ends import with_row_ends
from .share_out import Shared, most_workers, share_out
from .steps import INT, POINTER, Pointers, Site, Step
from .totals import wide_dtype
from .views import Buffer, View

LONG = 200e-6  # seconds, by a careful estimate, from which several workers share a sweep


def with_sweeps(steps: Sequence[Step]) -> list[Step]:
    """The same steps, with runs of them made into sweeps where that keeps arrays in the cache."""
    users: dict[Buffer, list[int]] = {}
    for k, step in enumerate(steps):
        for buffer in step.buffers():
            users.setdefault(buffer, []).append(k)
    traffic = [sum(x.nbytes for x in step.buffers()) for step in steps]
    left = sum(traffic)
    out: list[Step] = []
    at = 0
    while at < len(steps):
        plan = find_plan(steps, at, users) if left >= cutting.LARGE else None
        if plan is None and isinstance(steps[at], Attention):
            plan = one_by_one(steps[at], {x for x in users if users[x] != [at]})
        if plan is not None:
            out.append(Sweep(plan))
        else:
            step = steps[at]
            shared = share_out(step) if isinstance(step, Kernel) and step.seconds > LONG else None
            out.append(shared or step)
        done = at + (len(plan.steps) if plan is not None else 1)
        left -= sum(traffic[at:done])
        at = done
    return with_row_ends(out)


def rooms(steps: Sequence[Step]) -> list[Buffer]:
    """The memory that workers have to themselves."""
    found = [x.room for x in steps if isinstance(x, Sweep | Shared)]
    return [x for x in found if x is not None]


def flat(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps, those inside others too."""
    for step in steps:
        if step.inner_steps():
            yield from flat(step.inner_steps())
        else:
            yield step


class Sweep(Step):
    def __init__(self, plan: Plan):
        self.counts = plan.counts
        self.count = prod(plan.counts)
        self.parts: dict[Buffer, tuple[Buffer, tuple[int, ...]]] = {}  # (of what, its moves)
        self.sums: list[tuple[str, Buffer, Buffer]] = []  # how, the worker's own, the whole
        self.locals = plan.locals()
        self._known: dict[Any, Buffer] = {}
        self.chunk, self.rows = plan.chunk, prod(plan.lead)
        put = self._putter(plan.chunk)
        shorter = self._putter(plan.rest)
        whole = lambda x: self.parts[x][0] if x in self.parts else x
        cut = [step.cut(plan.lead, plan.chunk, put) for step in plan.steps]
        self.steps = with_row_ends(cut, whole)
        # The rows that are left over make a last slice, done by whoever does the last but one.
        cut = [step.cut(plan.lead, plan.rest, shorter) for step in plan.steps if plan.rest]
        self.last = with_row_ends(cut, whole)
        for buffer in self.locals:
            buffer.kind, buffer.size = "local", buffer.size // self.rows * plan.chunk
        mine = [*self.locals, *[own for _, own, _ in self.sums]]
        once = _Once([own for _, own, _ in self.sums])  # sums live from the first slice to the last
        size = lay_out([once, *self.steps, once], mine)
        self.local_bytes = -(-size // ALIGNMENT) * ALIGNMENT
        self.workers = most_workers() if self.seconds > LONG and self.count > 1 else 1
        self.room = Buffer("arena", self.workers * self.local_bytes, np.dtype(np.uint8))

    def _putter(self, rows: int) -> Put:
        """What makes a view of the first slice, of so many rows, a view of any slice."""

        def put(view: View, moves: tuple[int, ...], role: str) -> View:
            buffer = view.buffer
            if buffer in self.locals:
                return view
            if role not in ("read", "write"):
                return View(self._own(role, buffer), view.imaginary)
            if not any(moves):
                return view
            moves = (*moves[:-1], moves[-1] // rows * self.chunk)
            key = (buffer, moves, rows)
            if key not in self._known:
                size = buffer.size // self.rows * rows if role == "write" else buffer.size
                self._known[key] = Buffer("part", size, buffer.dtype)
                self.parts[self._known[key]] = (buffer, moves)
            return View(self._known[key], view.imaginary)

        return put

    def _own(self, how: str, whole: Buffer) -> Buffer:
        """Where a worker gathers its share of a sum."""
        for _, own, known in self.sums:
            if known is whole:
                return own
        dtype = whole.dtype
        if how == "total":
            how, dtype = "add", wide_dtype("add", dtype)
        own = Buffer("local", whole.size, dtype)
        self.sums.append((how, own, whole))
        return own

    def buffers(self) -> list[Buffer]:
        room = [self.room] if hasattr(self, "room") else []
        found = dict.fromkeys([*room, *[whole for _, _, whole in self.sums]])
        for step in self.steps:
            for buffer in step.buffers():
                whole = self.parts[buffer][0] if buffer in self.parts else buffer
                if whole.kind != "local":
                    found[whole] = None
        return list(found)

    def inner_steps(self) -> Sequence[Step]:
        return self.steps

    @property
    def flops(self) -> int:
        return sum(self.count * s.flops for s in self.steps) + sum(s.flops for s in self.last)

    def describe(self) -> str:
        inner = "\n".join(f"     {step.describe()}" for step in self.steps)
        rest = f" and {self.rows - self.count * self.chunk} rows" if self.last else ""
        return f"sweep over {list(self.counts)} slices{rest}:\n{inner}"

    # ---- emission

    def emit(self, site: Site) -> None:
        b = site.b
        body = self._emit_body(site)
        with b.goto_entry_block():
            context = b.alloca(POINTER, size=2)
        b.store(b.bitcast(site.pointers.table, POINTER), context)
        b.store(site.pointers.arena, b.gep(context, [INT(1)]))
        given = b.bitcast(context, POINTER)
        slices, workers = INT(self.count), INT(1)
        if self.workers == 1:
            call_step(b, body, [given, INT(0), slices, INT(0)])
        else:
            workers = b.call(threads.workers(site.module), [slices, INT(self.workers)])
            call_step(b, threads.ranges(site.module), [body, given, slices, workers])
        for how, own, whole in self.sums:
            self._gather(site, how, own, whole, workers)

    def _gather(self, site: Site, how: str, own: Buffer, whole: Buffer, workers: ir.Value) -> None:
        """The whole sum, from the workers' own: first the first one's, then the others' on top."""
        b = site.b
        target, place = site.base(whole), self.room.offset + own.offset
        first = b.gep(site.pointers.arena, [INT(place)])
        copy_first(b, target, whole, first, own.dtype)
        if self.workers > 1:
            second = b.gep(first, [INT(self.local_bytes)])
            others = second, self.local_bytes, b.sub(workers, INT(1))
            add_others(b, how, target, whole, others, own.dtype)

    def _emit_body(self, site: Site) -> ir.Function:
        kind = ir.FunctionType(CODE, [POINTER, INT, INT, INT])
        function = ir.Function(site.module, kind, f"{site.name}_sweep")
        function.linkage = "internal"
        keep_apart(function)
        context, low, high, worker = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        given = b.bitcast(context, POINTER.as_pointer())
        table = b.bitcast(b.load(given), POINTER.as_pointer())
        arena = b.load(b.gep(given, [INT(1)]))
        mine = b.gep(arena, [b.add(INT(self.room.offset), b.mul(worker, INT(self.local_bytes)))])
        pointers = Pointers(b, table, arena, site.pointers.first)
        places = {
            x: b.bitcast(b.gep(mine, [INT(x.offset)]), memory_type(x.dtype).as_pointer())
            for x in [*self.locals, *[own for _, own, _ in self.sums]]
        }
        entry = b.block
        b.position_at_end(function.append_basic_block("body"))
        first = b.block
        for how, own, _ in self.sums:
            fill(b, places[own], own, start_of(how, own.dtype))

        def emit_slice(b: ir.IRBuilder, t: ir.Value, steps: list[Step], name: str) -> None:
            self._emit_slice(b, t, pointers, places, replace(site, name=name), steps)

        loop_between(b, low, high, lambda b, t: emit_slice(b, t, self.steps, site.name))
        if self.last:
            with b.if_then(b.icmp_signed("==", high, INT(self.count))):
                emit_slice(b, INT(self.count), self.last, f"{site.name}_last")
        b.ret(FINE)
        b.position_at_end(entry)
        b.branch(first)
        return function

    def _emit_slice(
        self,
        b: ir.IRBuilder,
        t: ir.Value,
        pointers: Pointers,
        places: dict[Buffer, ir.Value],
        site: Site,
        steps: list[Step],
    ) -> None:
        index: list[ir.Value] = []
        rest = t
        for n in reversed(self.counts[1:]):
            index.insert(0, b.urem(rest, INT(n)))
            rest = b.udiv(rest, INT(n))
        index.insert(0, rest)
        here = dict(places)
        for part, (whole, moves) in self.parts.items():
            at: ir.Value = INT(0)
            for i, m in zip(index, moves, strict=True):
                at = b.add(at, b.mul(i, INT(m))) if m else at
            here[part] = b.gep(pointers.base(whole), [at])

        def base(buffer: Buffer) -> ir.Value:
            return here[buffer] if buffer in here else pointers.base(buffer)

        for k, step in enumerate(steps):
            step.emit(Site(b, f"{site.name}_{k}", site.numbers, base, pointers))


class _Once(Step):
    """Stands before and after the slices in the layout: what must live through all of them."""

    def __init__(self, buffers: list[Buffer]):
        self._buffers = buffers

    def buffers(self) -> list[Buffer]:
        return self._buffers

    def emit(self, site: Site) -> None:
        """Nothing: it is never emitted."""

    def describe(self) -> str:
        return ""
