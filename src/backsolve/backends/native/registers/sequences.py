"""Sequences of a loop: reading entry k, and making entries, in arrays and on stacks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ....ir import Type
from .. import stacks
from ..numbers.registers import BOOL, memory_type
from .values import INT, Memory, Small, Stack, Value, is_large, read, whole

if TYPE_CHECKING:
    from .emitter import Emitter

BYTES = ir.IntType(8).as_pointer()


def entry_type(t: Type) -> Type:
    return Type(t.shape[1:], t.dtype)


def entry_bytes(t: Type) -> int:
    return 8 * stacks.WIDTH if t.is_stack else t.size * t.dtype.itemsize


def part(b: ir.IRBuilder, m: Memory, k: ir.Value) -> Memory:
    """Entry k of a sequence in memory."""
    if isinstance(k, ir.Constant):
        return m.part(m.view.imaginary[k.constant, ...])
    first = m.part(m.view.imaginary[0, ...]) if m.shape[0] else m
    step = m.view.strides[0]
    return first.moved(b, k if step == 1 else b.mul(k, INT(step), flags=("nsw",)))


# ---- reading


class Reader:
    """Entries of a sequence; `moves` says that a stack's data may move while the loop runs."""

    def __init__(self, em: Emitter, v: Value, moves: bool):
        self.em, self.value = em, v
        self.data: ir.Value | None = None
        if isinstance(v, Stack) and not moves:
            self.data = stacks.word(em.b, v.descriptor, stacks.DATA)
        self._spilled: Memory | None = None

    @property
    def length(self) -> ir.Value:
        return self.value.length if isinstance(self.value, Stack) else INT(self.value.shape[0])

    def entry(self, k: ir.Value) -> Value:
        em, v = self.em, self.value
        if isinstance(v, Stack):
            data = self.data
            if data is None:
                data = stacks.word(em.b, v.descriptor, stacks.DATA)
            return read_entry(em.b, at_entry(em.b, data, v.start, k, v.entry), v.entry)
        if isinstance(v, Small) and isinstance(k, ir.Constant):
            return Small(v.entries[k.constant, ...], v.dtype)
        m = part(em.b, self.in_memory(), k)
        return m if is_large(Type(m.shape, m.dtype)) else read(em.b, m)

    def in_memory(self) -> Memory:
        """Before the loop, or a small sequence would be written to memory in each round."""
        if self._spilled is None:
            assert not isinstance(self.value, Stack)
            self._spilled = self.em.spilled(self.value)
        return self._spilled


def at_entry(b: ir.IRBuilder, data: ir.Value, start: ir.Value, k: ir.Value, t: Type) -> ir.Value:
    at = b.mul(b.add(start, k, flags=("nsw",)), INT(entry_bytes(t)), flags=("nsw",))
    return b.gep(b.inttoptr(data, BYTES), [at], inbounds=True)


def read_entry(b: ir.IRBuilder, address: ir.Value, t: Type) -> Value:
    if t.is_stack:
        words = b.bitcast(address, stacks.WORDS)
        return read_stack(b, words, entry_type(t))
    m = whole(b.bitcast(address, memory_type(t.dtype).as_pointer()), t.shape, t.dtype)
    return m if is_large(t) else read(b, m)


def read_stack(b: ir.IRBuilder, words: ir.Value, entry: Type) -> Stack:
    described, start, length = (stacks.word(b, words, k) for k in range(stacks.WIDTH))
    return Stack(b.inttoptr(described, stacks.WORDS), start, length, entry)


def write_stack(b: ir.IRBuilder, v: Stack, words: ir.Value) -> None:
    for k, x in enumerate((b.ptrtoint(v.descriptor, INT), v.start, v.length)):
        stacks.set_word(b, words, k, x)


# ---- making


class Writer(ABC):
    """A sequence that a loop makes. `state` are registers that change from round to round."""

    state: list[ir.Value]

    @abstractmethod
    def put(self, k: ir.Value, v: Any) -> None:
        """Entry k, which for a stack of unknown length is the number of entries so far."""

    @abstractmethod
    def finish(self, rounds: ir.Value) -> Value: ...


