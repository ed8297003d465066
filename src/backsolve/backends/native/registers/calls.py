"""Calls: each callee is a function of its own, emitted once, which may call itself.

Registers are its arguments and, behind a code, its result; large arrays go by pointer, large results into
memory of the caller's. All callees get a context, words on the stack of the function that runs the step:

    the table of stacks, the lowest address that the machine's stack may grow to, the large constants
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ....ir import Equation, Type, Var, is_uniform
from ....regions import Callee
from .. import boxes, stacks
from ..failure import CODE, FINE
from ..fastmath import builder_in
from ..machine_stack import here, limit
from ..numbers.registers import memory_type, register_type
from ..steps import Site
from ..views import View
from .emitter import Emitter, rule
from .plan import Home, Plan, Planner, key
from .values import (
    INT,
    Memory,
    Small,
    Stack,
    Value,
    constant,
    flat,
    is_large,
    like,
    small,
    whole,
)

if TYPE_CHECKING:
    from ..schedule import Schedule

WORDS = stacks.WORDS
TABLE, LIMIT, CONSTANTS = range(3)  # words of the context
INLINED = 100  # instructions up to which LLVM may put a callee where it is called
VERSIONS = 8  # of a callee, for different known arguments


def large_constants(schedule: Schedule, plan: Plan) -> dict[Var, View]:
    """The constants of a Program that lie in memory."""
    found = {}
    for v, value in plan.program.constants:
        raw = np.asarray(getattr(value, "_v", value))
        if is_large(v.type) and not is_uniform(raw):
            found[v] = schedule.constant(raw)
    return found


class Callees:
    """The functions of a program, shared by all its steps, and what they need."""

    def __init__(self) -> None:
        self.planner = Planner()
        self.constants: dict[Var, View] = {}  # those too large for registers
        self.sites: dict[Home, int] = {}  # of stacks
        self.known: set[int] = set()  # callees that these are complete for
        self.functions: dict[tuple[Any, ...], ir.Function] = {}  # by callee and known arguments
        self.work: dict[Plan, int] = {}
        self.contexts: dict[ir.Function, ir.Value] = {}  # by the function that makes one

    def prepare(self, schedule: Schedule) -> None:
        """Find a place for the constants and the stacks of callees that are new."""
        planner = self.planner
        for c, plan in planner.callees.items():
            if c in self.known:
                continue
            self.known.add(c)
            recursive = c in planner.called(plan)
            for p in plan.all_plans():
                self.constants.update(large_constants(schedule, p))
                for home in () if recursive else p.stacks():
                    self.sites[home] = schedule.stacks.new_site()
            if planner.uses_table(plan):
                schedule.stacks.are_used = True

    def context(self, site: Site, has_stacks: bool) -> ir.Value:
        """Made where the function begins that `site` is in."""
        b = site.b
        found = self.contexts.get(b.function)
        if found is None:
            bases = [site.base(view.buffer) for view in self.constants.values()]
            table = site.pointers.stacks if has_stacks else None
            with b.goto_entry_block():
                words = [INT(0) if table is None else b.ptrtoint(table, INT), limit(b)]
                words += [b.ptrtoint(x, INT) for x in bases]
                found = b.alloca(INT, size=len(words))
                for k, x in enumerate(words):
                    stacks.set_word(b, found, k, x)
            self.contexts[b.function] = found
        return found

    def function(self, em: Emitter, callee: Callee, inputs: list[Any]) -> tuple[Any, list[bool]]:
        """A function for these arguments, and which of them it does not take since it knows them."""
        known = [_indices(v) for v in inputs]
        versions = sum(key[0] == id(callee) for key in self.functions)
        if (id(callee), *known) not in self.functions and versions >= VERSIONS:
            known = [None] * len(inputs)
        key = (id(callee), *known)
        if key not in self.functions:
            self._emit(em, callee, key)
        return self.functions[key], [x is not None for x in known]

    def _work(self, planner: Planner, plan: Plan) -> int:
        """About the instructions of a callee, with those that LLVM may inline into it."""
        if plan not in self.work:
            self.work[plan] = INLINED  # if it calls itself
            total = 0
            for e in (e for p in plan.all_plans() for e in p.order):
                total += sum(v.type.size for v in e.outputs if not is_large(v.type))
                if e.primitive.name == "call":
                    inner = self._work(planner, planner.callees[id(e.params["region"])])
                    total += inner if inner <= INLINED else 0
            self.work[plan] = total
        return self.work[plan]

    def _emit(self, em: Emitter, callee: Callee, key: tuple[Any, ...]) -> None:
        plan, module = em.planner.callees[id(callee)], em.b.module
        types = [v.type for v in plan.program.inputs]
        taken = [t for t, x in zip(types, key[1:], strict=True) if x is None]
        results = [k for t in callee.types if not is_large(t) for k in kinds(t)]
        outs = [t for t in callee.types if is_large(t)]
        given = [k for t in (*taken, *outs) for k in kinds(t)]
        signature = ir.FunctionType(ir.LiteralStructType([CODE, *results]), [WORDS, *given])
        name = f"register_callee{len(self.functions)}"
        function = self.functions[key] = ir.Function(module, signature, name)
        function.linkage = "internal"
        if self._work(em.planner, plan) > INLINED:
            function.attributes.add("noinline")
        b = builder_in(module, function.append_basic_block("entry"))
        entry, body = b.block, function.append_basic_block("body")
        b.position_at_end(body)
        inside = _Inside(b, em, self, function, plan)
        inside.in_recursion = em.planner.is_recursive(callee)
        if inside.in_recursion:
            low = b.icmp_unsigned("<", here(b), inside.word(LIMIT))
            inside.fail_if(low, RecursionError, callee.too_deep)
        registers = list(function.args[1:])
        values = [
            _taken(t, registers) if x is None else constant(np.array(x, t.dtype).reshape(t.shape))
            for t, x in zip(types, key[1:], strict=True)
        ]
        targets = [_taken(t, registers) for t in outs]
        inside.finish(values, targets, callee.types)
        b.position_at_end(entry)
        inside.close(body)


class _Inside(Emitter):
    """The code of a callee. What memory it needs comes from the pool, and goes back there."""

    def __init__(
        self, b: ir.IRBuilder, outer: Emitter, callees: Callees, function: ir.Function, plan: Plan
    ):
        self.callees, self.function, self.plan = callees, function, plan
        self.words: dict[int, ir.Value] = {}
        self.known: dict[Home, ir.Value] = {}
        self.nothing: ir.Value | None = None  # whether there was no memory
        super().__init__(b, outer.fail, self, outer.planner)
        self.context = function.args[0]
        self.sites = callees.sites

    def word(self, k: int) -> ir.Value:
        if k not in self.words:
            with self.b.goto_entry_block():
                self.words[k] = stacks.word(self.b, self.context, k)
        return self.words[k]

    @property
    def table(self) -> ir.Value:
        with self.b.goto_entry_block():
            return self.b.inttoptr(self.word(TABLE), WORDS)

    def constant(self, v: Var) -> Memory:
        place = CONSTANTS + list(self.callees.constants).index(v)
        with self.b.goto_entry_block():
            pointer = self.b.inttoptr(self.word(place), memory_type(v.dtype).as_pointer())
        return Memory(pointer, self.callees.constants[v])

    def scratch(self, home: Home) -> ir.Value:
        """Taken where the function begins."""
        if home not in self.known:
            t = next(p.scratch[home] for p in self.plan.all_plans() if home in p.scratch)
            table = self.table
            with self.b.goto_entry_block():
                b = self.b
                data = take_memory(b, table, INT(max(t.size * t.dtype.itemsize, 1)))
                failed = b.icmp_signed("==", data, INT(0))
                self.nothing = failed if self.nothing is None else b.or_(self.nothing, failed)
                self.known[home] = b.inttoptr(data, memory_type(t.dtype).as_pointer())
        return self.known[home]

    def leave(self, code: ir.Value) -> None:
        self._return(code, [])

    def _return(self, code: ir.Value, registers: Sequence[ir.Value]) -> None:
        result = ir.Constant(self.function.ftype.return_type, ir.Undefined)
        for k, x in enumerate([code, *registers]):
            result = self.b.insert_value(result, x, k)
        self.b.ret(result)

    def finish(self, values: list[Value], targets: list[Any], types: list[Type]) -> None:
        plan = self.plan
        into = iter(targets)
        places = [next(into) if is_large(t) else None for t in types]
        for o, m in enumerate(places):
            home = plan.result(o)
            if m is not None and home in plan.scratch and plan.leaves_once(home):
                self.given[home] = m
        mark = None
        if self.planner.takes_nodes(plan, self.in_recursion) or self.planner.has_scratch(plan):
            table = self.table
            with self.b.goto_entry_block():
                mark = stacks.nodes_in_use(self.b, table)
        keeps_boxes = any(t.is_stack for t in types) or not self.planner.makes_boxes(plan)
        heap = None if keeps_boxes else boxes.mark(self.b, self.table)
        results = self.run(plan, values)
        for v, m in zip(results, places, strict=True):
            if m is not None and not (isinstance(v, Memory) and v.pointer is m.pointer):
                self.copy(v, m)
        if mark is not None and not self.planner.hands_on_nodes(plan):
            stacks.release_nodes(self.b, self.table, mark)
        if heap is not None:
            boxes.release(self.b, self.table, heap)
        pairs = zip(results, types, strict=True)
        self._return(
            FINE, [x for v, t in pairs if not is_large(t) for x in flat(self.as_type(v, t))]
        )

    def close(self, body: Any) -> None:
        """The end of the entry block: on to the body, if there was memory."""
        if self.nothing is None:
            self.b.branch(body)
            return
        failed = self.b.append_basic_block("nothing")
        self.b.cbranch(self.nothing, failed, body)
        self.b.position_at_end(failed)
        self.leave(CODE(self.fail(MemoryError, "no memory for an array")))


def take_memory(b: ir.IRBuilder, table: ir.Value, size: ir.Value) -> ir.Value:
    """The address of so many bytes of the pool, or 0."""
    name = "stack_take_memory"
    if name not in b.module.globals:
        function = ir.Function(b.module, ir.FunctionType(INT, [WORDS, INT]), name)
        function.linkage = "internal"
        inner = ir.IRBuilder(function.append_basic_block("entry"))
        node = stacks.take_node(inner, function.args[0])
        none = inner.icmp_unsigned("==", node, ir.Constant(WORDS, None))
        with inner.if_then(none, likely=False):
            inner.ret(INT(0))
        with inner.if_then(stacks.reserve(inner, node, function.args[1]), likely=False):
            inner.ret(INT(0))
        inner.ret(stacks.word(inner, node, stacks.DATA))
    return b.call(b.module.globals[name], [table, size])


def _indices(v: Value) -> tuple[int, ...] | None:
    """An array of integers that are all known: it says where to look, and is the same in most calls."""
    if not isinstance(v, Small) or not v.shape or v.dtype.kind not in "iu" or not v.entries.size:
        return None
    if not all(isinstance(x, ir.Constant) for x in v.entries.flat):
        return None
    return tuple(int(x.constant) for x in v.entries.flat)


def kinds(t: Type) -> list[ir.Type]:
    """Of the registers that a value is passed in."""
    if t.is_stack:
        return [WORDS, INT, INT]
    if is_large(t):
        return [memory_type(t.dtype).as_pointer()]
    return [register_type(t.dtype)] * (t.size * (2 if t.dtype.kind == "c" else 1))


def _taken(t: Type, registers: list[ir.Value]) -> Value:
    """A value from the first of some registers, which are used up."""
    mine = [registers.pop(0) for _ in kinds(t)]
    if is_large(t):
        return whole(mine[0], t.shape, t.dtype)
    if t.is_stack:
        return Stack(mine[0], mine[1], mine[2], Type(t.shape[1:], t.dtype))
    return like(small(t.shape, [None] * t.size, t.dtype), mine)


@rule("call")
def _call(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> list[Value]:
    callee: Callee = e.params["region"]
    types = [v.type for v in em.planner.callees[id(callee)].program.inputs]
    function, known = em.callees.function(em, callee, inputs)
    args: list[ir.Value] = [em.context]
    for j, (v, t) in enumerate(zip(inputs, types, strict=True)):
        if known[j]:
            continue
        if not is_large(t):
            args += flat(em.as_type(v, t))
            continue
        if not v.view.is_contiguous:
            target = em.memory(key(e, "copy", j), t)
            em.copy(v, target)
            v = target
        args.append(em.b.gep(v.pointer, [INT(v.view.offset)], inbounds=True))
    made = {o: em.made(e, o) for o, v in enumerate(e.outputs) if is_large(v.type)}
    args += [m.pointer for m in made.values()]
    # A call that LLVM turned into a jump would never reach the limit of the stack.
    result = em.b.call(function, args, tail="notail")
    code = em.b.extract_value(result, 0)
    with em.b.if_then(em.b.icmp_unsigned("!=", code, FINE), likely=False):
        em.leave(code)
    count = len(result.type.elements) - 1
    registers = [em.b.extract_value(result, 1 + k) for k in range(count)]
    return [made[o] if o in made else _taken(v.type, registers) for o, v in enumerate(e.outputs)]
