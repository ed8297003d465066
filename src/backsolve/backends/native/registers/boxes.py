"""Boxes from and to registers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ....ir import Equation, Type
from .. import boxes, stacks
from ..numbers.registers import memory_type
from .emitter import Emitter, rule
from .plan import Plan
from .sequences import entry_type, read_stack, write_stack
from .values import INT, Memory, Stack, Value, is_large, read, whole


@rule("box")
def _box(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> Value:
    layout, b = e.params["region"].layout, em.b
    starts, size = boxes.places(layout.types)
    address = boxes.take(b, em.table, size)
    none = b.icmp_unsigned("==", address, ir.Constant(address.type, None))
    em.fail_if(none, *boxes.NO_MEMORY)
    for start, t, v in zip(starts, layout.types, inputs, strict=True):
        at = b.gep(address, [INT(start)], inbounds=True)
        if isinstance(v, Stack):
            write_stack(b, v, b.bitcast(at, stacks.WORDS))
        else:
            em.copy(em.as_type(v, t), _typed(b, at, t))
    words = b.bitcast(address, stacks.WORDS)
    return Stack(words, INT(0), INT(1 if layout.types else 0), entry_type(e.outputs[0].type))


@rule("unbox")
def _unbox(em: Emitter, plan: Plan, e: Equation, inputs: list[Any]) -> list[Value]:
    layout, b = e.params["region"].layout, em.b
    (box,) = inputs
    starts, _ = boxes.places(layout.types)
    record = boxes.record(b, box.descriptor, box.length, layout.types)
    found: list[Value] = []
    for o, (start, t) in enumerate(zip(starts, layout.types, strict=True)):
        at = b.gep(record, [INT(start)], inbounds=True)
        if t.is_stack:
            found.append(read_stack(b, b.bitcast(at, stacks.WORDS), entry_type(t)))
        elif is_large(t):
            target = em.made(e, o)
            em.copy(_typed(b, at, t), target)
            found.append(target)
        else:
            found.append(read(b, _typed(b, at, t)))
    return found


def _typed(b: ir.IRBuilder, address: ir.Value, t: Type) -> Memory:
    return whole(b.bitcast(address, memory_type(t.dtype).as_pointer()), t.shape, t.dtype)
