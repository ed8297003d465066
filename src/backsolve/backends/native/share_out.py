"""One long kernel, its rounds shared out among workers.

Each worker does a range of the rounds of the outermost loop. That is allowed where a round writes entries that
no other round touches: by stores that move on with the rounds, or at indices one of which counts them. Where
memory is read through indices does not matter, as long as nobody writes there. Sums over the rounds, and what
is added at indices that may meet, are gathered by each worker in memory of its own: the first one's is the
array itself, the others' are added to it in the order of the workers.

Ranges are multiples of a block of rounds, so that vectors, and the blocks of narrow forms, are the same for any
number of workers. So are failures: workers note which of them happened, and the first one in the kernel's own
order is raised.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from . import threads
from .cutting import GATHERED
from .elementwise import start_of
from .entry import ALIGNMENT
from .failure import CODE, FINE, fail_if
from .functions import keep_apart
from .gathering import add_others
from .indexing import Write
from .kernel import Kernel
from .loops import starting
from .narrowing import BLOCK, narrow_dtypes
from .nests import TOGETHER, fill, walk
from .numbers.registers import clear, is_zero, memory_type
from .sharing import BYTE, part_function
from .steps import INT, POINTER, Site, Step
from .views import Buffer, View

MOST = 64
ROUNDS = 64  # of a single loop: ranges are multiples of this
FEW = 8  # rounds for each entry that they add to, from which on workers gather these by themselves
WORD = ir.IntType(32)


def most_workers() -> int:
    """How many workers a step has memory for: at least as many as there are now."""
    return min(max(threads.get_threads(), os.cpu_count() or 1), MOST)


def share_out(kernel: Kernel) -> Shared | None:
    """The kernel for several workers, or None if its rounds are not free of each other."""
    domain, strides = walk(kernel, kernel.views())
    if not domain or prod(domain) == 0 or domain[0] == 1:
        return None
    gathered = _Rounds(kernel, strides).gathered()
    if gathered is None:
        return None
    block = TOGETHER
    if len(domain) == 1:
        block = BLOCK if narrow_dtypes(kernel) else ROUNDS
    return Shared(kernel, domain[0], block, gathered) if domain[0] > block else None


@dataclass(frozen=True)
class _Touch:
    """A view, as the rounds of the merged loops walk it."""

    view: View
    strides: tuple[int, ...]
    writes: bool

    @property
    def place(self) -> tuple[int, tuple[int, ...]]:
        return self.view.offset, self.strides


class _Rounds:
    """Which entries the rounds of a kernel's outermost loop touch."""

    def __init__(self, kernel: Kernel, strides: Sequence[tuple[int, ...]]):
        self.kernel = kernel
        self.domain, _ = walk(kernel, kernel.views())
        self.strides = {id(v): s for v, s in zip(kernel.views(), strides, strict=True)}

    def gathered(self) -> dict[Buffer, str] | None:
        """What every worker sums up by itself, and how; None if rounds get in each other's way."""
        kernel = self.kernel
        found: dict[Buffer, str] = {}
        touches = [self.touch(v, False) for v in kernel.loads.values()]
        touches += [self.touch(v, True) for _, v in kernel.stores]
        for how, _, view in kernel.reductions:
            if self.strides[id(view)][0]:
                touches.append(self.touch(view, True))
            elif how == "mul" or view.buffer in found or view.offset:
                return None  # products are taken in order
            elif view.buffer.nbytes > GATHERED:
                return None
            else:
                found[view.buffer] = how
        for write in kernel.writes:
            buffer = write.place.view.buffer
            if not self.counts_rounds(write):
                few = buffer.nbytes <= GATHERED and buffer.size * FEW <= prod(self.domain)
                if write.how == "set" or not few or buffer in found:
                    return None
                found[buffer] = write.how
        read = {p.view.buffer for p in kernel.reads.values()}  # anywhere
        stored = {t.view.buffer for t in touches if t.writes}
        apart = {*found, *[w.place.view.buffer for w in kernel.writes]}
        if stored & read or apart & {*read, *[t.view.buffer for t in touches]}:
            return None
        return found if all(self.are_apart(stored, t, touches) for t in touches) else None

    def touch(self, view: View, writes: bool) -> _Touch:
        return _Touch(view, self.strides[id(view)], writes)

    def counts_rounds(self, write: Write) -> bool:
        """Whether some index of a write is the round itself, but for a factor and an offset."""
        for axis in write.place.axes:
            view = self.kernel.loads.get(axis.index)
            if (
                view is not None
                and view.buffer.kind == "ramp"
                and not axis.wraps
                and axis.code is None
            ):
                first, *rest = self.strides[id(view)]
                if first and not any(rest):
                    return True
        return False

    def are_apart(self, written: set[Buffer], t: _Touch, touches: list[_Touch]) -> bool:
        """Whether what a round touches by `t` is left alone by other rounds."""
        if t.view.buffer not in written:
            return True
        if t.writes and not self.is_one_to_one(t):
            return False
        others = [x for x in touches if x.view.buffer is t.view.buffer and x is not t]
        return all(
            x.place == t.place or self.never_meet(t, x) for x in others if t.writes or x.writes
        )

    def is_one_to_one(self, t: _Touch) -> bool:
        """Whether no two rounds reach the same entry."""
        reach = 0
        for step, n in sorted(
            (abs(s), n) for s, n in zip(t.strides, self.domain, strict=True) if s
        ):
            if step <= reach:
                return False
            reach += step * (n - 1)
        return t.strides[0] != 0

    def never_meet(self, a: _Touch, b: _Touch) -> bool:
        """Whether different rounds of the two reach different entries."""
        (low, high), (first, last) = self.span(a, 0), self.span(b, 0)
        if high < first or last < low:
            return True
        spans = [*self.span(a, 1), *self.span(b, 1)]
        return a.strides[0] == b.strides[0] and max(spans) - min(spans) < abs(a.strides[0])

    def span(self, t: _Touch, axis: int) -> tuple[int, int]:
        """The first and the last entry of all places along the axes from `axis` on."""
        ways = [s * (n - 1) for s, n in zip(t.strides[axis:], self.domain[axis:], strict=True)]
        start = t.view.offset
        return start + sum(w for w in ways if w < 0), start + sum(w for w in ways if w > 0)


