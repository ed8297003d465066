"""A region of registers as one step of a schedule: a function of the pointers to the arrays it touches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ....ir import Equation, Program, Type, Var, type_of
from ....regions import INDEX, Loop
from .. import stacks, sweep
from ..blas import spread
from ..build import note_numbers_in_loops
from ..cutting import GATHERED
from ..failure import CODE, FINE, call_step
from ..fastmath import builder_in
from ..functions import keep_apart
from ..numbers.registers import memory_type, number
from ..share_out import most_workers
from ..steps import FLOPS, FUNCTION_FLOPS, INT, Site, Step
from ..views import Buffer, View
from . import arrays, boxes, calls, control, indices  # noqa: F401 - their rules
from .calls import Callees, large_constants
from .emitter import Emitter
from .free import rounds_are_free
from .order import NotSmall
from .plan import Home, Plan, Planner, key
from .plan import calls as calls_any
from .sequences import entry_type, read_stack, write_stack
from .values import Memory, Small, Stack, Value, constant, is_large, read, small, write

if TYPE_CHECKING:
    from ..schedule import Schedule

ROUNDS = 1000  # of a loop without a known number
STRAIGHT = 256  # instructions without a branch, in which LLVM would look too long for vectors
CALLED = 10000  # flops of a call, which may make many others


@dataclass(eq=False)
class Region(Step):
    equation: Equation
    plan: Plan
    callees: Callees
    inputs: list[Any]  # a View, or what is known: a number or a small array
    outputs: list[View]
    constants: dict[Var, View] = field(default_factory=dict)
    scratch: dict[Home, View] = field(default_factory=dict)
    sites: dict[Home, int] = field(default_factory=dict)  # of stacks
    fail: Any = None
    has_stacks: Callable[[], bool] = lambda: False  # the program, once all of it is lowered
    ranges: list[Any] = field(default_factory=list)  # of the inputs
    workers: int = 1  # that may share the rounds of a loop

    def buffers(self) -> list[Buffer]:
        views = [v for v in self.inputs if isinstance(v, View)]
        views += [*self.outputs, *self.constants.values(), *self.scratch.values()]
        return list(dict.fromkeys(v.buffer for v in views))

    @property
    def flops(self) -> int:
        return _flops(self.plan, ROUNDS)

    def seconds_for(self, rounds: int) -> float:
        """The same as `seconds`, for so many rounds of loops without a known number."""
        return self.seconds + (_flops(self.plan, rounds) - self.flops) / FLOPS

    @property
    def is_shared(self) -> bool:
        return self.workers > 1

    def describe(self) -> str:
        kind = f"{self.equation.primitive.name} in registers"
        shared = ", shared among threads" if self.is_shared else ""
        return f"{kind}{shared}: {_size(self.plan)} equations"

    def emit(self, site: Site) -> None:
        buffers = self.buffers()
        kinds = [memory_type(x.dtype).as_pointer() for x in buffers]
        extra: list[ir.Value] = []
        uses_table = self.callees.planner.uses_table(self.plan)
        has_calls = calls_any(self.plan)
        if uses_table:
            extra.append(site.pointers.stacks)
        if has_calls:
            extra.append(self.callees.context(site, self.has_stacks()))
        kinds += [x.type for x in extra]
        kinds += [INT, INT, INT] if self.is_shared else []  # from, to, by which worker
        function = ir.Function(site.module, ir.FunctionType(CODE, kinds), site.name)
        function.linkage = "internal"
        table = function.args[len(buffers)] if uses_table else None
        for argument in function.args[: len(buffers) + len(extra)]:
            argument.add_attribute("nonnull")
            if not (argument is table and has_calls):  # what is called changes the table, too
                argument.add_attribute("noalias")
        pointers = dict(zip(buffers, function.args, strict=False))
        b = builder_in(site.module, function.append_basic_block("entry"))
        entry, body = b.block, function.append_basic_block("body")
        b.position_at_end(body)
        worker = function.args[-1] if self.is_shared else None
        places = _Places(self, b, pointers, table, worker)
        em = Emitter(b, self.fail, places, self.callees.planner)
        if has_calls:
            em.callees, em.context = self.callees, function.args[-1]
        if self.is_shared:
            em.shared, em.part = self.plan.order[0], tuple(function.args[-3:-1])
        values = [
            self._input(em, pointers, x, v.type, interval)
            for x, v, interval in zip(
                self.inputs, self.plan.program.inputs, self.ranges, strict=True
            )
        ]
        results = em.run(self.plan, values)
        is_first = b.icmp_signed("==", em.part[0], INT(0)) if self.is_shared else None
        with b.if_then(is_first) if is_first is not None else nullcontext():
            self._write_results(b, results, pointers)
        b.ret(FINE)
        b.position_at_end(entry)
        b.branch(body)
        if max(len(block.instructions) for block in function.blocks) < STRAIGHT:
            note_numbers_in_loops(site.module)
        given = [*[site.base(x) for x in buffers], *extra]
        if self.is_shared:
            keep_apart(function)
            rounds, name = self.equation.params["region"].count, f"{site.name}_rounds"
            by = lambda b: b.function.args[-1]
            some = lambda b, given, low, high: call_step(b, function, [*given, low, high, by(b)])
            spread(site.b, name, given, some, rounds, self.workers)
        else:
            call_step(site.b, function, given)

    def _write_results(self, b: ir.IRBuilder, results: list[Value], pointers: Any) -> None:
        for v, view in zip(results, self.outputs, strict=True):
            if isinstance(v, Small):
                write(b, v, Memory(pointers[view.buffer], view))
            elif isinstance(v, Stack):
                write_stack(b, v, pointers[view.buffer])

    def _input(self, em: Emitter, pointers: Any, x: Any, t: Any, interval: Any) -> Value:
        if isinstance(x, np.ndarray) and x.ndim:
            return constant(x)
        if not isinstance(x, View):
            return small(t.shape, [number(x, t.dtype)] * t.size, t.dtype)
        if t.is_stack:
            return read_stack(em.b, pointers[x.buffer], entry_type(t))
        m = Memory(pointers[x.buffer], x)
        if is_large(t):
            return m
        v = read(em.b, m)
        for register in v.entries.flat if t.dtype.kind in "iu" else ():
            em.ranges.note(register, interval)
        return v


@dataclass(eq=False)
class _Places:
    region: Region
    b: ir.IRBuilder
    pointers: dict[Buffer, Any]
    table: ir.Value | None  # of stacks
    worker: ir.Value | None  # who has a part of all scratch memory but the results'

    @property
    def sites(self) -> dict[Home, int]:
        return self.region.sites

    def constant(self, v: Var) -> Memory:
        view = self.region.constants[v]
        return Memory(self.pointers[view.buffer], view)

    def scratch(self, home: Home) -> ir.Value:
        view = self.region.scratch[home]
        pointer = self.pointers[view.buffer]
        if self.worker is None or home in _results(self.region.plan):
            return pointer
        b, size = self.b, INT(view.buffer.size // self.region.workers)
        with b.goto_entry_block():
            return b.gep(pointer, [b.mul(self.worker, size)])


def fits(e: Equation) -> str:
    """Why a region is not of our kind; empty if it is."""
    try:
        Planner().plan_alone(_alone(e))
    except NotSmall as reason:
        return str(reason)
    return ""


def _alone(e: Equation) -> Program:
    """A Program of one equation."""
    inputs = [Var(type_of(a)) for a in e.inputs]
    alone = Equation(e.outputs, e.primitive, tuple(inputs), e.params, e.where)
    return Program(tuple(inputs), (), (alone,), e.outputs)


def lower(schedule: Schedule, e: Equation) -> bool:
    """Append the step of a region; False if it is not one of registers."""
    root = schedule.root
    if root.register_callees is None:
        root.register_callees = calls.Callees()
    callees: Callees = root.register_callees
    planner = callees.planner
    try:
        plan = planner.plan_alone(_alone(e))
    except NotSmall:
        return False
    inputs: list[Any] = []
    known = dict(schedule.program.constants)
    for j, a in enumerate(e.inputs):
        others = tuple(x for k, x in enumerate(e.inputs) if k != j)
        if j in plan.wants:
            inputs.append(schedule.own(a, others))
        elif type(a) is not Var:
            inputs.append(a)
        elif a in schedule.numbers and not is_large(a.type):
            inputs.append(schedule.numbers[a])
        elif a in known and not is_large(a.type):
            inputs.append(np.asarray(getattr(known[a], "_v", known[a])))
        else:
            inputs.append(schedule.in_memory(a))
    ranges = [schedule.range_of(a) if type(a) is Var else (0, 0) for a in e.inputs]
    step = Region(e, plan, callees, inputs, [], fail=schedule.fail, ranges=ranges)
    step.has_stacks = lambda: root.stacks.are_used
    callees.prepare(schedule)
    step.sites.update(callees.sites)
    if planner.uses_table(plan):
        schedule.stacks.are_used = True
    for p in plan.all_plans():
        step.sites.update({home: schedule.stacks.new_site() for home in p.stacks()})
        step.constants.update(large_constants(schedule, p))
    scratch = {home: t for p in plan.all_plans() for home, t in p.scratch.items()}
    step.workers = _workers(step, scratch)
    results = _results(plan)
    for home, t in scratch.items():
        several = (step.workers,) if step.is_shared and home not in results else ()
        step.scratch[home] = schedule.new_buffer((*several, *t.shape), t.dtype)
    for v in e.outputs:
        if is_large(v.type):
            home = plan.homes[v]
            view = inputs[home[1]] if home[0] == "input" else step.scratch[home]
        elif v.type.is_stack:
            view = schedule.new_buffer((stacks.WIDTH,), INDEX.dtype)
        else:
            view = schedule.new_buffer(v.shape, v.dtype)
        step.outputs.append(view)
        schedule.views[v] = view
    schedule.steps.append(step)
    at = len(schedule.steps) - 1
    for v, view in zip(e.outputs, step.outputs, strict=True):
        home = plan.homes.get(v, ("out",))
        if home[0] != "input" or home[1] in plan.wants:
            schedule.ready[view.buffer] = at
    return True


def _results(plan: Plan) -> set[Home]:
    """The memory of a region's results."""
    (e,) = plan.order
    return {key(e, "out", o) for o in range(len(e.outputs))}


