"""The equations of a region as straight code: one rule for each, by name, over values (values.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from ....ir import Equation, Type, Var, is_uniform
from .. import stacks
from ..elementwise import emit
from ..failure import CODE, placed
from ..numbers.integer import OUTGROWS, OVERFLOW, is_python_integer
from ..numbers.refusals import is_possible, refusal
from ..numbers.registers import Register, convert, memory_type, number, select
from .moving import copy
from .plan import Home, Plan, Planner, key
from .ranges import ANY, Ranges
from .values import (
    INT,
    Memory,
    Small,
    Stack,
    Value,
    constant,
    is_large,
    mapped,
    read,
    scalar,
    whole,
    write,
)

INT64 = np.dtype(np.int64)
Rule = Callable[["Emitter", Plan, Equation, list[Any]], Any]
RULES: dict[str, Rule] = {}  # by primitive; filled by the files of this folder


def rule(*names: str) -> Callable[[Rule], Rule]:
    def put(f: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, f))
        return f

    return put


class Emitter:
    """The code of one LLVM function. `places` finds memory: of constants, and what plans ask for."""

    in_recursion = False  # the function may be at work several times at once
    shared: Equation | None = None  # a loop of which the function does a part
    part: tuple[ir.Value, ir.Value]  # the first round of it, and the one behind the last
    context: ir.Value  # for callees
    callees: Any

    def __init__(self, b: ir.IRBuilder, fail: Callable[..., int], places: Any, planner: Planner):
        self.b, self.fail, self.places, self.planner = b, fail, places, planner
        self.ranges = Ranges()
        self.inline = False  # functions: in loops that LLVM may make loops of vectors
        self.given: dict[Home, Memory] = {}  # memory of results that somebody chose

    def run(self, plan: Plan, inputs: Sequence[Value]) -> list[Value]:
        """The outputs of a Program."""
        program = plan.program
        values: dict[Var, Any] = {}  # a Value, or a Part for the one rule that reads it
        for v, x in zip(program.inputs, inputs, strict=True):
            values[v] = self.as_type(x, v.type)
        for v, c in program.constants:
            values[v] = self._constant(v, c)
        for e in plan.order:
            if e.outputs and e.outputs[0] in plan.parts:
                part = Part(e, [self.value(a, values, e) for a in e.inputs])
                values[e.outputs[0]] = part
                continue
            found = [self.value(a, values, e) for a in e.inputs]
            made = RULES.get(e.primitive.name, elementwise)(self, plan, e, found)
            several = made if isinstance(made, list) else [made]
            values.update(zip(e.outputs, several, strict=True))
        return [self.value(a, values, None) for a in program.outputs]

    def value(self, a: Any, values: dict[Var, Value], e: Equation | None) -> Value:
        """Of an atom; a bare Python number takes the dtype of its company."""
        if type(a) is Var:
            return values[a]
        dtype = np.dtype(type(a))
        if e is not None and len(e.outputs) == 1:
            out = e.outputs[0].dtype
            dtype = (
                max(dtype, out, key=lambda t: "biufc".index(t.kind))
                if dtype.kind != out.kind
                else out
            )
        return scalar(number(a, dtype), dtype)

    def as_type(self, v: Value, t: Type) -> Value:
        if not isinstance(v, Small) or v.dtype == t.dtype:
            return v
        return self.cast(v, t.dtype)

    def cast(self, v: Small, dtype: np.dtype[Any]) -> Small:
        return mapped(lambda x: convert(self.b, x, v.dtype, dtype), v.shape, dtype, v)

    def _constant(self, v: Var, value: Any) -> Value:
        raw = np.asarray(getattr(value, "_v", value))
        if not is_large(v.type):
            return constant(raw)
        if is_uniform(raw):
            return self.uniform(raw.flat[0], v.type)
        return self.places.constant(v)

    def uniform(self, x: Any, t: Type) -> Memory:
        """One number everywhere, from one place in memory."""
        kind = memory_type(t.dtype)
        module = self.b.module
        cell = ir.GlobalVariable(module, kind, module.get_unique_name("number"))
        if t.dtype.kind == "c":
            cell.initializer = ir.Constant(kind, list(number(x, t.dtype)))
        else:
            cell.initializer = ir.Constant(kind, number(x, t.dtype).constant)
        cell.global_constant, cell.linkage = True, "internal"
        one = whole(cell, (), t.dtype)
        return Memory(cell, one.view.broadcast(t.shape))

    # ---- failures

    def fail_if(self, condition: ir.Value, kind: type[Exception], message: str) -> None:
        with self.b.if_then(condition, likely=False):
            self.leave(CODE(self.fail(kind, message)))

    def leave(self, code: ir.Value) -> None:
        self.b.ret(code)

    # ---- stacks

    @property
    def table(self) -> ir.Value:
        return self.places.table

    def site(self, home: Home) -> int | None:
        """Where a stack is made; None for one of the pool."""
        found: int | None = self.places.sites.get(home)
        return found

    def descriptor(self, home: Home, plan: Plan) -> ir.Value:
        site = self.site(home)
        if site is not None:
            return stacks.descriptor(self.b, self.table, site)
        node = stacks.take_node(self.b, self.table)
        nothing = self.b.icmp_unsigned("==", node, ir.Constant(node.type, None))
        self.fail_if(nothing, MemoryError, "no memory for a stack")
        return node

    # ---- memory

    def slot(self, count: int, dtype: np.dtype[Any]) -> ir.Value:
        """A few entries on the machine's stack."""
        with self.b.goto_entry_block():
            return self.b.alloca(memory_type(dtype), size=INT(max(count, 1)))

    def spilled(self, v: Value) -> Memory:
        """In memory, to be indexed by what is not known yet."""
        if isinstance(v, Memory):
            return v
        assert isinstance(v, Small)
        m = whole(self.slot(v.entries.size, v.dtype), v.shape, v.dtype)
        write(self.b, v, m)
        return m

    def in_registers(self, v: Value) -> Small:
        if isinstance(v, Memory):
            return read(self.b, v)
        assert isinstance(v, Small)
        return v

    def made(self, e: Equation, o: int) -> Memory:
        """Memory for output `o` of an equation."""
        return self.memory(key(e, "out", o), e.outputs[o].type)

    def memory(self, home: Home, t: Type) -> Memory:
        if home in self.given:
            return self.given[home]
        if not is_large(t):
            return whole(self.slot(t.size, t.dtype), t.shape, t.dtype)
        return whole(self.places.scratch(home), t.shape, t.dtype)

    def writable(self, plan: Plan, e: Equation, position: int, v: Any) -> Any:
        """An input that may be overwritten: itself, or a copy if the plan says so."""
        home = key(e, "copy", position)
        if not isinstance(v, Memory) or home not in plan.copied:
            return v
        target = self.memory(home, Type(v.shape, v.dtype))
        self.copy(v, target)
        return target

    def copy(self, source: Value, target: Memory) -> None:
        """Entry for entry; `source` broadcasts."""
        assert not isinstance(source, Stack)
        copy(self.b, source, target)

    # ---- indices

    def index(self, i: Register, size: int, axis: int, where: str) -> ir.Value:
        """Index `i`, an int64, as one from 0 to size − 1."""
        low, high = self.ranges.of(i)
        if low < 0:
            if isinstance(i, ir.Constant):
                i = INT(i.constant + size)
            else:
                i = self.b.select(self.b.icmp_signed("<", i, INT(0)), self.b.add(i, INT(size)), i)
        if low < -size or high >= size:
            message = f"an index is out of bounds for axis {axis} with size {size}"
            message = placed(message, where)
            if self.fail(IndexError, message, may_go=True):
                self.fail_if(self.b.icmp_unsigned(">=", i, INT(size)), IndexError, message)
        if size > 0:
            self.ranges.note(i, (0, size - 1))
        return i

    def as_index(self, v: Small) -> Small:
        """An index array as int64, with what is known of its entries."""

        def one(x: Register) -> Register:
            y = convert(self.b, x, v.dtype, INT64)
            self.ranges.note(y, self.ranges.of(x))
            return y

        return v if v.dtype == INT64 else mapped(one, v.shape, INT64, v)

    def truth(self, v: Value) -> ir.Value:
        assert isinstance(v, Small)
        return convert(self.b, v.entries[()], v.dtype, np.dtype(bool))


