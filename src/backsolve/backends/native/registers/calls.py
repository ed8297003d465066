"""Calls: each callee is a function of its own, emitted once, which may call itself.

Registers are its arguments and, behind a code, its result; large arrays go by pointer, large results into
memory of the caller's. All callees get a context, words of the function that the step is:

    the table of stacks, the lowest address that the machine's stack may grow to, the large constants
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from ....ir import Equation, Type, Var
from ....regions import Callee
from .. import stacks
from ..failure import CODE, FINE
from ..fastmath import builder_in
from ..numbers.registers import memory_type, register_type
from ..views import View
from .emitter import Emitter, rule
from .plan import Home, Plan, key
from .values import INT, Memory, Stack, Value, flat, is_large, like, small, whole

WORDS = stacks.WORDS
TABLE, LIMIT, CONSTANTS = range(3)  # words of the context
_SPARE = 4  # the share of the machine's stack that is left to others


def stack_bytes() -> int:
    """How much of the machine's stack calls may take."""
    size = 8 << 20
    if sys.platform == "win32":
        size = 1 << 20
    else:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_STACK)
        if 0 < limit < size:
            size = limit
    return size - size // _SPARE


def here(b: ir.IRBuilder) -> ir.Value:
    """Where the frame of this function lies."""
    kind = ir.FunctionType(ir.IntType(8).as_pointer(), [ir.IntType(32)])
    name = "llvm.frameaddress.p0"
    function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    return b.ptrtoint(b.call(function, [ir.IntType(32)(0)]), INT)


class Callees:
    """The functions of one step."""

    def __init__(self, name: str, constants: dict[Var, View], sites: dict[Home, int]):
        self.name, self.constants, self.sites = name, constants, sites
        self.functions: dict[int, ir.Function] = {}

    def function(self, em: Emitter, callee: Callee) -> ir.Function:
        found = self.functions.get(id(callee))
        if found is None:
            found = self._emit(em, callee)
        return found

    def _emit(self, em: Emitter, callee: Callee) -> ir.Function:
        plan, module = em.planner.callees[id(callee)], em.b.module
        types = [v.type for v in plan.program.inputs]
        results = [k for t in callee.types if not is_large(t) for k in kinds(t)]
        outs = [t for t in callee.types if is_large(t)]
        given = [k for t in types for k in kinds(t)] + [k for t in outs for k in kinds(t)]
        signature = ir.FunctionType(ir.LiteralStructType([CODE, *results]), [WORDS, *given])
        name = f"{self.name}_call{len(self.functions)}"
        function = self.functions[id(callee)] = ir.Function(module, signature, name)
        function.linkage = "internal"
        b = builder_in(module, function.append_basic_block("entry"))
        entry, body = b.block, function.append_basic_block("body")
        b.position_at_end(body)
        inside = _Inside(b, em, self, function, plan)
        inside.in_recursion = em.planner.is_recursive(callee)
        if inside.in_recursion:
            low = b.icmp_unsigned("<", here(b), inside.word(LIMIT))
            inside.fail_if(low, RecursionError, f"`{callee.name}` calls itself too many times")
        registers = list(function.args[1:])
        values = [_taken(t, registers) for t in types]
        targets = [_taken(t, registers) for t in outs]
        inside.finish(values, targets, callee.types)
        b.position_at_end(entry)
        inside.close(body)
        return function


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
        results = self.run(plan, values)
        for v, m in zip(results, places, strict=True):
            if m is not None and not (isinstance(v, Memory) and v.pointer is m.pointer):
                self.copy(v, m)
        if mark is not None and not any(t.is_stack for t in types):
            stacks.release_nodes(self.b, self.table, mark)
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
    args: list[ir.Value] = [em.context]
    for j, (v, t) in enumerate(zip(inputs, types, strict=True)):
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
    result = em.b.call(em.callees.function(em, callee), args, tail="notail")
    code = em.b.extract_value(result, 0)
    with em.b.if_then(em.b.icmp_unsigned("!=", code, FINE), likely=False):
        em.leave(code)
    count = len(result.type.elements) - 1
    registers = [em.b.extract_value(result, 1 + k) for k in range(count)]
    return [made[o] if o in made else _taken(v.type, registers) for o, v in enumerate(e.outputs)]
