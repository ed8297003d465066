"""Loops and branches as basic blocks: what is carried, and what branches give, are phi nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from ....ir import Equation, Type
from ....regions import Branches, Loop
from ..failure import fail_if
from ..numbers.registers import BOOL, convert
from .emitter import INT64, Emitter, rule
from .plan import Plan, key
from .ranges import union
from .values import INT, SMALL, Memory, Small, Value, flat, is_large, like, read, scalar

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
        self.em, self.e = em, e
        self.loop: Loop = e.params["region"]
        loop = self.loop
        self.body, *rest = plan.inner[id(e)]
        self.goes_on = rest[0] if rest else None
        count, carried, self.fixed, self.sequences = loop.split(inputs)
        first = int(loop.counted)
        self.carried = [
            em.as_type(em.writable(plan, e, first + c, v), loop.body.inputs[1 + c].type)
            for c, v in enumerate(carried)
        ]
        if loop.counted:
            self.count = convert(em.b, count.entries[()], count.dtype, INT64)
        else:
            self.count = None if loop.count is None else INT(loop.count)
        self.made = [
            em.made(e, o)
            for o in range(loop.carried, len(e.outputs) - 1)
            if not e.outputs[o].type.is_stack
        ]

    def emit(self) -> list[Value]:
        loop, em = self.loop, self.em
        self._look_at_lengths()
        n = None if loop.counted else loop.count
        if n is not None and self.goes_on is None and n * _size(self.body) <= UNROLLED:
            state = list(self.carried)
            for r in range(n):
                state = self._round(INT(n - 1 - r if loop.reverse else r), state)
            return self._results(state, INT(n))
        b = em.b
        before = b.block
        head = b.append_basic_block("head")
        b.branch(head)
        b.position_at_end(head)
        r = b.phi(INT)
        r.add_incoming(INT(0), before)
        state, phis = self._phis(self.carried, before)
        body, done = b.append_basic_block("round"), b.append_basic_block("done")
        high = float(loop.count) if loop.count is not None else np.inf
        em.ranges.note(r, (0, max(high - 1, 0)))
        if self.count is not None:
            allowed = b.append_basic_block("allowed") if self.goes_on is not None else body
            b.cbranch(b.icmp_signed("<", r, self.count), allowed, done)
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
        outer, em.inline = em.inline, self._may_be_vectors()
        state = self._round(k, state)
        em.inline = outer
        r.add_incoming(b.add(r, INT(1), flags=("nsw", "nuw")), b.block)
        for phi, x in zip(phis, [x for v in state for x in flat(v)], strict=True):
            phi.add_incoming(x, b.block)
        b.branch(head)
        b.position_at_end(done)
        em.ranges.note(r, (0, high))
        last, at = [], 0
        for v in self.carried:
            n = len(flat(v))
            last.append(like(v, phis[at : at + n]))
            at += n
        return self._results(last, r)

    def _phis(self, values: Sequence[Value], before: Any) -> tuple[list[Value], list[ir.Value]]:
        found, phis = [], []
        for v in values:
            mine = []
            for x in flat(v):
                phi = self.em.b.phi(x.type)
                phi.add_incoming(x, before)
                mine.append(phi)
            phis += mine
            found.append(like(v, mine))
        return found, phis

    def _round(self, k: ir.Value, state: list[Value]) -> list[Value]:
        """One round: the new carried values; entries of sequences are written."""
        em, loop, e = self.em, self.loop, self.e
        entries = [self._entry(v, k) for v in self.sequences]
        n = loop.carried
        results = em.run(self.body, [scalar(k, INT64), *state, *self.fixed, *entries])
        for m, v in zip(self.made, results[n:], strict=True):
            em.copy(em.as_type(v, Type(m.shape[1:], m.dtype)), self._part(m, k))
        new = [em.as_type(v, loop.body.inputs[1 + c].type) for c, v in enumerate(results[:n])]
        moved = [
            c
            for c, v in enumerate(new)
            if isinstance(v, Memory) and self.body.result(c) != ("input", 1 + c)
        ]
        for c in moved:  # one may be the memory of another, or its own in another order
            if len(moved) > 1 or self.body.homes[self.body.program.outputs[c]] == ("input", 1 + c):
                target = em.memory(key(e, "round", c), Type(new[c].shape, new[c].dtype))  # type: ignore[union-attr]
                em.copy(new[c], target)
                new[c] = target
        for c in moved:
            em.copy(new[c], state[c])  # type: ignore[arg-type]
            new[c] = state[c]
        return new

    def _part(self, m: Memory, k: ir.Value) -> Memory:
        """Entry k of a sequence in memory."""
        step = m.view.strides[0]
        part = m.part(m.view.imaginary[0, ...])
        if isinstance(k, ir.Constant):
            return m.part(m.view.imaginary[k.constant, ...])
        by = k if step == 1 else self.em.b.mul(k, INT(step), flags=("nsw",))
        return part.moved(self.em.b, by)

    def _entry(self, v: Value, k: ir.Value) -> Value:
        if isinstance(v, Small) and isinstance(k, ir.Constant):
            return Small(v.entries[k.constant, ...], v.dtype)
        m = self._part(self.em.spilled(v), k)
        return m if m.view.imaginary.size > SMALL else read(self.em.b, m)

    def _look_at_lengths(self) -> None:
        """A number of rounds that is not known before may not exceed the entries there are."""
        lengths = [v.shape[0] for v in self.sequences if isinstance(v, Small | Memory)]
        if self.loop.counted and lengths:
            em = self.em
            code = em.fail(
                IndexError, f"a loop runs beyond the {min(lengths)} entries of its sequence"
            )
            fail_if(em.b, em.b.icmp_signed(">", self.count, INT(min(lengths))), code)

    def _results(self, carried: list[Value], rounds: ir.Value) -> list[Value]:
        made: list[Value] = []
        for m in self.made:
            if self.goes_on is not None:
                self._clear(m, rounds)
            made.append(m if m.view.imaginary.size > SMALL else read(self.em.b, m))
        return [*carried, *made, scalar(rounds, INT64)]

    def _clear(self, m: Memory, rounds: ir.Value) -> None:
        """Zeros where no round has been."""
        b = self.em.b
        assert self.loop.count is not None
        size = m.dtype.itemsize * int(np.prod(m.shape[1:]))
        missing = b.mul(b.sub(INT(self.loop.count), rounds), INT(size))
        start = INT(0) if self.loop.reverse else rounds
        first = self._part(m, start) if m.shape[0] else m
        raw = b.bitcast(b.gep(first.pointer, [INT(first.view.offset)]), ir.IntType(8).as_pointer())
        memset = b.module.declare_intrinsic("llvm.memset", [raw.type, INT])
        b.call(memset, [raw, ir.IntType(8)(0), missing, BOOL(0)])

    def _may_be_vectors(self) -> bool:
        """No loop inside, and no number that waits for the round before."""
        plain = not self.body.inner and self.goes_on is None
        return plain and all(isinstance(v, Memory) for v in self.carried)


def _size(plan: Plan) -> int:
    return len(plan.order) + sum(_size(p) for ps in plan.inner.values() for p in ps) * 4
