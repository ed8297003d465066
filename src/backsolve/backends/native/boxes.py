"""Boxes: what calls of recursive functions store, as records on a heap of one call of `run`.

A box is three words, as stacks are: the address of its record, 0, and 1; an empty one has a length of 0. The
heap is a chain of chunks, so that records stay where they are; each is twice as large as the one before, up to
what is kept for other calls (kept.py). A chunk begins with

    the address of the chunk before it
    where its free part begins
    where it ends

and the table of stacks knows the newest one. To go back to a mark gives back all that was taken since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from llvmlite import ir

from ...ir import Equation, Type
from ...regions import Box, Callee
from . import kept
from .interpreter import INT, POINTER, WORDS, is_null, once
from .stacks import HEAP, WIDTH, set_word, word

_BEFORE, _FREE, _END = range(3)
_HEADER = 32  # bytes
_ALIGNMENT = 8
NO_MEMORY = (MemoryError, "no memory for what a recursive function stores")

Mark = tuple[ir.Value, ir.Value]


def bytes_of(t: Type) -> int:
    """Of a value in a record."""
    return 8 * WIDTH if t.is_stack else t.size * t.dtype.itemsize


def places(types: Sequence[Type]) -> tuple[list[int], int]:
    """Where the values of a record begin, and how long it is."""
    found, end = [], 0
    for t in types:
        found.append(end)
        end += -(-bytes_of(t) // _ALIGNMENT) * _ALIGNMENT
    return found, end


def makes_boxes(equations: Iterable[Equation], seen: set[int] | None = None) -> bool:
    seen = set() if seen is None else seen
    for e in equations:
        region = e.params.get("region") if e.primitive.holds_regions else None
        if isinstance(region, Box):
            return True
        if isinstance(region, Callee):
            programs = () if region.program is None or id(region) in seen else (region.program,)
            seen.add(id(region))
        else:
            programs = () if region is None else region.programs()
        if any(makes_boxes(p.equations, seen) for p in programs):
            return True
    return False


def take(b: ir.IRBuilder, table: ir.Value, size: int) -> ir.Value:
    """The address of a new record, or null."""
    return b.call(once(b, "heap_take", POINTER, [WORDS, INT], _take), [table, INT(size)])


def _take(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
    table, size = args
    known = word(b, table, HEAP)
    chunk = b.inttoptr(known, WORDS)
    is_there = b.icmp_signed("!=", known, INT(0))
    with b.if_then(is_there, likely=True):
        place = word(b, chunk, _FREE)
        behind = b.add(place, size)
        with b.if_then(b.icmp_unsigned("<=", behind, word(b, chunk, _END)), likely=True):
            set_word(b, chunk, _FREE, behind)
            b.ret(b.inttoptr(place, POINTER))
    before = b.block
    with b.if_then(is_there):
        doubled = b.shl(b.sub(word(b, chunk, _END), known), INT(1))
        doubled = b.select(b.icmp_unsigned(">", doubled, INT(kept.MOST)), INT(kept.MOST), doubled)
        there = b.block
    wanted = b.phi(INT)
    wanted.add_incoming(INT(kept.LEAST), before)
    wanted.add_incoming(doubled, there)
    needed = b.add(size, INT(_HEADER))
    wanted = b.select(b.icmp_unsigned(">", needed, wanted), needed, wanted)
    fresh = kept.take(b, wanted)
    with b.if_then(is_null(b, fresh), likely=False):
        b.ret(fresh)
    address, words = b.ptrtoint(fresh, INT), b.bitcast(fresh, WORDS)
    capacity = word(b, words, 0)
    place = b.add(address, INT(_HEADER))
    for k, x in ((_BEFORE, known), (_FREE, b.add(place, size)), (_END, b.add(address, capacity))):
        set_word(b, words, k, x)
    set_word(b, table, HEAP, address)
    b.ret(b.inttoptr(place, POINTER))


def mark(b: ir.IRBuilder, table: ir.Value) -> Mark:
    """How much of the heap is in use."""
    chunk = word(b, table, HEAP)
    before = b.block
    with b.if_then(b.icmp_signed("!=", chunk, INT(0))):
        free = word(b, b.inttoptr(chunk, WORDS), _FREE)
        there = b.block
    found = b.phi(INT)
    found.add_incoming(INT(0), before)
    found.add_incoming(free, there)
    return chunk, found


def release(b: ir.IRBuilder, table: ir.Value, to: Mark) -> None:
    function = once(b, "heap_release", ir.VoidType(), [WORDS, INT, INT], _release)
    b.call(function, [table, *to])


def free_all(b: ir.IRBuilder, table: ir.Value) -> None:
    release(b, table, (INT(0), INT(0)))


def _release(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
    table, chunk, free = args
    head, newer, done = (b.append_basic_block(x) for x in ("head", "newer", "done"))
    b.branch(head)
    b.position_at_end(head)
    known = word(b, table, HEAP)
    b.cbranch(b.icmp_unsigned("!=", known, chunk), newer, done)
    b.position_at_end(newer)
    words = b.inttoptr(known, WORDS)
    set_word(b, table, HEAP, word(b, words, _BEFORE))
    kept.give_back(b, b.bitcast(words, POINTER), b.sub(word(b, words, _END), known))
    b.branch(head)
    b.position_at_end(done)
    with b.if_then(b.icmp_unsigned("!=", chunk, INT(0))):
        set_word(b, b.inttoptr(chunk, WORDS), _FREE, free)
    b.ret_void()


def record(b: ir.IRBuilder, address: ir.Value, length: ir.Value, types: Sequence[Type]) -> ir.Value:
    """Where a box's values lie, as bytes; those of an empty box are zeros and empty stacks."""
    empty = b.icmp_signed("==", length, INT(0))
    return b.select(empty, b.bitcast(_zeros(b.module, types), POINTER), b.bitcast(address, POINTER))


def _zeros(module: ir.Module, types: Sequence[Type]) -> Any:
    starts, size = places(types)
    words: list[Any] = [INT(0)] * max(size // 8, 1)
    for start, t in zip(starts, types, strict=True):
        if t.is_stack:
            words[start // 8] = _no_descriptor(module).ptrtoint(INT)
    return _constant(module, module.get_unique_name("empty_box"), words)


def _no_descriptor(module: ir.Module) -> Any:
    name = "no_descriptor"
    return module.globals.get(name) or _constant(module, name, [INT(0)] * WIDTH)


def _constant(module: ir.Module, name: str, words: list[Any]) -> Any:
    kind = ir.ArrayType(INT, len(words))
    made = ir.GlobalVariable(module, kind, name)
    made.initializer = ir.Constant(kind, words)
    made.global_constant, made.linkage, made.align = True, "internal", _ALIGNMENT
    return made
