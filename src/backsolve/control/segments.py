"""`bs.checkpoint` in a Program that is being recorded: calls that are computed again, as a plan says.

A function without loops becomes a call with a budget. When its derivative is asked for, its Program is cut
(solve/cuts.py), what each segment stores is read off its adjoint Program, and the plan of solve/revolve.py is
written down as calls within calls: a stretch that is run again later stores its inputs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir import Equation, Program, Var, type_of
from ..primitive import FUNCTIONS
from ..primitives.control import CALL
from ..regions import Callee
from ..solve.budget import ChainReport, Report
from ..solve.cuts import cut_up
from ..solve.revolve import RECORD, Binomial, Step
from ..solve.within import MOST_STEPS, plan_for
from ..tensor import Tensor
from ..trace import evaluate, innermost_region, stage_region
from .linear import cut, keep, with_adjoints
from .pieces import Limit, bytes_of, within_limit
from .reach import reach
from .regions import Form, Region, outer_recorder, type_of_leaf

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


def functions_staged(
    functions: Sequence[Callable[..., Any]], slots: int, report: Report, args: Any, kwargs: Any
) -> Any:
    """A sequence of functions with a number of slots, by the best schedule for it."""
    chain = ChainReport("functions", len(functions), slots)
    report.chains.append(chain)
    forms = {0: Form.of((args, kwargs))}

    def step(k: int) -> Callable[[Values], list[Any]]:
        def run(values: Values) -> list[Any]:
            given = forms[k].filled(values)
            result = functions[k](*given[0], **given[1]) if k == 0 else functions[k](given)
            forms[k + 1] = Form.of(result)
            return forms[k + 1].taken()

        return run

    steps = [step(k) for k in range(len(functions))]
    found = planned(steps, Binomial(slots), chain, forms[0].taken())
    return forms[len(functions)].filled(found)


def checkpoint_staged(
    f: Callable[..., Any], memory: int | None, report: Report | None, args: Any, kwargs: Any
) -> Any:
    """A call that is computed again; with a budget, loops that keep to it, or a call that does."""
    form = Form.of((args, kwargs))
    forms: list[Form] = []

    def flat(values: Values) -> list[Any]:
        inner_args, inner_kwargs = form.filled(values)
        forms[:] = [Form.of(f(*inner_args, **inner_kwargs))]
        return forms[0].taken()

    values, name = form.taken(), getattr(f, "__name__", "f")
    if memory is None:
        found = recomputed(flat, values, name)
        return forms[0].filled(found)
    with within_limit(Limit(memory, report)):
        outer = innermost_region() or outer_recorder(values)
        region = Region(lambda *xs: flat(xs), [type_of_leaf(x) for x in values], outer)
        if any(e.primitive.holds_regions for e in region.program.equations):
            return f(*args, **kwargs)
    whole = region.with_inputs(region.variables)
    callee = Callee(name, region.outputs, whole, memory=memory, report=report)
    given = [*values, *region.captured]
    varying = [isinstance(x, Tensor) and x.row is not None for x in given]
    if any(varying):  # its derivative will be asked for: nothing is run ahead of the plan
        found = evaluate(in_segments(callee, varying, reach(whole, varying)), given)
    else:
        found = CALL(*given, region=callee)
    return forms[0].filled(region.results(found))


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


FUNCTIONS["checkpoint_staged"] = checkpoint_staged
FUNCTIONS["functions_staged"] = functions_staged