class Shared(Step):
    def __init__(self, kernel: Kernel, rounds: int, block: int, gathered: dict[Buffer, str]):
        self.kernel, self.rounds, self.block, self.gathered = kernel, rounds, block, gathered
        self.places: dict[Buffer, int] = {}  # of what is gathered, in a worker's own memory
        size = 0
        for buffer in gathered:
            self.places[buffer] = size
            size += -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT
        self.workers, self.own_bytes = most_workers(), size
        size *= self.workers - 1
        self.room = Buffer("arena", size, np.dtype(np.uint8)) if size else None

    def buffers(self) -> list[Buffer]:
        return [*self.kernel.buffers(), *([self.room] if self.room is not None else [])]

    def inner_steps(self) -> Sequence[Step]:
        return (self.kernel,)

    @property
    def is_shared(self) -> bool:
        return True

    @property
    def flops(self) -> int:
        return self.kernel.flops

    def describe(self) -> str:
        return f"shared among threads: {self.kernel.describe()}"

    # ---- emission

    def emit(self, site: Site) -> None:
        b = site.b
        for k, (how, view) in enumerate(starting(self.kernel)):
            self._begin(replace(site, name=f"{site.name}_start_{k}"), how, view.buffer)
        part, codes, pointers = part_function(self.kernel, site, self.block)
        rooms = [site.base(self.room)] if self.room is not None else []
        notes = []
        if self.kernel.can_fail:
            with b.goto_entry_block():
                notes.append(b.alloca(BYTE, size=INT(max(len(codes), 1))))
            for k in range(len(codes)):
                b.store(BYTE(0), b.gep(notes[0], [INT(k)]))
        values = [*pointers, *notes, *rooms, INT(self.rounds)]
        table = ir.LiteralStructType([v.type for v in values])
        with b.goto_entry_block():
            context = b.alloca(table)
        for k, value in enumerate(values):
            b.store(value, b.gep(context, [WORD(0), WORD(k)]))
        blocks = INT(-(-self.rounds // self.block))
        body = self._emit_body(site, part, table, len(pointers))
        workers = b.call(threads.workers(site.module), [blocks, INT(self.workers)])
        b.call(threads.ranges(site.module), [body, b.bitcast(context, POINTER), blocks, workers])
        for k, code in enumerate(codes):
            happened = b.load(b.gep(notes[0], [INT(k)]))
            fail_if(b, b.icmp_unsigned("!=", happened, BYTE(0)), code)
        for buffer in self.gathered:
            self._gather(site, buffer, workers)

    def _begin(self, site: Site, how: str, buffer: Buffer) -> None:
        start = start_of(how, buffer.dtype)
        if is_zero(start):
            clear(site.b, site.base(buffer), buffer.nbytes)
        else:
            site.in_function([buffer], lambda b, p: fill(b, p[buffer], buffer, start))

    def _emit_body(self, site: Site, part: Any, table: ir.Type, pointers: int) -> ir.Function:
        """body(context, low, high, worker): rounds of some blocks. One for all kernels that share a part."""
        kind = ir.FunctionType(CODE, [POINTER, INT, INT, INT])
        name = f"{part.name}_rounds"
        if name in site.module.globals:
            return site.module.globals[name]
        function = ir.Function(site.module, kind, name)
        function.linkage = "internal"
        keep_apart(function)
        context, low, high, worker = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        given = b.load(b.bitcast(context, table.as_pointer()))
        values = [b.extract_value(given, k) for k in range(len(table.elements))]
        rounds = values.pop()
        rooms = [values.pop()] if self.room is not None else []
        is_first = b.icmp_signed("==", worker, INT(0))
        for k, buffer in enumerate(self.kernel.buffers()[:pointers]):
            if buffer in self.gathered:
                own = self._own(b, rooms[0], buffer, worker)
                with b.if_then(b.not_(is_first)):
                    fill(b, own, buffer, start_of(self.gathered[buffer], buffer.dtype))
                values[k] = b.select(is_first, values[k], own)
        first = b.mul(low, INT(self.block), flags=("nsw",))
        last = b.mul(high, INT(self.block), flags=("nsw",))
        stop = b.select(b.icmp_signed(">", last, rounds), rounds, last)
        b.call(part, [*values[:pointers], first, stop, *values[pointers:]])
        b.ret(FINE)
        return function

    def _own(self, b: ir.IRBuilder, room: ir.Value, buffer: Buffer, worker: ir.Value) -> ir.Value:
        """Where a worker but the first gathers what is added to a buffer."""
        at = b.mul(b.sub(worker, INT(1)), INT(self.own_bytes))
        raw = b.gep(room, [b.add(at, INT(self.places[buffer]))])
        return b.bitcast(raw, memory_type(buffer.dtype).as_pointer())

    def _gather(self, site: Site, buffer: Buffer, workers: ir.Value) -> None:
        """On top of the first worker's sum the others'."""
        if self.room is None:
            return
        b = site.b
        first = b.gep(site.base(self.room), [INT(self.places[buffer])])
        others = first, self.own_bytes, b.sub(workers, INT(1))
        add_others(b, self.gathered[buffer], site.base(buffer), buffer, others, buffer.dtype)
