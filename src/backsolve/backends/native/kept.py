"""Memory that one call leaves to the next: to the system, fresh pages cost more than what is written on them.

Blocks of some size stand in slots, one set for the process, that compiled code of all threads takes them from
and puts them back into, each by one atomic instruction: nobody waits, and a fork leaves nothing half done. A
block that stands in a slot says in its first word how large it is. Only who has taken it reads that.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from .interpreter import INT, POINTER, WORDS, foreign, is_null, once
from .library import shared

VOID = ir.VoidType()
SLOTS = 16
LEAST, MOST = (
    1 << 16,
    1 << 22,
)  # bytes of a block: smaller ones malloc keeps, larger ones are too dear
_NULL = ir.Constant(POINTER, None)


def take(b: ir.IRBuilder, size: ir.Value) -> ir.Value:
    """A block of at least LEAST and at least `size` bytes; its size is its first word. Null: no memory."""

    def body(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        (size,) = args
        with b.if_then(_is_of_size(b, size)):
            block = _exchange(b, _NULL)
            with b.if_then(b.not_(is_null(b, block)), likely=True):
                enough = b.icmp_unsigned(">=", b.load(b.bitcast(block, WORDS)), size)
                with b.if_then(enough, likely=True):
                    b.ret(block)
                foreign(b, "PyMem_RawFree", VOID, [block])  # a larger one will take its place
        fresh = foreign(b, "PyMem_RawMalloc", POINTER, [size])
        with b.if_then(b.not_(is_null(b, fresh)), likely=True):
            b.store(size, b.bitcast(fresh, WORDS))
        b.ret(fresh)

    return b.call(once(b, "kept_take", POINTER, [INT], body), [size])


def give_back(b: ir.IRBuilder, block: ir.Value, size: ir.Value) -> None:
    """Keep a block for others, if it is of their size and there is a slot; else free it."""

    def body(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        block, size = args
        with b.if_then(_is_of_size(b, size)):
            b.store(size, b.bitcast(block, WORDS))
            foreign(b, "PyMem_RawFree", VOID, [_exchange(b, block)])
            b.ret_void()
        foreign(b, "PyMem_RawFree", VOID, [block])
        b.ret_void()

    b.call(once(b, "kept_give_back", VOID, [POINTER, INT], body), [block, size])


def _is_of_size(b: ir.IRBuilder, size: ir.Value) -> ir.Value:
    enough = b.icmp_unsigned(">=", size, INT(LEAST))
    return b.and_(enough, b.icmp_unsigned("<=", size, INT(MOST)))


def _exchange(b: ir.IRBuilder, given: ir.Value) -> ir.Value:
    kind = ir.FunctionType(POINTER, [POINTER])
    return b.call(shared(b.module, "kept_memory", kind, _emit), [given])


def _emit(function: ir.Function) -> None:
    """With null: a block out of a slot, or null. With a block: null, or the block if all slots are full.

    for place in slots:
        if (place is empty) == (given is not null) and swap succeeds: return what was there
    return given
    """
    slots = ir.GlobalVariable(function.module, ir.ArrayType(INT, SLOTS), "slots")
    slots.initializer = ir.Constant(slots.value_type, None)
    slots.linkage = "internal"
    entry, look, swap, following, found, none = (
        function.append_basic_block(x)
        for x in ("entry", "look", "swap", "following", "found", "none")
    )
    b = ir.IRBuilder(entry)
    given = b.ptrtoint(function.args[0], INT)
    gives = b.icmp_unsigned("!=", given, INT(0))
    b.branch(look)
    b.position_at_end(look)
    k = b.phi(INT)
    k.add_incoming(INT(0), entry)
    place = b.gep(slots, [INT(0), k], inbounds=True)
    there = b.load_atomic(place, "monotonic", 8)
    is_empty = b.icmp_unsigned("==", there, INT(0))
    b.cbranch(b.icmp_unsigned("==", is_empty, gives), swap, following)
    b.position_at_end(swap)
    result = b.cmpxchg(place, there, given, "acq_rel", "monotonic")
    b.cbranch(b.extract_value(result, 1), found, following)
    b.position_at_end(following)
    after = b.add(k, INT(1))
    k.add_incoming(after, following)
    b.cbranch(b.icmp_unsigned("<", after, INT(SLOTS)), look, none)
    b.position_at_end(found)
    b.ret(b.inttoptr(there, POINTER))
    b.position_at_end(none)
    b.ret(function.args[0])
