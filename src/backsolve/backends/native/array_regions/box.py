"""Boxes from and to arrays (boxes.py): their values are copied into a record, and out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir

from ....ir import Equation, Type
from .. import boxes, stacks
from ..failure import fail_if
from ..steps import INT, POINTER, Site, Step
from ..views import Buffer, View
from .inside import in_memory, in_one_piece

if TYPE_CHECKING:
    from ..schedule import Schedule


@dataclass(eq=False)
class BoxStep(Step):
    types: Sequence[Type]
    values: list[View]
    words: View
    no_memory: int

    def buffers(self) -> list[Buffer]:
        return list(dict.fromkeys(v.buffer for v in (*self.values, self.words)))

    def emit(self, site: Site) -> None:
        b = site.b
        starts, size = boxes.places(self.types)
        address = boxes.take(b, site.pointers.stacks, size)
        none = b.icmp_unsigned("==", address, ir.Constant(POINTER, None))
        fail_if(b, none, self.no_memory)
        for start, t, view in zip(starts, self.types, self.values, strict=True):
            _copy(b, b.gep(address, [INT(start)]), site.address(view), t)
        words = site.base(self.words.buffer)
        length = INT(1 if self.types else 0)
        for n, x in enumerate((b.ptrtoint(address, INT), INT(0), length)):
            stacks.set_word(b, words, n, x)

    def describe(self) -> str:
        return f"box of {len(self.types)}"


@dataclass(eq=False)
class UnboxStep(Step):
    types: Sequence[Type]
    words: View
    values: list[View]

    def buffers(self) -> list[Buffer]:
        return list(dict.fromkeys(v.buffer for v in (self.words, *self.values)))

    def emit(self, site: Site) -> None:
        b = site.b
        words = site.address(self.words)
        address = b.inttoptr(stacks.word(b, words, 0), POINTER)
        record = boxes.record(b, address, stacks.word(b, words, 2), self.types)
        starts, _ = boxes.places(self.types)
        for start, t, view in zip(starts, self.types, self.values, strict=True):
            _copy(b, site.base(view.buffer), b.gep(record, [INT(start)]), t)

    def describe(self) -> str:
        return f"unbox {len(self.types)}"


def _copy(b: ir.IRBuilder, target: ir.Value, source: ir.Value, t: Type) -> None:
    memcpy = b.module.declare_intrinsic("llvm.memcpy", [POINTER, POINTER, INT])
    raw = [b.bitcast(x, POINTER) for x in (target, source)]
    b.call(memcpy, [*raw, INT(boxes.bytes_of(t)), ir.IntType(1)(0)])


def lower_box(schedule: Schedule, e: Equation) -> None:
    types = e.params["region"].layout.types
    values = [in_one_piece(schedule, a, in_memory(t)) for a, t in zip(e.inputs, types, strict=True)]
    (words,) = _made(schedule, e)
    code = schedule.fail(*boxes.NO_MEMORY)
    _put(schedule, BoxStep(types, values, words, code), [words])


def lower_unbox(schedule: Schedule, e: Equation) -> None:
    words = schedule.in_memory(e.inputs[0])
    values = _made(schedule, e)
    _put(schedule, UnboxStep(e.params["region"].layout.types, words, values), values)


def _made(schedule: Schedule, e: Equation) -> list[View]:
    for v in e.outputs:
        t = in_memory(v.type)
        schedule.views[v] = schedule.new_buffer(t.shape, t.dtype)
    return [schedule.views[v] for v in e.outputs]


def _put(schedule: Schedule, step: Step, made: list[View]) -> None:
    schedule.root.stacks.are_used = True
    schedule.steps.append(step)
    for view in made:
        schedule.ready[view.buffer] = len(schedule.steps) - 1
