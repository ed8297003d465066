"""A call with a budget: stretches of it are computed again, as a plan says.

When its derivative is asked for, its Program is cut (solve/cuts.py), what each segment stores is read off its
adjoint Program, and the schedule of solve/revolve.py is written down, step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import BudgetError
from ..ir import Equation, Program, Var, type_of
from ..primitives.control import CALL
from ..regions import Branches, Callee, Loop
from ..solve import back_substitute
from ..solve.budget import ChainReport, Report
from ..solve.cuts import cut_up
from ..solve.reversal import raw, row_of
from ..solve.reversed_row import bare, own_row
from ..solve.revolve import RECORD, RecordAll, Step
from ..solve.within import MOST_STEPS, plan_for
from ..trace import evaluate, innermost_region
from .derive_loop import LoopBlock
from .linear import cut, keep, with_adjoints
from .pieces import Limit, bytes_of, room_of, rounds_of, ways_to_store
from .reach import reach
from .regions import Region, outer_recorder, type_of_leaf

Values = Sequence[Any]
SHARES = (1, 3 / 4, 1 / 2, 1 / 3)  # of a budget, for loops in branches and calls


def recomputed(f: Callable[[Values], list[Any]], values: Values, name: str = "f") -> list[Any]:
    """f of these values as a call whose derivative stores them alone."""
    outer = innermost_region() or outer_recorder(values)
    region = Region(lambda *xs: f(xs), [type_of_leaf(x) for x in values], outer)
    callee = Callee(name, region.outputs, region.with_inputs(region.variables), recompute=True)
    return region.results(CALL(*values, *region.captured, region=callee))


def planned(
    steps: Sequence[Callable[[Values], list[Any]]], plan: Any, report: ChainReport, values: Values
) -> list[Any]:
    """The steps one after the other, in calls that a plan for their reversal asks for."""

    def stretch(i: int, j: int, budget: int, values: Values, runs: int) -> list[Any]:
        found = list(values)
        while i < j:
            k = plan.action(i, j, budget)
            if k == RECORD:
                found = list(steps[i](found))
                report.recorded_steps += 1
                report.forward_steps += runs
                i, budget = i + 1, plan.after_recording(budget, i, j)
            else:
                part = lambda xs, i=i, k=k, b=budget: stretch(i, k, b, xs, runs + 1)
                found = recomputed(part, found, "stretch")
                i, budget = k, plan.after_keeping(budget, k)
        return found

    return stretch(0, len(steps), plan.budget, values, 0)


def apart(values: Values) -> list[Any]:
    """Copies: what is computed from them is not merged with the same elsewhere, and stored from there on."""
    variables = tuple(Var(type_of_leaf(x)) for x in values)
    same = Callee("apart", [v.type for v in variables], Program(variables, (), (), variables))
    return CALL(*values, region=same)


@dataclass(frozen=True)
class _Recorded:
    """A segment on values of its own, with rows, and what came out."""

    segment: _Segment
    inputs: list[Any]
    outputs: list[Any]


@dataclass(frozen=True)
class _Stretch:
    """Segments i … j, to be reversed from the values at i within a budget of the plan."""

    i: int
    j: int
    budget: int
    values: list[Any]


class SegmentedCall:
    """A call within a budget, reversed as a plan says.

    Its first sweep leaves a stack of kept values and recorded segments; to go back is to take the top off. What
    runs ahead is a call: such equations are never merged with others, so what is run again is computed again.
    """

    def __init__(self, callee: Callee, args: Values, places: Sequence[int], given: Sequence[bool]):
        program = callee.program
        assert program is not None
        assert callee.memory is not None
        self._varying = [k in places for k in range(len(args))]
        self._args = dict(zip(program.inputs, map(bare, args), strict=True))
        self._wanted = [program.inputs[k] for k in places]
        self._report = callee.report or Report()
        self._segments, self._steps, self._plan, room = self._planned(program, given, callee.memory)
        n = len(self._steps)
        self._stack: list[_Recorded | _Stretch] = []
        self.outputs = self._sweep(0, n, self._plan.budget, [], self._stack)
        stored = min(sum(s.tape for s in self._steps) + room, callee.memory)
        ahead = self._steps_ahead(0, n, self._plan.budget)
        told = ChainReport("segments", n, None, ahead, n, peak_bytes=stored)
        self._report.chains.append(told)

    def _planned(
        self, program: Program, given: Sequence[bool], memory: int
    ) -> tuple[list[_Segment], list[Step], Any, int]:
        """Segments, what they store, a plan, and the room that loops in branches and calls take beside it.

        These may have the whole budget each, or so much less of it that what is kept beside them fits, too.
        """
        told = len(self._report.chains)
        refused: list[BudgetError] = []
        for share in SHARES:
            limited = loops_within(program, Limit(int(memory * share), self._report))
            loops = [k for k, e in enumerate(limited.equations) if _loop_of(e) is not None]
            segments = [_Segment.of(limited, x) for x in cut_up(limited, MOST_STEPS, loops)]
            try:
                steps, room = _measured(limited, segments, self._varying, given)
                return segments, steps, plan_for(steps, memory, room), room
            except BudgetError as error:
                refused.append(error)
            finally:
                del self._report.chains[told:]  # by loops in branches, of adjoints that do not stay
        raise min(refused, key=lambda error: error.least)

    def _sweep(self, i: int, j: int, budget: int, values: list[Any], stack: list[Any]) -> list[Any]:
        while i < j:
            k = self._plan.action(i, j, budget)
            if k == RECORD:
                segment = self._segments[i]
                given = [*values, *map(self._args.__getitem__, segment.used)]
                if i == 0 and not isinstance(self._plan, RecordAll):
                    given = apart(given)
                ins = [
                    own_row(x) if flag else x for x, flag in zip(given, segment.varies, strict=True)
                ]
                size = self._steps[i].ways[self._plan.way(i, j, budget)][0]
                outs = evaluate(segment.storing(size, self._report), ins)
                stack.append(_Recorded(segment, ins, outs))
                values = [*map(bare, outs)]
                i, budget = i + 1, self._plan.after_recording(budget, i, j)
            else:
                stack.append(_Stretch(i, k, budget, values))
                for segment in self._segments[i:k]:
                    used = map(self._args.__getitem__, segment.used)
                    values = CALL(*values, *used, region=segment.callee)
                i, budget = k, self._plan.after_keeping(budget, k)
        return values

    def _steps_ahead(self, i: int, j: int, budget: int) -> int:
        """How many segments run without being recorded, until all are reversed."""
        steps = 0
        while i < j:
            k = self._plan.action(i, j, budget)
            if k == RECORD:
                i, budget = i + 1, self._plan.after_recording(budget, i, j)
            else:
                steps += k - i + self._steps_ahead(i, k, budget)
                i, budget = k, self._plan.after_keeping(budget, k)
        return steps

    def pull(self, cts: Values) -> list[Any]:
        """Adjoints of the inputs that vary, raw."""
        stack = list(self._stack)
        adjoints = [*map(bare, cts)]
        totals: dict[Var, Any] = {}
        while stack:
            top = stack.pop()
            if isinstance(top, _Stretch):
                self._sweep(top.i, top.j, top.budget, top.values, stack)
                continue
            seeds = [
                (row, g)
                for row, g in zip(map(row_of, top.outputs), adjoints, strict=True)
                if row is not None and g is not None
            ]
            rows = [x.row for x in top.inputs if row_of(x) is not None]
            oldest = min([r.index for r in rows], default=0)
            found = iter(back_substitute(seeds, rows, oldest=oldest, record=True))
            back = [None if row_of(x) is None else bare(next(found)) for x in top.inputs]
            adjoints = back[: top.segment.crossing]
            for v, g in zip(top.segment.used, back[top.segment.crossing :], strict=True):
                if g is not None:
                    totals[v] = totals[v] + g if v in totals else g
        return [raw(totals.get(v)) for v in self._wanted]


@dataclass(eq=False)
class _Segment:
    """A part of a Program, from what crosses its cuts; the inputs of the whole are read where they are."""

    program: Program  # of what crosses, then of the inputs that it reads
    crossing: int
    varies: list[bool] = field(default_factory=list)  # of its inputs

    @staticmethod
    def of(whole: Program, part: Program) -> _Segment:
        inputs = set(whole.inputs)
        is_last = part.outputs == whole.outputs
        outs = tuple(v for v in part.outputs if is_last or v not in inputs)
        read = {a for e in part.equations for a in e.inputs if type(a) is Var}
        read.update(a for a in outs if type(a) is Var)
        crossing = [v for v in part.inputs if v not in inputs]
        used = [v for v in whole.inputs if v in read]
        program = Program((*crossing, *used), part.constants, part.equations, outs)
        return _Segment(program, len(crossing))

    @property
    def used(self) -> tuple[Var, ...]:
        return self.program.inputs[self.crossing :]

    @property
    def loop(self) -> Loop | None:
        """If it is no more than one."""
        return _loop_of(self.program.equations[0]) if len(self.program.equations) == 1 else None

    def storing(self, size: int, report: Any) -> Program:
        """The Program; if it is a loop, one that may store so many bytes."""
        loop = self.loop
        if loop is None:
            return self.program
        (e,) = self.program.equations
        within = replace(e, params={"region": replace(loop, memory=size, share=1, report=report)})
        return replace(self.program, equations=(within,))

    @cached_property
    def callee(self) -> Callee:
        return Callee("segment", [type_of(a) for a in self.program.outputs], self.program)


def _measured(
    whole: Program, parts: Sequence[_Segment], varying: Sequence[bool], given: Sequence[bool]
) -> tuple[list[Step], int]:
    """What the segments store, from their adjoint Programs, and the most room that one takes on the way back.

    The inputs of the whole are there anyway.
    """
    flags = dict(zip(whole.inputs, varying, strict=True))
    steps, room = [], 0
    for k, part in enumerate(p.program for p in parts):
        entering = parts[k].varies = [flags.get(v, False) for v in part.inputs]
        leaving = reach(part, entering)
        is_last = k == len(parts) - 1
        if is_last:
            leaving = [x and y for x, y in zip(leaving, given, strict=True)]
        state = bytes_of(part.inputs[: parts[k].crossing])
        after = bytes_of([] if is_last else [v for v in part.outputs if v not in part.inputs])
        work = sum(map(_work, part.equations), 1.0)
        flags.update({v: f for v, f in zip(part.outputs, leaving, strict=True) if type(v) is Var})
        if parts[k].loop is not None:
            (first, _), *others = _ways_of_loop(part, entering, leaving)
            ways = tuple((size + after, runs * work) for size, runs in others)
            steps.append(Step(state, first + after, work, ways))
            continue
        n, m = len(part.inputs), len(part.outputs)
        joint = with_adjoints(part, entering, leaving).program
        there = cut(joint, n, m)
        free = {*joint.inputs[:n], *[v for v, _ in joint.constants]}
        room = max(room, room_of(there.second))
        stored, _ = keep(there.crossing, there.first, free)
        results = set(joint.outputs[:m])
        tape = bytes_of([v for v in stored if v not in results]) + after
        steps.append(Step(state, tape, work))
    return steps, room


def without_limits(program: Program) -> Program:
    """Its loops without budgets of their own: what each may store is planned for all together."""
    return replace(program, equations=tuple(map(_without_limit, program.equations)))


def _without_limit(e: Equation) -> Equation:
    loop = _loop_of(e)
    if loop is None:
        return e
    return replace(e, params={"region": replace(loop, memory=None, report=None)})


def loops_within(program: Program, limit: Limit) -> Program:
    """Its loops in branches and calls with budgets."""
    made: dict[int, Any] = {}
    equations = [e if _loop_of(e) else _limited(e, limit, made) for e in program.equations]
    return replace(program, equations=tuple(equations))


def with_limits(program: Program, limit: Limit) -> Program:
    """Its loops, and those within them, in branches and in calls, with budgets."""
    return _with_limits(program, limit, {})


def _with_limits(program: Program, limit: Limit, made: dict[int, Any]) -> Program:
    """`made`: a callee is one wherever it is called."""
    return replace(program, equations=tuple(_limited(e, limit, made) for e in program.equations))


def _limited(e: Equation, limit: Limit, made: dict[int, Any]) -> Equation:
    region = e.params.get("region")
    if isinstance(region, Loop):
        parts = [with_limits(p, limit.within()) for p in region.programs()]
        region = replace(region.with_programs(parts), **_at_most(limit, region))
    elif isinstance(region, Branches):
        parts = [_with_limits(p, limit, made) for p in region.programs()]
        region = region.with_programs(parts)
    elif isinstance(region, Callee) and region.program and not region.is_recursive:
        if id(region) not in made:
            inside = _with_limits(region.program, limit, made)
            made[id(region)] = replace(region, program=inside, derivatives={}, seen=[])
        region = made[id(region)]
    else:
        return e
    return replace(e, params={**e.params, "region": region})


def _at_most(limit: Limit, loop: Loop) -> dict[str, Any]:
    """Or what it has already, if that is less."""
    memory, share = limit.memory, limit.share
    if loop.memory is not None and loop.memory < memory:
        memory, share = loop.memory, loop.share
    return {"memory": memory, "share": share, "report": limit.report}


def _loop_of(e: Equation) -> Loop | None:
    region = e.params.get("region")
    return region if isinstance(region, Loop) else None


def _ways_of_loop(
    part: Program, entering: Sequence[bool], leaving: Sequence[bool]
) -> list[tuple[int, int]]:
    (e,) = part.equations
    loop = _loop_of(e)
    assert loop is not None
    varies = {v for v, flag in zip(part.inputs, entering, strict=True) if flag}
    given = {v for v, flag in zip(part.outputs, leaving, strict=True) if flag}
    places = [k for k, a in enumerate(e.inputs) if type(a) is Var and a in varies]
    block = LoopBlock(loop, list(e.inputs), places)
    return ways_to_store(loop, block.sizes([v in given for v in e.outputs]))


def _work(e: Equation) -> float:
    """About what an equation costs: the entries it makes; of a product m k n = √(m k · k n · m n)."""
    loop = _loop_of(e)
    if loop is not None:
        return float(rounds_of(loop)) * sum(map(_work, loop.body.equations), 1.0)
    entries = float(sum(v.type.size for v in e.outputs))
    if e.primitive.name in ("matmul", "contract"):
        sizes = [float(type_of(a).size) for a in e.inputs]
        entries = float(np.sqrt(np.prod(sizes) * entries)) if len(sizes) == 2 else max(sizes)
    return entries