class Part:
    """Entries among zeros that wait to be added to something."""

    def __init__(self, e: Equation, inputs: list[Any]):
        self.equation, self.inputs = e, inputs


def elementwise(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Small:
    out, name, b = e.outputs[0], e.primitive.name, em.b
    refused = refusal(e)
    found = [em.in_registers(v) for v in inputs]
    outgrows = OUTGROWS.get(name) if is_python_integer(e) else None

    def converted(registers: Sequence[Register]) -> list[Register]:
        return [convert(b, x, v.dtype, out.dtype) for x, v in zip(registers, found, strict=True)]

    def one(*registers: Register) -> Register:
        if refused is not None:
            kind, message, test = refused
            if is_possible(refused, *em.ranges.of(registers[-1])):
                em.fail_if(test(b, *converted(registers)), kind, placed(message, e.where))
        pairs = [(x, v.dtype) for x, v in zip(registers, found, strict=True)]
        interval = em.ranges.after(name, list(registers), out.dtype)
        if interval != ANY and interval[0] == interval[1]:
            return number(int(interval[0]), out.dtype)
        if outgrows is not None and interval == ANY:
            em.fail_if(
                outgrows(b, *converted(registers)), OVERFLOW[0], placed(OVERFLOW[1], e.where)
            )
        y = emit(b, e, pairs, em.inline)
        em.ranges.note(y, interval)
        return y

    return mapped(one, out.shape, out.dtype, *found)


def choose(b: ir.IRBuilder, which: ir.Value, options: list[Register]) -> Register:
    """options[which] of a few, without memory."""
    y = options[0]
    for k, x in enumerate(options[1:], 1):
        y = select(b, b.icmp_signed("==", which, INT(k)), x, y)
    return y
