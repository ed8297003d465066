"""Stacks: memory that grows while a program runs, for sequences whose length nobody knows before.

A stack is three words: the address of a *descriptor*, a start and a length. Its entry k lies behind the
descriptor's data, start + k entries on; an entry that is itself a stack is its three words. A descriptor is
three words too:

    data        from PyMem_RawRealloc, or null; large ones are kept for other calls (kept.py)
    capacity    in bytes
    length      in entries: where the next stack begins

Each place of a program that makes stacks (a *site*) has one descriptor, so that those of many rounds lie in
one piece. Where a site may be at work several times at once, in recursive functions, each takes a
descriptor from a pool: a chain of nodes, each a descriptor with a fourth word for the next node, used and
released in the order of a stack. All of it belongs to one call of `run`, which frees it, failed or not.

The table that `run` sets up, a word each: the first node, the last node in use, the heap of boxes (boxes.py),
and the descriptors of all sites. Its address stands behind the constants in the table of pointers;
Pointers.stacks finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from . import kept
from .interpreter import INT, POINTER, WORDS, foreign, is_null, once

DATA, CAPACITY, LENGTH, NEXT = range(4)  # words of a descriptor, and of a node
WIDTH = 3  # words of a stack, and of a descriptor
_FIRST, _LAST, HEAP = range(3)  # words of the table
LEAST = 4096  # bytes of a descriptor that is used at all


class Stacks:
    """The sites of a program."""

    def __init__(self) -> None:
        self.sites = 1  # the first is always empty
        self.are_used = False

    def new_site(self) -> int:
        self.are_used = True
        self.sites += 1
        return self.sites - 1


def descriptor(b: ir.IRBuilder, table: ir.Value, site: int) -> ir.Value:
    return b.gep(table, [INT(WIDTH * (1 + site))], inbounds=True)


def word(b: ir.IRBuilder, words: ir.Value, k: int) -> ir.Value:
    return b.load(b.gep(words, [INT(k)], inbounds=True))


def set_word(b: ir.IRBuilder, words: ir.Value, k: int, value: ir.Value) -> None:
    b.store(value, b.gep(words, [INT(k)], inbounds=True))


def reserve(b: ir.IRBuilder, described: ir.Value, size: ir.Value) -> ir.Value:
    """Make room for `size` bytes, by doubling; whether there was none to be had. Entries stay."""

    def body(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        described, size = args
        old = word(b, described, CAPACITY)
        with b.if_then(b.icmp_signed(">=", old, size)):
            b.ret(ir.IntType(1)(0))
        doubled = b.shl(old, INT(1))
        wanted = b.select(b.icmp_signed(">", doubled, size), doubled, size)
        wanted = b.select(b.icmp_signed(">", wanted, INT(LEAST)), wanted, INT(LEAST))
        data, least = b.inttoptr(word(b, described, DATA), POINTER), INT(kept.LEAST)

        def leave(found: ir.Value, capacity: ir.Value) -> None:
            set_word(b, described, DATA, b.ptrtoint(found, INT))
            set_word(b, described, CAPACITY, capacity)
            b.ret(ir.IntType(1)(0))

        becomes_large = b.and_(b.icmp_signed("<", old, least), b.icmp_signed(">=", wanted, least))
        with b.if_then(becomes_large):
            block = kept.take(b, wanted)
            with b.if_then(is_null(b, block), likely=False):
                b.ret(ir.IntType(1)(1))
            capacity = word(b, b.bitcast(block, WORDS), 0)
            memcpy = b.module.declare_intrinsic("llvm.memcpy", [POINTER, POINTER, INT])
            b.call(memcpy, [block, data, old, ir.IntType(1)(0)])
            foreign(b, "PyMem_RawFree", ir.VoidType(), [data])
            leave(block, capacity)
        found = foreign(b, "PyMem_RawRealloc", POINTER, [data, wanted])
        with b.if_then(is_null(b, found), likely=False):
            b.ret(ir.IntType(1)(1))
        leave(found, wanted)

    function = once(b, "stack_reserve", ir.IntType(1), [WORDS, INT], body)
    function.attributes.add("noinline")
    function.attributes.add("cold")
    return b.call(function, [described, size])


def take_node(b: ir.IRBuilder, table: ir.Value) -> ir.Value:
    """A descriptor of the pool, in use from now on and empty; null if there is no memory."""

    def body(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        (table,) = args
        last = word(b, table, _LAST)
        none = b.icmp_signed("==", last, INT(0))
        behind = b.gep(b.inttoptr(last, WORDS), [INT(NEXT)])
        link = b.select(none, b.gep(table, [INT(_FIRST)]), behind)
        known = b.load(link)
        with b.if_then(b.icmp_signed("!=", known, INT(0)), likely=True):
            node = b.inttoptr(known, WORDS)
            set_word(b, node, LENGTH, INT(0))
            set_word(b, table, _LAST, known)
            b.ret(node)
        fresh = foreign(b, "PyMem_RawMalloc", POINTER, [INT(8 * (NEXT + 1))])
        node = b.bitcast(fresh, WORDS)
        with b.if_then(is_null(b, fresh), likely=False):
            b.ret(node)
        for k in (DATA, CAPACITY, LENGTH, NEXT):
            set_word(b, node, k, INT(0))
        made = b.ptrtoint(fresh, INT)
        b.store(made, link)
        set_word(b, table, _LAST, made)
        b.ret(node)

    return b.call(once(b, "stack_take", WORDS, [WORDS], body), [table])


def nodes_in_use(b: ir.IRBuilder, table: ir.Value) -> ir.Value:
    """A mark to go back to."""
    return word(b, table, _LAST)


def release_nodes(b: ir.IRBuilder, table: ir.Value, mark: ir.Value) -> None:
    """Take back all nodes that were taken since the mark."""
    set_word(b, table, _LAST, mark)


def emit_run(module: ir.Module, work: ir.Function, stacks: Stacks, place: int) -> None:
    """`run`: set up the table of stacks, do the work, free all."""
    function = ir.Function(module, work.function_type, "run")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    given, arena = function.args
    pointers = b.alloca(POINTER, size=place + 1)
    words = WIDTH * (1 + stacks.sites)
    table = b.alloca(INT, size=words)
    for target, source, n in ((pointers, given, place), (table, None, words)):
        _fill(b, target, source, n)
    b.store(b.bitcast(table, POINTER), b.gep(pointers, [INT(place)]))
    code = b.call(work, [pointers, arena])
    _count(b, INT(1 + stacks.sites), lambda b, k: _free(b, b.gep(table, [b.mul(k, INT(WIDTH))])))
    b.call(once(b, "stack_free_nodes", ir.VoidType(), [INT], _free_nodes), [word(b, table, _FIRST)])
    from .boxes import free_all

    free_all(b, table)
    b.ret(code)


def _fill(b: ir.IRBuilder, target: ir.Value, source: ir.Value | None, words: int) -> None:
    """Copy words, or make them 0."""
    size, plain = INT(8 * words), ir.IntType(1)(0)
    raw = b.bitcast(target, POINTER)
    if source is None:
        memset = b.module.declare_intrinsic("llvm.memset", [POINTER, INT])
        b.call(memset, [raw, ir.IntType(8)(0), size, plain])
    elif words:
        memcpy = b.module.declare_intrinsic("llvm.memcpy", [POINTER, POINTER, INT])
        b.call(memcpy, [raw, b.bitcast(source, POINTER), size, plain])


def _free(b: ir.IRBuilder, described: ir.Value) -> None:
    data = b.inttoptr(word(b, described, DATA), POINTER)
    kept.give_back(b, data, word(b, described, CAPACITY))


def _free_nodes(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
    (first,) = args
    before = b.block
    head, body, done = (b.append_basic_block(x) for x in ("head", "node", "done"))
    b.branch(head)
    b.position_at_end(head)
    node = b.phi(INT)
    node.add_incoming(first, before)
    b.cbranch(b.icmp_signed("!=", node, INT(0)), body, done)
    b.position_at_end(body)
    words = b.inttoptr(node, WORDS)
    following = word(b, words, NEXT)
    _free(b, words)
    foreign(b, "PyMem_RawFree", ir.VoidType(), [b.bitcast(words, POINTER)])
    node.add_incoming(following, b.block)
    b.branch(head)
    b.position_at_end(done)
    b.ret_void()


def _count(b: ir.IRBuilder, stop: ir.Value, body: Callable[[ir.IRBuilder, ir.Value], None]) -> None:
    """for k in range(1, stop), which is not empty."""
    before, head = b.block, b.append_basic_block("each")
    b.branch(head)
    b.position_at_end(head)
    k = b.phi(INT)
    k.add_incoming(INT(1), before)
    body(b, k)
    following = b.add(k, INT(1))
    k.add_incoming(following, b.block)
    done = b.append_basic_block("all")
    b.cbranch(b.icmp_signed("<", following, stop), head, done)
    b.position_at_end(done)
