"""Entries of given ranks, without sorting all.

The keys between the smallest and the largest are counted in buckets of equal width. Only buckets that hold a
wanted rank are copied out, in their order, and sorted. Each wanted rank then stands as far from where its
bucket begins as in the sorted whole.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from .numbers.real import intrinsic
from .numbers.registers import clear
from .repeat import loop_with

INT, CINT = ir.IntType(64), ir.IntType(32)
LONG = 512  # entries of a line from which on it is done
MOST = 16  # bits of the number of buckets


def buckets(size: int) -> int:
    """As bits; not many more than entries."""
    return min(size.bit_length(), MOST)


def emit_filter(
    b: ir.IRBuilder,
    keys: ir.Value,
    bounds: list[ir.Value],
    columns: list[ir.Value],
    counts: ir.Value,
    size: int,
    ranks: tuple[int, ...],
) -> tuple[ir.Value, list[ir.Value]]:
    """Keys and places of the wanted buckets, into `columns`: how many, and how far each rank has moved."""
    low, high = bounds
    bits = buckets(size)
    clear(b, counts, 4 << bits)
    leading = b.module.declare_intrinsic(
        "llvm.ctlz", [INT], ir.FunctionType(INT, [INT, ir.IntType(1)])
    )
    used = b.sub(INT(64), b.call(leading, [b.sub(high, low), ir.IntType(1)(0)]))
    shift = b.select(b.icmp_signed(">", used, INT(bits)), b.sub(used, INT(bits)), INT(0))

    def slot(b: ir.IRBuilder, key: ir.Value) -> ir.Value:
        return b.gep(counts, [b.lshr(b.sub(key, low), shift)])

    def count(b: ir.IRBuilder, j: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        at = slot(b, b.load(b.gep(keys, [j])))
        b.store(b.add(b.load(at), CINT(1)), at)
        return []

    loop_with(b, size, [], count)
    with b.goto_entry_block():
        moved = [b.alloca(INT) for _ in ranks]

    def mark(b: ir.IRBuilder, k: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        """A bucket's count becomes its place among what is kept, or −1."""
        start, kept = state
        at = b.gep(counts, [k])
        here = b.zext(b.load(at), INT)
        end = b.add(start, here)
        wanted = ir.IntType(1)(0)
        for rank, place in zip(ranks, moved, strict=True):
            inside = b.and_(
                b.icmp_signed("<=", start, INT(rank)), b.icmp_signed("<", INT(rank), end)
            )
            with b.if_then(inside, likely=False):
                b.store(b.sub(kept, start), place)
            wanted = b.or_(wanted, inside)
        b.store(b.select(wanted, b.trunc(kept, CINT), CINT(-1)), at)
        return [end, b.select(wanted, b.add(kept, here), kept)]

    _, kept = loop_with(b, 1 << bits, [INT(0), INT(0)], mark)

    def copy(b: ir.IRBuilder, j: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        key = b.load(b.gep(keys, [j]))
        at = slot(b, key)
        target = b.load(at)
        with b.if_then(b.icmp_signed(">=", target, CINT(0)), likely=False):
            b.store(b.add(target, CINT(1)), at)
            target = b.zext(target, INT)
            b.store(key, b.gep(columns[0], [target]))
            b.store(j, b.gep(columns[1], [target]))
        return []

    loop_with(b, size, [], copy)
    return kept, [b.load(place) for place in moved]


def emit_keys(b: ir.IRBuilder, keys: ir.Value, size: int, key_of: Any) -> list[ir.Value]:
    """All keys, stored; the smallest and the largest."""
    least, most = intrinsic("llvm.umin"), intrinsic("llvm.umax")

    def begin(b: ir.IRBuilder, j: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        key = key_of(b, j)
        b.store(key, b.gep(keys, [j]))
        return [least(b, state[0], key), most(b, state[1], key)]

    return loop_with(b, size, [INT(-1), INT(0)], begin)
