"""A region of registers as one step of a schedule: a function of the pointers to the arrays it touches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ....ir import Equation, Program, Var, type_of
from ....regions import INDEX
from .. import stacks
from ..failure import CODE, FINE, call_step
from ..fastmath import builder_in
from ..numbers.registers import memory_type, number
from ..steps import FUNCTION_FLOPS, Site, Step
from ..views import Buffer, View
from . import arrays, boxes, calls, control, indices  # noqa: F401 - their rules
from .calls import Callees, large_constants
from .emitter import Emitter
from .order import NotSmall
from .plan import Home, Plan, Planner
from .plan import calls as calls_any
from .sequences import entry_type, read_stack, write_stack
from .values import Memory, Small, Stack, Value, constant, is_large, read, small, write

if TYPE_CHECKING:
    from ..schedule import Schedule

ROUNDS = 1000  # of a loop without a known number
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

    def buffers(self) -> list[Buffer]:
        views = [v for v in self.inputs if isinstance(v, View)]
        views += [*self.outputs, *self.constants.values(), *self.scratch.values()]
        return list(dict.fromkeys(v.buffer for v in views))

    @property
    def flops(self) -> int:
        return _flops(self.plan)

    def describe(self) -> str:
        return f"{self.equation.primitive.name} in registers: {_size(self.plan)} equations"

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
        function = ir.Function(site.module, ir.FunctionType(CODE, kinds), site.name)
        function.linkage = "internal"
        table = function.args[len(buffers)] if uses_table else None
        for argument in function.args:
            argument.add_attribute("nonnull")
            if not (argument is table and has_calls):  # what is called changes the table, too
                argument.add_attribute("noalias")
        pointers = dict(zip(buffers, function.args, strict=False))
        b = builder_in(site.module, function.append_basic_block("entry"))
        entry, body = b.block, function.append_basic_block("body")
        b.position_at_end(body)
        em = Emitter(b, self.fail, _Places(self, pointers, table), self.callees.planner)
        if has_calls:
            em.callees, em.context = self.callees, function.args[-1]
        values = [
            self._input(em, pointers, x, v.type, interval)
            for x, v, interval in zip(
                self.inputs, self.plan.program.inputs, self.ranges, strict=True
            )
        ]
        results = em.run(self.plan, values)
        for v, view in zip(results, self.outputs, strict=True):
            if isinstance(v, Small):
                write(b, v, Memory(pointers[view.buffer], view))
            elif isinstance(v, Stack):
                write_stack(b, v, pointers[view.buffer])
        b.ret(FINE)
        b.position_at_end(entry)
        b.branch(body)
        call_step(site.b, function, [*[site.base(x) for x in buffers], *extra])

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
    pointers: dict[Buffer, Any]
    table: ir.Value | None  # of stacks

    @property
    def sites(self) -> dict[Home, int]:
        return self.region.sites

    def constant(self, v: Var) -> Memory:
        view = self.region.constants[v]
        return Memory(self.pointers[view.buffer], view)

    def scratch(self, home: Home) -> ir.Value:
        return self.pointers[self.region.scratch[home].buffer]


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
    for p in plan.all_plans():
        for home, t in p.scratch.items():
            step.scratch[home] = schedule.new_buffer(t.shape, t.dtype)
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


def _size(plan: Plan) -> int:
    return len(plan.order) + sum(_size(p) for ps in plan.inner.values() for p in ps)


def _flops(plan: Plan) -> int:
    from ..elementwise import FUNCTIONS

    total = 0
    for e in plan.order:
        rounds = 1
        if e.primitive.name == "loop":
            count = e.params["region"].count
            rounds = ROUNDS if count is None else count
        inner = sum(_flops(p) for p in plan.inner.get(id(e), ()))
        inner += CALLED if e.primitive.name == "call" else 0
        total += rounds * inner + (FUNCTION_FLOPS if e.primitive.name in FUNCTIONS else 1)
    return total