def _workers(step: Region, scratch: dict[Home, Type]) -> int:
    """How many workers may share a long loop: one that works in registers and little memory, and writes entries
    that are each round's own."""
    (e,), region = step.plan.order, step.equation.params["region"]
    if not isinstance(region, Loop) or step.seconds <= sweep.LONG or not rounds_are_free(region):
        return 1
    needs = step.callees.planner.uses_table(step.plan) or calls_any(step.plan)
    small = any(not is_large(v.type) for v in e.outputs[:-1])
    inner = [t for home, t in scratch.items() if home not in _results(step.plan)]
    at_first = any(home[0] == id(e) and home[1] != "out" for home in scratch)  # before all rounds
    much = sum(t.size * t.dtype.itemsize for t in inner) > GATHERED
    return 1 if needs or small or at_first or much else most_workers()


def _size(plan: Plan) -> int:
    return len(plan.order) + sum(_size(p) for ps in plan.inner.values() for p in ps)


def _flops(plan: Plan, guess: int) -> int:
    from ..elementwise import FUNCTIONS

    total = 0
    for e in plan.order:
        rounds = 1
        if e.primitive.name == "loop":
            count = e.params["region"].count
            rounds = guess if count is None else count
        inner = sum(_flops(p, guess) for p in plan.inner.get(id(e), ()))
        inner += CALLED if e.primitive.name == "call" else 0
        total += rounds * inner + (FUNCTION_FLOPS if e.primitive.name in FUNCTIONS else 1)
    return total
