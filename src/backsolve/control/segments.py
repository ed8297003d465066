"""A call with a budget: stretches of it are computed again, as a plan says.

When its derivative is asked for, its Program is cut (solve/cuts.py), what each segment stores is read off its
adjoint Program, and the plan of solve/revolve.py is written down as calls within calls: a stretch that is run
again later stores its inputs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir import Equation, Program, Var, type_of
from ..primitives.control import CALL
from ..regions import Callee
from ..solve import back_substitute
from ..solve.budget import ChainReport
from ..solve.cuts import cut_up
from ..solve.reversal import raw, row_of
from ..solve.reversed_row import bare, own_row
from ..solve.revolve import RECORD, Step
from ..solve.within import MOST_STEPS, plan_for
from ..trace import evaluate, innermost_region, stage_region
from .linear import cut, keep, with_adjoints
from .pieces import bytes_of
from .reach import reach
from .regions import Region, outer_recorder, type_of_leaf

Values = Sequence[Any]


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
                i, budget = i + 1, plan.after_recording(budget, i)
            else:
                part = lambda xs, i=i, k=k, b=budget: stretch(i, k, b, xs, runs + 1)
                found = recomputed(part, found, "stretch")
                i, budget = k, plan.after_keeping(budget, k)
        return found

    return stretch(0, len(steps), plan.budget, values, 0)


def in_segments(callee: Callee, varying: Sequence[bool], given: Sequence[bool]) -> Program:
    """The Program of a callee with a budget, as calls that keep to it."""
    program = callee.program
    assert program is not None
    assert callee.memory is not None
    parts = [_Segment.of(program, part) for part in cut_up(program, MOST_STEPS)]
    steps = _measured(program, parts, varying, given)
    plan = plan_for(steps, callee.memory)
    stored = min(sum(s.tape for s in steps), callee.memory)
    report = ChainReport("segments", len(parts), peak_bytes=stored)
    if callee.report is not None:
        callee.report.chains.append(report)

    def run(*xs: Any) -> list[Any]:
        return planned([part.reading(program, xs) for part in parts], plan, report, [])

    return stage_region(run, [v.type for v in program.inputs], None)


class SegmentedCall:
    """A call within a budget: run on values of its own, so that derivatives of the solve are not its rows'."""

    def __init__(self, callee: Callee, args: Values, places: Sequence[int], given: Sequence[bool]):
        varying = [k in places for k in range(len(args))]
        xs = [own_row(raw(x)) if flag else bare(x) for x, flag in zip(args, varying, strict=True)]
        self._inputs: list[Any] = [xs[k].row for k in places]
        self.outputs = evaluate(in_segments(callee, varying, given), xs)

    def pull(self, cts: Values) -> list[Any]:
        """Adjoints of the inputs, raw."""
        seeds = [
            (row, bare(c))
            for row, c in zip(map(row_of, self.outputs), cts, strict=True)
            if row is not None and c is not None
        ]
        oldest = min(r.index for r in self._inputs)
        return [*map(raw, back_substitute(seeds, self._inputs, oldest=oldest, record=True))]


@dataclass(frozen=True)
class _Segment:
    """A part of a Program, from what crosses its cuts; the inputs of the whole are read where they are."""

    program: Program  # of what crosses, then of the inputs that it reads
    crossing: int

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

    def reading(self, whole: Program, xs: Values) -> Callable[[Values], list[Any]]:
        given = dict(zip(whole.inputs, xs, strict=True))
        used = [given[v] for v in self.program.inputs[self.crossing :]]
        return lambda values: evaluate(self.program, [*values, *used])


def _measured(
    whole: Program, parts: Sequence[_Segment], varying: Sequence[bool], given: Sequence[bool]
) -> list[Step]:
    """What the segments store, from their adjoint Programs. The inputs of the whole are there anyway."""
    flags = dict(zip(whole.inputs, varying, strict=True))
    steps = []
    for k, part in enumerate(p.program for p in parts):
        entering = [flags.get(v, False) for v in part.inputs]
        leaving = reach(part, entering)
        is_last = k == len(parts) - 1
        if is_last:
            leaving = [x and y for x, y in zip(leaving, given, strict=True)]
        n, m = len(part.inputs), len(part.outputs)
        joint = with_adjoints(part, entering, leaving).program
        there = cut(joint, n, m)
        free = {*joint.inputs[:n], *[v for v, _ in joint.constants]}
        stored, _ = keep(there.crossing, there.first, free)
        results = set(joint.outputs[:m])
        after = [] if is_last else [v for v in part.outputs if v not in part.inputs]
        state = bytes_of(part.inputs[: parts[k].crossing])
        tape = bytes_of([v for v in stored if v not in results]) + bytes_of(after)
        steps.append(Step(state, tape, sum(map(_work, part.equations), 1.0)))
        flags.update({v: f for v, f in zip(part.outputs, leaving, strict=True) if type(v) is Var})
    return steps


def _work(e: Equation) -> float:
    """About what an equation costs: the entries it makes; of a product m k n = √(m k · k n · m n)."""
    entries = float(sum(v.type.size for v in e.outputs))
    if e.primitive.name in ("matmul", "contract"):
        sizes = [float(type_of(a).size) for a in e.inputs]
        entries = float(np.sqrt(np.prod(sizes) * entries)) if len(sizes) == 2 else max(sizes)
    return entries
