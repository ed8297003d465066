"""Calls of Programs: each Program that is called is one function, whoever calls it.

A recursive one is under way several times at once: each activation has memory of its own, on the machine's
stack where it is little; where that stack comes to its end, the call fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ....ir import Equation
from ....regions import Callee
from .. import boxes, stacks
from ..emission import FUNCTION, emit_function, places
from ..entry import ALIGNMENT
from ..failure import call_step, fail_if
from ..interpreter import foreign
from ..machine_stack import here
from ..steps import INT, POINTER, Pointers, Site, Step
from ..views import Buffer, View
from .heirs import pairs_of
from .inside import Inside, in_memory, in_one_piece, owned
from .region import Region, Table

if TYPE_CHECKING:
    from ..schedule import Schedule

GUESS = 100  # activations of a recursive function
LITTLE = 1024  # bytes of an arena that lies there
NO_MEMORY = (MemoryError, "no memory for a call")


@dataclass(eq=False)
class Called:
    """A callee in a program: its function is emitted once."""

    callee: Callee
    number: int
    pairs: dict[int, int]  # outputs in the memory of inputs
    too_deep: int
    no_memory: int
    region: Region | None = None  # None while it is being scheduled

    @property
    def name(self) -> str:
        return f"callee{self.number}"

    def function(self, module: ir.Module) -> Any:
        known = module.globals.get(self.name)
        if known is not None:
            return known
        assert self.region is not None
        if not self.callee.is_recursive:
            function = emit_function(module, self.name, self.region.schedule)
            function.attributes.add("noinline")  # it is called from many places
            function.linkage = "internal"
            return function
        function = ir.Function(module, FUNCTION, self.name)
        function.linkage = "internal"
        body = emit_function(module, f"{self.name}_body", self.region.schedule)
        body.linkage = "internal"
        self._activate(function, body)
        return function

    def _activate(self, function: ir.Function, body: ir.Function) -> None:
        """Memory for one activation, around its body."""
        assert self.region is not None
        b = ir.IRBuilder(function.append_basic_block("entry"))
        table, _ = function.args
        size = self.region.arena_bytes
        limit = b.load(b.gep(table, [INT(places(self.region.schedule)["limit"])]))
        fail_if(b, b.icmp_unsigned("<", here(b), b.ptrtoint(limit, INT)), self.too_deep)
        clean = self._cleaner(b, table)
        if size <= LITTLE:
            place = b.alloca(ir.IntType(8), size=size + ALIGNMENT)
            code = b.call(body, [table, _aligned(b, place)])
            clean()
            b.ret(code)
            return
        memory = foreign(b, "PyMem_RawMalloc", POINTER, [INT(size + ALIGNMENT)])
        none = b.icmp_unsigned("==", memory, ir.Constant(POINTER, None))
        fail_if(b, none, self.no_memory)
        code = b.call(body, [table, _aligned(b, memory)])
        foreign(b, "PyMem_RawFree", ir.VoidType(), [memory])
        clean()
        b.ret(code)

    def _cleaner(self, b: ir.IRBuilder, table: ir.Value) -> Callable[[], None]:
        """What gives back the stacks of an activation, if none of them outlives it."""
        assert self.region is not None
        schedule = self.region.schedule
        if self.region.gives_stacks or not (schedule.sites or self.region.makes_boxes):
            return lambda: None
        found = Pointers(b, table, table, places(schedule)).stacks
        mark = stacks.nodes_in_use(b, found)
        heap = boxes.mark(b, found) if self.region.makes_boxes else None

        def clean() -> None:
            stacks.release_nodes(b, found, mark)
            if heap is not None:
                boxes.release(b, found, heap)

        return clean


def _aligned(b: ir.IRBuilder, memory: ir.Value) -> ir.Value:
    up = b.add(b.ptrtoint(memory, INT), INT(ALIGNMENT - 1))
    return b.inttoptr(b.and_(up, INT(-ALIGNMENT)), POINTER)


@dataclass(eq=False)
class CallStep(Step):
    called: Called
    given: list[View]
    taken: list[View]
    room: View | None  # None for a recursive function, which has its own
    is_first: bool  # the one that shows what it calls

    def buffers(self) -> list[Buffer]:
        views = [*self.given, *self.taken, *([self.room] if self.room is not None else [])]
        return list(dict.fromkeys(v.buffer for v in views))

    def inner_steps(self) -> list[Step]:
        region = self.called.region
        return list(region.steps) if self.is_first and region is not None else []

    @property
    def flops(self) -> int:
        activations = GUESS if self.called.callee.is_recursive else 1
        return activations * sum(step.flops for step in self.inner_steps())

    @property
    def seconds(self) -> float:
        activations = GUESS if self.called.callee.is_recursive else 1
        return activations * sum(step.seconds for step in self.inner_steps())

    def describe(self) -> str:
        region = self.called.region
        if not self.is_first or region is None:
            return f"call {self.called.callee.name}"
        return f"call {self.called.callee.name}:\n{region.describe()}"

    def emit(self, site: Site) -> None:
        b, region = site.b, self.called.region
        assert region is not None
        table = Table(site, region.schedule)
        for k, view in enumerate(self.given):
            table.give(k, site.address(view))
        for k, view in enumerate(self.taken):
            table.take(k, site.base(view.buffer))
        arena = ir.Constant(POINTER, None)
        if self.room is not None:
            arena = b.bitcast(site.base(self.room.buffer), POINTER)
        call_step(b, self.called.function(site.module), [table.pointer, arena])


def lower_call(schedule: Schedule, e: Equation) -> None:
    callee: Callee = e.params["region"]
    assert callee.program is not None
    is_first = callee not in schedule.callees
    called = _scheduled(schedule, callee) if is_first else schedule.callees[callee]
    types = [in_memory(v.type) for v in callee.program.inputs]
    outs = [in_memory(t) for t in callee.types]
    given = []
    for i, (a, t) in enumerate(zip(e.inputs, types, strict=True)):
        if i in called.pairs.values():
            others = [*e.inputs[:i], *e.inputs[i + 1 :]]
            given.append(owned(schedule, a, t, others))
        else:
            given.append(in_one_piece(schedule, a, t))
    taken = [
        given[called.pairs[k]] if k in called.pairs else schedule.new_buffer(t.shape, t.dtype)
        for k, t in enumerate(outs)
    ]
    room = None
    if not callee.is_recursive:
        assert called.region is not None
        room = schedule.new_buffer((called.region.arena_bytes,), np.dtype(np.uint8))
        schedule.sites += called.region.schedule.sites
    schedule.steps.append(CallStep(called, given, taken, room, is_first))
    for var, view in zip(e.outputs, taken, strict=True):
        schedule.views[var] = view
        schedule.ready[view.buffer] = len(schedule.steps) - 1


def _scheduled(schedule: Schedule, callee: Callee) -> Called:
    program, root = callee.program, schedule.root
    assert program is not None
    codes = schedule.fail(RecursionError, callee.too_deep), schedule.fail(*NO_MEMORY)
    called = Called(callee, len(root.callees), pairs_of(callee), *codes)
    root.callees[callee] = called
    types = [in_memory(t) for t in callee.types]
    recurs = callee.is_recursive or (schedule.inside is not None and schedule.inside.recurs)
    called.region = Region(program, Inside(root, types, pairs=called.pairs, recurs=recurs))
    return called
