"""Loops whose rounds work on arrays: the body is a function, called once a round.

What is carried lies in memory of its own, which each round overwrites. Entry k of a sequence is read where
it lies, and an entry of a new sequence is written where it will stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ....ir import Equation, Type, type_of
from ....regions import INDEX, Loop
from ..failure import fail_if
from ..numbers.integer import while_
from ..numbers.registers import convert, load
from ..steps import INT, POINTER, Site, Step
from ..views import Buffer, View
from .inside import Inside, in_memory, known_number, owned
from .region import Call, Region
from .tapes import NO_MEMORY, NewTape, Tape

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
    sequences: dict[int, View | Tape]  # by their place among the inputs of the body
    made: dict[int, View | NewTape]  # by their place among its outputs
    rounds: View
    rooms: list[View]  # of the body, of goes_on and its answer
    beyond: int | None  # the failure if there are more rounds than entries; None if there cannot be

    def buffers(self) -> list[Buffer]:
        walked = [*self.sequences.values(), *self.made.values()]
        views = [*self.carried, *[x.words if isinstance(x, Tape) else x for x in walked]]
        views += [self.rounds, *self.rooms]
        views += [self.count] if isinstance(self.count, View) else []
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

    def emit(self, site: Site) -> None:
        _Rounds(self, site).emit()


class _Rounds:
    """The emission of a loop."""

    def __init__(self, step: LoopStep, site: Site):
        self.step, self.site, self.b = step, site, site.b
        with self.b.goto_entry_block():
            self.k_place = self.b.alloca(INT)
        self.count = self._count()
        self._look_at_lengths()
        self.body = Call(site, step.body, step.rooms[0], "body")
        self.test: Call | None = None
        if step.goes_on is not None:
            self.test = Call(site, step.goes_on, step.rooms[1], "goes_on")
            self.test.take(0, site.base(step.rooms[2].buffer))
        for call in (self.body, *([self.test] if self.test is not None else [])):
            call.give(0, self.k_place)
            for j, view in enumerate(step.carried):
                call.give(1 + j, site.base(view.buffer))

    def emit(self) -> None:
        step, site, b = self.step, self.site, self.b
        for tape in [x for x in step.sequences.values() if isinstance(x, Tape)]:
            tape.open(site)
        self.new = [x for x in step.made.values() if isinstance(x, NewTape)]
        self.grows = step.loop.goes_on is not None or self.count is None
        for tape in self.new:
            tape.open(site, None if self.grows else self.count)
        self.clean = step.body.cleaner(site)
        (rounds,) = while_(b, [INT(0)], self._condition, self._round)
        b.store(rounds, site.base(step.rounds.buffer))
        for tape in self.new:
            tape.close(site, rounds)
        if step.loop.count is not None and (self.test is not None or step.loop.counted):
            self._zero_the_rest(rounds)

    def _condition(self, b: ir.IRBuilder, i: ir.Value) -> ir.Value:
        within = BIT(1) if self.count is None else b.icmp_signed("<", i, self.count)
        if self.test is None:
            return within
        before = b.block
        with b.if_then(within, likely=True):
            b.store(self._number(i), self.k_place)
            self.test.run()
            answer = load(b, self.site.base(self.step.rooms[2].buffer), np.dtype(bool))
            behind = b.block
        result = b.phi(BIT)
        result.add_incoming(BIT(0), before)
        result.add_incoming(answer, behind)
        return result

    def _round(self, b: ir.IRBuilder, i: ir.Value) -> list[ir.Value]:
        base = self.site.base
        k = self._number(i)
        b.store(k, self.k_place)
        for place, x in self.step.sequences.items():
            if isinstance(x, Tape):
                self.body.give(place, x.place(b, k))
            else:
                step = INT(x.strides[0]) if x.shape[0] > 1 else INT(0)
                self.body.give(place, b.gep(base(x.buffer), [b.mul(k, step)]))
        for place, y in self.step.made.items():
            if isinstance(y, NewTape):
                if self.grows:
                    y.grow(b, i)
                self.body.take(place, y.place(b, k))
            else:
                self.body.take(place, b.gep(base(y.buffer), [b.mul(k, INT(_entry(y)))]))
        self.body.run()
        self.clean()
        return [b.add(i, INT(1), flags=("nsw", "nuw"))]

    def _count(self) -> ir.Value | None:
        count = self.step.count
        if not isinstance(count, View):
            return None if count is None else INT(count)
        found = load(self.b, self.site.address(count), count.dtype)
        return convert(self.b, found, count.dtype, INDEX.dtype)

    def _look_at_lengths(self) -> None:
        """A number of rounds that is only known now may not exceed the entries there are."""
        lengths = [x.shape[0] for x in self.step.sequences.values() if isinstance(x, View)]
        if self.step.beyond is not None:
            outside = self.b.icmp_signed(">", self.count, INT(min(lengths)))
            fail_if(self.b, outside, self.step.beyond)

    def _number(self, i: ir.Value) -> ir.Value:
        """Of the i-th round."""
        return self.b.sub(self.b.sub(self.count, INT(1)), i) if self.step.loop.reverse else i

    def _zero_the_rest(self, rounds: ir.Value) -> None:
        """Entries that no round has made: behind the last one, and before the first if it goes back."""
        b = self.b
        memset = self.site.module.declare_intrinsic("llvm.memset", [POINTER, INT])
        start = b.sub(self.count, rounds) if self.step.loop.reverse else INT(0)
        end = b.add(start, rounds)
        for view in [y for y in self.step.made.values() if isinstance(y, View)]:
            size = INT(_entry(view) * view.dtype.itemsize)
            base = b.bitcast(self.site.base(view.buffer), POINTER)
            for low, high in ((INT(0), start), (end, INT(view.shape[0]))):
                first, length = b.mul(low, size), b.mul(b.sub(high, low), size)
                b.call(memset, [b.gep(base, [first]), BYTE(0), length, BIT(0)])


def _entry(view: View) -> int:
    """The size of an entry of a sequence that lies in one piece."""
    return view.buffer.size // max(view.shape[0], 1)


def lower_loop(schedule: Schedule, e: Equation) -> None:
    loop: Loop = e.params["region"]
    if loop.reverse and loop.goes_on is not None and loop.count is None:
        raise schedule.unsupported("a loop that goes back from where nobody knows")
    count, carried, fixed, sequences = loop.split(e.inputs)
    if loop.counted:
        number = known_number(schedule, count, INDEX.dtype)
        count = schedule.in_memory(count) if number is None else max(int(number), 0)
    most = min([float(n) for n in (count, loop.count) if isinstance(n, int)], default=np.inf)
    types = [in_memory(v.type) for v in loop.body.inputs]
    atoms = [*carried, *fixed, *sequences]
    memory = [
        owned(schedule, a, types[1 + j], [*atoms[:j], *atoms[j + 1 :]])
        for j, a in enumerate(carried)
    ]
    first, last = 1 + len(carried), 1 + len(carried) + len(fixed)
    given: dict[int, Any] = {}
    walked: dict[int, View | Tape] = {}
    ranges = {0: (0.0, max(most - 1, 0.0))}
    for k, a in enumerate(atoms[len(carried) :], first):
        number = known_number(schedule, a, types[k].dtype)
        if number is not None:
            given[k] = number
        elif k < last:
            given[k] = schedule.view_of(a)
        else:
            view = schedule.in_memory(a)
            walked[k] = Tape(view, types[k]) if a.type.is_stack else view
        ranges[k] = schedule.range_of(a)
    outs = [in_memory(type_of(a)) for a in loop.body.outputs]
    outs[: len(carried)] = types[1:first]
    recurs = schedule.inside is not None and schedule.inside.recurs
    pairs = {j: 1 + j for j in range(len(carried))}
    layouts = {k: _first_entry(x) for k, x in walked.items() if isinstance(x, View)}
    root = schedule.root
    inside = Inside(root, outs, schedule, given, layouts, pairs, ranges, recurs, repeats=True)
    body = Region(loop.body, inside)
    byte = np.dtype(np.uint8)
    rooms = [schedule.new_buffer((body.arena_bytes,), byte)]
    test = None
    if loop.goes_on is not None:
        answer = in_memory(type_of(loop.goes_on.outputs[0]))
        still = {k: v for k, v in given.items() if k < last}
        test = Region(loop.goes_on, Inside(root, [answer], schedule, still, recurs=recurs))
        rooms.append(schedule.new_buffer((test.arena_bytes,), byte))
        rooms.append(schedule.new_buffer((), answer.dtype))
    made = _new_sequences(schedule, loop, outs, recurs)
    rounds = schedule.new_buffer((), INDEX.dtype)
    beyond = None
    if isinstance(count, View) and layouts:
        n = min(v.shape[0] for v in walked.values() if isinstance(v, View))
        message = f"a loop runs beyond the {n} entries of its sequence"
        message += f", at {e.where}" if e.where else ""
        beyond = schedule.fail(IndexError, message)
    step = LoopStep(loop, body, test, count, memory, walked, made, rounds, rooms, beyond)
    schedule.steps.append(step)
    schedule.sites += [*body.left_sites(), *(test.schedule.sites if test is not None else ())]
    results = [x.words if isinstance(x, NewTape) else x for x in made.values()]
    for var, view in zip(e.outputs, [*memory, *results, rounds], strict=True):
        schedule.views[var] = view
        schedule.ready[view.buffer] = len(schedule.steps) - 1


def _new_sequences(
    schedule: Schedule, loop: Loop, outs: list[Type], recurs: bool
) -> dict[int, View | NewTape]:
    made: dict[int, View | NewTape] = {}
    for k in range(loop.carried, len(outs)):
        t = loop.sequence(type_of(loop.body.outputs[k]))
        if not t.is_stack:
            made[k] = schedule.new_buffer(t.shape, t.dtype)
            continue
        words = in_memory(t)
        view = schedule.new_buffer(words.shape, words.dtype)
        site = schedule.root.stacks.new_site()
        schedule.sites.append(site)
        made[k] = NewTape(view, outs[k], site, recurs, schedule.fail(*NO_MEMORY))
    return made


def _first_entry(view: View) -> View:
    """How an entry of a sequence lies, seen from where its pointer points."""
    if not view.shape[0]:
        return View.whole(view.buffer, view.shape[1:])
    return view.with_(view.imaginary[0, ...])
