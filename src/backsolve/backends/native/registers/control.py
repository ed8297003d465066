"""Loops and branches as basic blocks: what is carried, and what branches give, are phi nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from ....ir import Equation, Type, type_of
from ....regions import Branches, Loop, no_branch
from .. import boxes, stacks
from ..mathematics.kernels import entry_by_entry
from ..numbers.registers import convert
from .emitter import INT64, Emitter, rule
from .plan import Plan, calls, key, size_of
from .ranges import union
from .sequences import ArrayWriter, Reader, StackWriter, Writer, entry_type
from .values import INT, Memory, Small, Stack, Value, flat, is_large, like, scalar

UNROLLED = 64  # equations, of all rounds together, up to which a loop becomes straight code


# ---- branches


@rule("branch")
def _branch(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> list[Value]:
    region: Branches = e.params["region"]
    arms = plan.inner[id(e)]
    which = inputs[0]
    args = [em.writable(plan, e, 1 + j, v) for j, v in enumerate(inputs[1:])]
    chosen = which.entries[()]
    n, b = len(region.branches), em.b
    if which.dtype != np.bool_:
        low, high = em.ranges.of(chosen)
        if low < 0 or high >= n:
            found_at = convert(b, chosen, which.dtype, INT64)
            outside = b.icmp_unsigned(">=", found_at, INT(n))
            em.fail_if(outside, IndexError, no_branch(n, e.where))
    if isinstance(chosen, ir.Constant):
        return _arm(em, e, arms, min(max(int(chosen.constant), 0), n - 1), args)
    blocks = [b.append_basic_block(f"arm{k}") for k in range(n)]
    after = b.append_basic_block("chosen")
    if n == 2:
        b.cbranch(em.truth(which), blocks[1], blocks[0])
    else:
        choice = b.switch(convert(b, chosen, which.dtype, INT64), blocks[-1])
        for k in range(n - 1):
            choice.add_case(INT(k), blocks[k])
    found: list[list[Value]] = []
    ends = []
    for k in range(n):
        b.position_at_end(blocks[k])
        found.append(_arm(em, e, arms, k, args))
        ends.append(b.block)
        b.branch(after)
    b.position_at_end(after)
    return [_joined(em, list(options), ends) for options in zip(*found, strict=True)]


def _arm(em: Emitter, e: Equation, arms: list[Plan], k: int, args: list[Value]) -> list[Value]:
    results = em.run(arms[k], args)
    for o, v in enumerate(results):
        t = e.outputs[o].type
        results[o] = em.as_type(v, t)
        if is_large(t):
            homes = {arm.result(o) for arm in arms}
            home = homes.pop() if len(homes) == 1 else None
            if home is None or home[0] != "input":
                target = em.made(e, o)
                em.copy(v, target)
                results[o] = target
    return results


def _joined(em: Emitter, options: list[Value], ends: list[Any]) -> Value:
    """One value of those that several blocks give."""
    if all(isinstance(v, Memory) for v in options):
        return options[0]
    columns = zip(*[flat(v) for v in options], strict=True)
    registers = []
    for column in columns:
        if all(x is column[0] for x in column):
            registers.append(column[0])
            continue
        phi = em.b.phi(column[0].type)
        for x, end in zip(column, ends, strict=True):
            phi.add_incoming(x, end)
        em.ranges.note(phi, union(*[em.ranges.of(x) for x in column]))
        registers.append(phi)
    return like(options[0], registers)


# ---- loops


@rule("loop")
def _loop(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> list[Value]:
    return _Rounds(em, plan, e, inputs).emit()


class _Rounds:
    """The rounds of one loop."""

    def __init__(self, em: Emitter, plan: Plan, e: Equation, inputs: list[Any]):
        self.em, self.plan, self.e = em, plan, e
        self.loop: Loop = e.params["region"]
        loop = self.loop
        self.body, *rest = plan.inner[id(e)]
        self.goes_on = rest[0] if rest else None
        count, carried, self.fixed, sequences = loop.split(inputs)
        first = int(loop.counted)
        self.carried = [
            em.as_type(em.writable(plan, e, first + c, v), loop.body.inputs[1 + c].type)
            for c, v in enumerate(carried)
        ]
        self.count = None if loop.count is None else INT(loop.count)
        if loop.counted:
            self.count = self._number_of_rounds(count)
        moves = any(calls(p) for p in plan.inner[id(e)])
        self.sequences = [Reader(em, v, moves) for v in sequences]
        self._look_at_lengths()
        n = loop.count
        plain = not loop.counted and self.goes_on is None
        is_short = n is not None and plain and n * size_of(self.body) <= UNROLLED
        self.is_unrolled = is_short and em.shared is not e
        for reader in () if self.is_unrolled else self.sequences:
            if not isinstance(reader.value, Stack):
                reader.in_memory()
        self.made = [self._writer(o) for o in range(loop.carried, len(e.outputs) - 1)]
        self.resting = Resting(em, plan, e, self.body)
        self.part = em.part if em.shared is e else None  # rounds from one to another

    def _number_of_rounds(self, count: Small) -> ir.Value:
        """As given, but no less than none, and no more than a known limit."""
        em, loop = self.em, self.loop
        n = convert(em.b, count.entries[()], count.dtype, INT64)
        low, high = em.ranges.of(count.entries[()])
        if low < 0:
            n = em.b.select(em.b.icmp_signed("<", n, INT(0)), INT(0), n)
        if loop.count is not None and high > loop.count:
            message = f"a loop of at most {loop.count} rounds is asked for more"
            em.fail_if(em.b.icmp_signed(">", n, INT(loop.count)), IndexError, message)
        em.ranges.note(n, (max(low, 0), high if loop.count is None else float(loop.count)))
        return n

    def _look_at_lengths(self) -> None:
        """A number of rounds that is not known before may not exceed the entries there are."""
        em = self.em
        for reader in self.sequences if self.count is not None else ():
            is_known = isinstance(self.count, ir.Constant)
            length = reader.length
            if isinstance(length, ir.Constant) and (
                is_known or em.ranges.of(self.count)[1] <= length.constant
            ):
                continue
            message = "a loop runs beyond the entries of its sequence"
            em.fail_if(em.b.icmp_signed(">", self.count, length), IndexError, message)

    def _writer(self, o: int) -> Writer:
        em, e, t = self.em, self.e, self.e.outputs[o].type
        may_stop = self.goes_on is not None or self.loop.counted
        if not t.is_stack:
            return ArrayWriter(em, em.made(e, o), may_stop)
        count = self.count if self.goes_on is None else None
        return StackWriter(em, em.descriptor(key(e, "out", o), self.plan), entry_type(t), count)

    def emit(self) -> list[Value]:
        loop, em, b = self.loop, self.em, self.em.b
        if loop.count == 0:
            return self._results(list(self.carried), INT(0))
        if self.is_unrolled:
            n = loop.count or 0
            state = list(self.carried)
            for r in range(n):
                state = self._round(INT(n - 1 - r if loop.reverse else r), state)
            return self._results(state, INT(n))
        before = b.block
        head = b.append_basic_block("head")
        b.branch(head)
        b.position_at_end(head)
        first, stop = (INT(0), self.count) if self.part is None else self.part
        r = b.phi(INT)
        r.add_incoming(first, before)
        state, phis = self._phis(self.carried, before)
        for w in self.made:
            w.state = self._phis_of(w.state, before)
            phis += w.state
        body, done = b.append_basic_block("round"), b.append_basic_block("done")
        high = em.ranges.of(self.count)[1] if self.count is not None else np.inf
        em.ranges.note(r, (0, max(high - 1, 0)))
        if self.count is not None:
            allowed = b.append_basic_block("allowed") if self.goes_on is not None else body
            b.cbranch(b.icmp_signed("<", r, stop), allowed, done)
            b.position_at_end(allowed)
        k = r
        if loop.reverse:
            assert self.count is not None
            k = b.sub(b.sub(self.count, INT(1), flags=("nsw",)), r, flags=("nsw",))
            em.ranges.note(k, (0, max(high - 1, 0)))
        if self.goes_on is not None:
            (answer,) = em.run(self.goes_on, [scalar(k, INT64), *state, *self.fixed])
            b.cbranch(em.truth(answer), body, done)
            b.position_at_end(body)
        last = [*state]
        outer, em.inline = em.inline, self._may_be_vectors()
        state = self._round(k, state)
        em.inline = outer
        r.add_incoming(b.add(r, INT(1), flags=("nsw", "nuw")), b.block)
        new = [x for v in state for x in flat(v)] + [x for w in self.made for x in w.state]
        for phi, x in zip(phis, new, strict=True):
            phi.add_incoming(x, b.block)
        back = b.branch(head)
        if self.body.inner and any(isinstance(v, Memory) for v in self.carried):
            back.set_metadata("llvm.loop", entry_by_entry(b.module))
        b.position_at_end(done)
        em.ranges.note(r, (0, high))
        return self._results(last, r if self.part is None else INT(loop.count or 0))

    def _phis(self, values: Sequence[Value], before: Any) -> tuple[list[Value], list[ir.Value]]:
        found, phis = [], []
        for v in values:
            mine = self._phis_of(flat(v), before)
            phis += mine
            found.append(like(v, mine))
        return found, phis

    def _phis_of(self, registers: list[ir.Value], before: Any) -> list[ir.Value]:
        phis = [self.em.b.phi(x.type) for x in registers]
        for phi, x in zip(phis, registers, strict=True):
            phi.add_incoming(x, before)
        return phis

    def _round(self, k: ir.Value, state: list[Value]) -> list[Value]:
        """One round: the new carried values; entries of sequences are written."""
        em, loop, body = self.em, self.loop, self.body
        n = loop.carried
        given = dict(em.given)
        for j, w in enumerate(self.made):
            home = body.result(n + j)
            if isinstance(w, ArrayWriter) and home in body.scratch and body.leaves_once(home):
                em.given[home] = w.place(k)  # made where it will stay
        entries = [reader.entry(k) for reader in self.sequences]
        results = em.run(body, [scalar(k, INT64), *state, *self.fixed, *entries])
        em.given = given
        for w, v in zip(self.made, results[n:], strict=True):
            w.put(k, v)
        new = self._carried_over(state, results[:n])
        self.resting.end_of_round()
        return new

    def _carried_over(self, state: list[Value], results: list[Value]) -> list[Value]:
        """The new carried values; arrays in the memory of the old ones."""
        em, body = self.em, self.body
        new = [em.as_type(v, body.program.inputs[1 + c].type) for c, v in enumerate(results)]
        moved = [
            (c, v)
            for c, v in enumerate(new)
            if isinstance(v, Memory) and body.result(c) != ("input", 1 + c)
        ]
        for at, (c, v) in enumerate(moved):
            # One may be the memory of another, or its own in another order.
            if len(moved) > 1 or body.homes[body.program.outputs[c]] == ("input", 1 + c):
                target = em.memory(key(self.e, "round", c), Type(v.shape, v.dtype))
                em.copy(v, target)
                moved[at] = c, target
        for c, v in moved:
            place = state[c]
            assert isinstance(place, Memory)
            em.copy(v, place)
            new[c] = place
        return new

    def _results(self, carried: list[Value], rounds: ir.Value) -> list[Value]:
        return [*carried, *[w.finish(rounds) for w in self.made], scalar(rounds, INT64)]

    def _may_be_vectors(self) -> bool:
        """No loop inside, and no number that waits for the round before."""
        plain = not self.body.inner and self.goes_on is None
        return plain and all(isinstance(v, Memory) for v in self.carried)


# ---- stacks


@rule("no_entries")
def _no_entries(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Value:
    empty = stacks.descriptor(em.b, em.table, 0)
    return Stack(empty, INT(0), INT(0), entry_type(e.outputs[0].type))


@rule("length")
def _length(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Value:
    return scalar(inputs[0].length, INT64)


class Resting:
    """Memory of stacks that a round makes and does not pass on: given back when the round ends."""

    def __init__(self, em: Emitter, plan: Plan, e: Equation, body: Plan):
        self.em = em
        sites = [em.site(home) for home in body.unneeded(em.planner)]
        self.sites = [x for x in sites if x is not None]
        described = [stacks.descriptor(em.b, em.table, x) for x in self.sites]
        self.lengths = [(d, stacks.word(em.b, d, stacks.LENGTH)) for d in described]
        pooled = em.planner.takes_nodes(body, em.in_recursion)
        passes_on = any(type_of(a).is_stack for a in body.program.outputs)
        self.mark = stacks.nodes_in_use(em.b, em.table) if pooled and not passes_on else None
        keeps_boxes = passes_on or not em.planner.makes_boxes(body)
        self.heap = None if keeps_boxes else boxes.mark(em.b, em.table)

    def end_of_round(self) -> None:
        b = self.em.b
        for described, length in self.lengths:
            stacks.set_word(b, described, stacks.LENGTH, length)
        if self.mark is not None:
            stacks.release_nodes(b, self.em.table, self.mark)
        if self.heap is not None:
            boxes.release(b, self.em.table, self.heap)
