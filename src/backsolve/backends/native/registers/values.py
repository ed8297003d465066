"""What a variable is while a region is emitted: registers, a place in memory, or a stack.

A value of few entries is an array of registers, so that slicing, permuting and joining it are NumPy's own
operations, done while compiling. Everything larger is a strided view behind a pointer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from ....ir import Shape, Type
from ..numbers.registers import Complex, Register, load, number, parts, store
from ..views import Buffer, View, size_of

INT = ir.IntType(64)
SMALL = 16  # entries that are kept in registers


@dataclass(eq=False, slots=True)
class Small:
    entries: np.ndarray[Any, Any]  # of registers
    dtype: np.dtype[Any]

    @property
    def shape(self) -> Shape:
        return self.entries.shape


@dataclass(eq=False, slots=True)
class Memory:
    pointer: ir.Value  # typed
    view: View  # its buffer stands for whatever the pointer points to

    @property
    def shape(self) -> Shape:
        return self.view.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.view.dtype

    def part(self, imaginary: np.ndarray[Any, Any]) -> Memory:
        return Memory(self.pointer, self.view.with_(imaginary))

    def moved(self, b: ir.IRBuilder, by: ir.Value) -> Memory:
        return Memory(b.gep(self.pointer, [by], inbounds=True), self.view)

    def address(self, b: ir.IRBuilder, place: Sequence[int]) -> ir.Value:
        """Of the entry at a place that is known while compiling."""
        at = self.view.offset + sum(i * s for i, s in zip(place, self.view.strides, strict=True))
        return b.gep(self.pointer, [INT(at)], inbounds=True)


@dataclass(eq=False, slots=True)
class Stack:
    """Entries at data + (start + k) of what `descriptor` describes (stacks.py)."""

    descriptor: ir.Value
    start: ir.Value
    length: ir.Value
    entry: Type


Array = Small | Memory
Value = Array | Stack


def moved(v: Array, f: Callable[[Any], Any]) -> Array:
    """A NumPy operation on the array of registers, or on the strides of a view."""
    return Small(f(v.entries), v.dtype) if isinstance(v, Small) else v.part(f(v.view.imaginary))


def is_large(t: Type) -> bool:
    return not t.is_stack and t.size > SMALL


def whole(pointer: ir.Value, shape: Shape, dtype: np.dtype[Any]) -> Memory:
    return Memory(pointer, View.whole(Buffer("local", size_of(shape), dtype), shape))


def small(shape: Shape, entries: Iterable[Register], dtype: np.dtype[Any]) -> Small:
    found = list(entries)
    flat = np.empty(len(found), object)
    for k, x in enumerate(found):  # one by one: a complex number is a tuple
        flat[k] = x
    return Small(flat.reshape(shape), np.dtype(dtype))


def scalar(register: Register, dtype: np.dtype[Any]) -> Small:
    return small((), [register], dtype)


def constant(raw: np.ndarray[Any, Any]) -> Small:
    return small(raw.shape, [number(x, raw.dtype) for x in raw.flat], raw.dtype)


def mapped(f: Callable[..., Register], shape: Shape, dtype: np.dtype[Any], *inputs: Small) -> Small:
    """Entry by entry; what broadcasting merely repeats is computed once."""
    spread = [np.broadcast_to(v.entries, shape) for v in inputs]
    done: dict[tuple[int, ...], Register] = {}
    entries = []
    for place in np.ndindex(shape):
        registers = [x[place] for x in spread]
        key = tuple(id(x) for x in registers)
        if key not in done:
            done[key] = f(*registers)
        entries.append(done[key])
    return small(shape, entries, dtype)


def read(b: ir.IRBuilder, m: Memory) -> Small:
    """All entries into registers."""
    entries = [load(b, m.address(b, place), m.dtype) for place in np.ndindex(m.shape)]
    return small(m.shape, entries, m.dtype)


def write(b: ir.IRBuilder, v: Small, m: Memory) -> None:
    for place in np.ndindex(m.shape):
        store(b, v.entries[place], m.address(b, place), m.dtype)


def flat(v: Value) -> list[ir.Value]:
    """The registers that change from round to round, or from branch to branch."""
    if isinstance(v, Small):
        return [p for x in v.entries.flat for p in parts(x)]
    return [v.descriptor, v.start, v.length] if isinstance(v, Stack) else []


def like(v: Value, registers: Sequence[ir.Value]) -> Value:
    """A value of the same kind in other registers."""
    if isinstance(v, Stack):
        descriptor, start, length = registers
        return Stack(descriptor, start, length, v.entry)
    if isinstance(v, Memory):
        return v
    if v.dtype.kind == "c":
        pairs = [Complex(*registers[k : k + 2]) for k in range(0, len(registers), 2)]
        return small(v.shape, pairs, v.dtype)
    return small(v.shape, registers, v.dtype)