class ArrayWriter(Writer):
    """Into an array with an entry for each round there may be."""

    def __init__(self, em: Emitter, m: Memory, may_stop: bool):
        self.em, self.memory, self.may_stop = em, m, may_stop
        self.state = []

    def place(self, k: ir.Value) -> Memory:
        return part(self.em.b, self.memory, k)

    def put(self, k: ir.Value, v: Any) -> None:
        target = self.place(k)
        if not (isinstance(v, Memory) and v.pointer is target.pointer):
            self.em.copy(self.em.as_type(v, Type(target.shape, target.dtype)), target)

    def finish(self, rounds: ir.Value) -> Value:
        m = self.memory
        if self.may_stop and m.view.imaginary.size:
            self._clear(rounds)
        return m if is_large(Type(m.shape, m.dtype)) else read(self.em.b, m)

    def _clear(self, rounds: ir.Value) -> None:
        """Zeros where no round has been."""
        b, m = self.em.b, self.memory
        size = m.dtype.itemsize * int(np.prod(m.shape[1:]))
        missing = b.mul(b.sub(INT(m.shape[0]), rounds), INT(size))
        first = part(b, m, rounds)
        raw = b.bitcast(b.gep(first.pointer, [INT(first.view.offset)]), BYTES)
        memset = b.module.declare_intrinsic("llvm.memset", [raw.type, INT])
        b.call(memset, [raw, ir.IntType(8)(0), missing, BOOL(0)])


class StackWriter(Writer):
    """Onto a stack: with room for `count` entries from the start if that is known, else as they come."""

    def __init__(self, em: Emitter, described: ir.Value, entry: Type, count: ir.Value | None):
        self.em, self.described, self.entry, self.count = em, described, entry, count
        b = em.b
        self.start = stacks.word(b, described, stacks.LENGTH)
        if count is not None:
            self._grow(b.mul(b.add(self.start, count), INT(entry_bytes(entry))))
            self.data = stacks.word(b, described, stacks.DATA)
            self.state = []
        else:
            self.state = [stacks.word(b, described, k) for k in (stacks.DATA, stacks.CAPACITY)]

    def _grow(self, size: ir.Value) -> None:
        em = self.em
        em.fail_if(stacks.reserve(em.b, self.described, size), MemoryError, "no memory for a stack")

    def put(self, k: ir.Value, v: Any) -> None:
        b = self.em.b
        if self.count is None:
            self._make_room(k)
            data = self.state[0]
        else:
            data = self.data
        address = at_entry(b, data, self.start, k, self.entry)
        if self.entry.is_stack:
            write_stack(b, v, b.bitcast(address, stacks.WORDS))
            return
        kind = memory_type(self.entry.dtype).as_pointer()
        target = whole(b.bitcast(address, kind), self.entry.shape, self.entry.dtype)
        self.em.copy(self.em.as_type(v, self.entry), target)

    def _make_room(self, k: ir.Value) -> None:
        b = self.em.b
        old = self.state
        behind = b.add(b.add(self.start, k, flags=("nsw",)), INT(1), flags=("nsw",))
        needed = b.mul(behind, INT(entry_bytes(self.entry)), flags=("nsw",))
        before = b.block
        with b.if_then(b.icmp_signed(">", needed, old[1]), likely=False):
            self._grow(needed)
            new = [stacks.word(b, self.described, k) for k in (stacks.DATA, stacks.CAPACITY)]
            grown = b.block
        self.state = []
        for x, y in zip(old, new, strict=True):
            phi = b.phi(INT)
            phi.add_incoming(x, before)
            phi.add_incoming(y, grown)
            self.state.append(phi)

    def finish(self, rounds: ir.Value) -> Value:
        b = self.em.b
        stacks.set_word(b, self.described, stacks.LENGTH, b.add(self.start, rounds))
        return Stack(self.described, self.start, rounds, self.entry)
