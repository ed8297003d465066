"""Loops whose rounds work on arrays: the body is a function, called once a round.

What is carried lies in memory of its own, which each round overwrites. Entry k of a sequence is read where
it lies, and an entry of a new sequence is written where it will stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ....ir import Equation, type_of
from ....regions import INDEX, Loop
from ..failure import fail_if
from ..numbers.integer import while_
from ..numbers.registers import convert, load
from ..steps import INT, POINTER, Site, Step
from ..views import Buffer, View
from .inside import Inside, in_memory, known_number, owned
from .region import Call, Region

if TYPE_CHECKING:
    from ..schedule import Schedule

GUESS = 1000  # rounds, where they are not known
BYTE, BIT = ir.IntType(8), ir.IntType(1)


@dataclass(eq=False)
class LoopStep(Step):
    loop: Loop
    body: Region
    goes_on: Region | None
    count: int | View | None
    carried: list[View]
    sequences: dict[int, View]  # by their place among the inputs of the body
    made: dict[int, View]  # by their place among its outputs
    rounds: View
    rooms: list[View]  # of the body, of goes_on and its answer
    beyond: int | None  # the failure if there are more rounds than entries; None if there cannot be

    def buffers(self) -> list[Buffer]:
        views = [*self.carried, *self.sequences.values(), *self.made.values(), self.rounds]
        views += [*self.rooms, *([self.count] if isinstance(self.count, View) else [])]
        regions = [self.body, *([self.goes_on] if self.goes_on is not None else [])]
        lifted = [x for r in regions for x in r.lifted()]
        return list(dict.fromkeys([*[v.buffer for v in views], *lifted]))

    @property
    def guessed(self) -> int:
        return self.count if isinstance(self.count, int) else GUESS

    def inner_steps(self) -> list[Step]:
        return [*self.body.steps, *(self.goes_on.steps if self.goes_on is not None else ())]

    @property
    def flops(self) -> int:
        return self.guessed * sum(step.flops for step in self.inner_steps())

    @property
    def seconds(self) -> float:
        return self.guessed * sum(step.seconds for step in self.inner_steps())

    def describe(self) -> str:
        how = "loop" if self.goes_on is None else "loop while"
        often = f" of {self.count} rounds" if isinstance(self.count, int) else ""
        test = f"{self.goes_on.describe()}\n   do\n" if self.goes_on is not None else ""
        return f"{how}{often}:\n{test}{self.body.describe()}"

    # ---- emission

    def emit(self, site: Site) -> None:
        b = site.b
        with b.goto_entry_block():
            k_place = b.alloca(INT)
        count = self._count(site)
        if self.beyond is not None:
            shortest = min(v.shape[0] for v in self.sequences.values())
            fail_if(b, b.icmp_signed(">", count, INT(shortest)), self.beyond)
        body = Call(site, self.body, self.rooms[0], "body")
        test = None
        if self.goes_on is not None:
            test = Call(site, self.goes_on, self.rooms[1], "goes_on")
            test.take(0, site.base(self.rooms[2].buffer))
        for call in (body, *([test] if test is not None else [])):
            call.give(0, k_place)
            for j, view in enumerate(self.carried):
                call.give(1 + j, site.base(view.buffer))

        def condition(b: ir.IRBuilder, i: ir.Value) -> ir.Value:
            within = BIT(1) if count is None else b.icmp_signed("<", i, count)
            if test is None:
                return within
            before = b.block
            with b.if_then(within, likely=True):
                b.store(self._number(b, i, count), k_place)
                test.run()
                answer = load(b, site.base(self.rooms[2].buffer), np.dtype(bool))
                behind = b.block
            result = b.phi(BIT)
            result.add_incoming(BIT(0), before)
            result.add_incoming(answer, behind)
            return result

        def one_round(b: ir.IRBuilder, i: ir.Value) -> list[ir.Value]:
            k = self._number(b, i, count)
            b.store(k, k_place)
            for place, view in self.sequences.items():
                step = INT(view.strides[0]) if view.shape[0] > 1 else INT(0)
                body.give(place, b.gep(site.base(view.buffer), [b.mul(k, step)]))
            for place, view in self.made.items():
                body.take(place, b.gep(site.base(view.buffer), [b.mul(k, INT(_entry(view)))]))
            body.run()
            return [b.add(i, INT(1), flags=("nsw", "nuw"))]

        (rounds,) = while_(b, [INT(0)], condition, one_round)
        b.store(rounds, site.base(self.rounds.buffer))
        if self.loop.count is not None and (test is not None or self.loop.counted):
            self._zero_the_rest(site, rounds, count)

    def _count(self, site: Site) -> ir.Value | None:
        if not isinstance(self.count, View):
            return None if self.count is None else INT(self.count)
        found = load(site.b, site.address(self.count), self.count.dtype)
        return convert(site.b, found, self.count.dtype, INDEX.dtype)

    def _number(self, b: ir.IRBuilder, i: ir.Value, count: Any) -> ir.Value:
        """Of the i-th round."""
        return b.sub(b.sub(count, INT(1)), i) if self.loop.reverse else i

    def _zero_the_rest(self, site: Site, rounds: ir.Value, count: ir.Value) -> None:
        """Entries that no round has made: behind the last one, and before the first if it goes back."""
        b = site.b
        memset = site.module.declare_intrinsic("llvm.memset", [POINTER, INT])
        start = b.sub(count, rounds) if self.loop.reverse else INT(0)
        end = b.add(start, rounds)
        for view in self.made.values():
            size = INT(_entry(view) * view.dtype.itemsize)
            base = b.bitcast(site.base(view.buffer), POINTER)
            for low, high in ((INT(0), start), (end, INT(view.shape[0]))):
                first, length = b.mul(low, size), b.mul(b.sub(high, low), size)
                b.call(memset, [b.gep(base, [first]), BYTE(0), length, BIT(0)])


def _entry(view: View) -> int:
    """The size of an entry of a sequence that lies in one piece."""
    return view.buffer.size // max(view.shape[0], 1)


def lower_loop(schedule: Schedule, e: Equation) -> None:
    loop: Loop = e.params["region"]
    count, carried, fixed, sequences = loop.split(e.inputs)
    if loop.counted:
        known = known_number(schedule, count, INDEX.dtype)
        count = schedule.view_of(count) if known is None else max(int(known), 0)
    known = [n for n in (count, loop.count) if isinstance(n, int)]
    most = float(min(known)) if known else np.inf
    body = loop.body
    types = [in_memory(v.type) for v in body.inputs]
    atoms = [*carried, *fixed, *sequences]
    memory = []
    for j, a in enumerate(carried):
        memory.append(owned(schedule, a, types[1 + j], [*atoms[:j], *atoms[j + 1 :]]))
    first = 1 + len(carried)
    inputs: dict[int, Any] = {}
    ranges = {0: (0.0, max(most - 1, 0.0))}
    for k, a in enumerate(atoms[len(carried) :], first):
        number = known_number(schedule, a, types[k].dtype)
        inputs[k] = schedule.view_of(a) if number is None else number
        ranges[k] = schedule.range_of(a)
    given = {k: v for k, v in inputs.items() if k < first + len(fixed) or not isinstance(v, View)}
    walked = {
        k: v if v.buffer.kind != "ramp" else schedule.in_memory(a)
        for (k, v), a in zip(inputs.items(), atoms[len(carried) :], strict=True)
        if k not in given
    }
    outs = [in_memory(type_of(a)) for a in body.outputs]
    outs[: len(carried)] = types[1:first]
    inside = Inside(
        schedule.root,
        outs,
        schedule,
        given,
        {k: _first_entry(v) for k, v in walked.items()},
        {j: 1 + j for j in range(len(carried))},
        ranges,
    )
    region = Region(body, inside)
    rooms = [schedule.new_buffer((region.arena_bytes,), np.dtype(np.uint8))]
    test = None
    if loop.goes_on is not None:
        answer = np.dtype(bool)
        still = {k: v for k, v in given.items() if k < first + len(fixed)}
        surroundings = Inside(
            schedule.root, [in_memory(type_of(loop.goes_on.outputs[0]))], schedule, still
        )
        test = Region(loop.goes_on, surroundings)
        rooms.append(schedule.new_buffer((test.arena_bytes,), np.dtype(np.uint8)))
        rooms.append(schedule.new_buffer((), answer))
    made = {}
    for k in range(len(carried), len(outs)):
        t = loop.sequence(outs[k])
        if t.is_stack:
            raise schedule.unsupported("a loop that makes a stack")
        made[k] = schedule.new_buffer(t.shape, t.dtype)
    rounds = schedule.new_buffer((), INDEX.dtype)
    beyond = None
    if isinstance(count, View) and walked:
        n = min(v.shape[0] for v in walked.values())
        message = f"a loop runs beyond the {n} entries of its sequence"
        beyond = schedule.fail(IndexError, message)
    step = LoopStep(loop, region, test, count, memory, walked, made, rounds, rooms, beyond)
    schedule.steps.append(step)
    for var, view in zip(e.outputs, [*memory, *made.values(), rounds], strict=True):
        schedule.views[var] = view
        schedule.ready[view.buffer] = len(schedule.steps) - 1


def _first_entry(view: View) -> View:
    """How an entry of a sequence lies, seen from where its pointer points."""
    if not view.shape[0]:
        return View.whole(view.buffer, view.shape[1:])
    return view.with_(view.imaginary[0])
