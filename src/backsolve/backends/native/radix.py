"""Sorting of unsigned integers: functions that a module has once for each kind.

Up to FEW are sorted by counting smaller ones, more by their digits, the lowest first. Both are stable. A word
may hold a key above the number of its place, in which case only the digits of the key are looked at; or keys
and places are two arrays that move together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from .nests import loop
from .repeat import range_loop

INT, CINT = ir.IntType(64), ir.IntType(32)
FEW = 32  # so many are sorted by rank
MANY = 1 << 15  # from which on longer digits, so fewer passes, are worth their longer tables
COUNTED = 1 << 13  # from which on keys of 16 bits are counted
LONG = 11  # bits of a longer digit


@dataclass(frozen=True)
class Words:
    """What is sorted: words of `bits`, by those from `low` to `top`; places may stand in a second array."""

    bits: int
    low: int
    top: int
    with_places: bool
    size: int  # of a line

    @property
    def width(self) -> int:
        """Bits of a digit."""
        if self.is_counted:
            return self.top
        is_long = self.size >= MANY and self.top - self.low > 16 and not self.with_places
        return LONG if is_long else 8

    @property
    def is_counted(self) -> bool:
        """Keys alone, of so few bits that it is enough to count each of them."""
        return not self.low and self.top <= 16 and not self.with_places and self.size >= COUNTED

    @property
    def digits(self) -> int:
        return -(-(self.top - self.low) // self.width)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(f"u{self.bits // 8}")

    @property
    def columns(self) -> list[np.dtype[Any]]:
        return [self.dtype, np.dtype(np.int64)] if self.with_places else [self.dtype]

    @property
    def counts(self) -> int:
        """Entries of the table of digits."""
        return self.digits << self.width if self.size > FEW else 1

    def function(self, module: ir.Module) -> Any:
        """sort(columns, other columns, counts, n): returns where the last column, sorted, stands."""
        kinds = (self.bits, self.low, self.top, self.width, self.with_places)
        name = "sort." + ".".join(str(int(k)) for k in kinds)
        return module.globals.get(name) or _emit_sort(self, module, name)


def _emit_sort(words: Words, module: ir.Module, name: str) -> Any:
    columns = [ir.IntType(8 * t.itemsize).as_pointer() for t in words.columns]
    kinds = [*columns, *columns, CINT.as_pointer(), INT]
    function = ir.Function(module, ir.FunctionType(columns[-1], kinds), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    for argument in function.args[:-1]:
        argument.add_attribute("noalias")
    *arrays, counts, n = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    with b.if_then(b.icmp_unsigned("<=", n, INT(FEW))):
        _emit_by_rank(b, arrays, n)
        b.ret(arrays[-1])
    b.ret(_emit_by_digits(b, words, arrays, counts, n))
    return function


def _emit_by_rank(b: ir.IRBuilder, arrays: list[Any], n: Any) -> None:
    """A key's place is the number of keys before it: n² comparisons, but no branch that may surprise."""
    keys, last, new = arrays[0], arrays[len(arrays) // 2 - 1], arrays[-1]

    def rank(b: ir.IRBuilder, i: Any) -> None:
        key = b.load(b.gep(keys, [i]))

        def before(test: str) -> Any:
            return lambda b, j, state: [
                b.add(state[0], b.zext(b.icmp_unsigned(test, b.load(b.gep(keys, [j])), key), INT))
            ]

        (count,) = range_loop(b, INT(0), i, before("<="), [INT(0)])
        (count,) = range_loop(b, i, n, before("<"), [count])
        b.store(b.load(b.gep(last, [i])), b.gep(new, [count]))

    range_loop(b, INT(0), n, rank)


def _emit_by_digits(b: ir.IRBuilder, words: Words, arrays: list[Any], counts: Any, n: Any) -> Any:
    """Radix sort: counts of all digits in one pass, then one pass per digit that is not always the same."""
    size, half = 1 << words.width, len(arrays) // 2
    word = ir.IntType(words.bits)
    loop(b, words.digits * size, lambda b, i: b.store(CINT(0), b.gep(counts, [i])))

    def slot(b: ir.IRBuilder, key: Any, digit: Any) -> Any:
        """Where the count of a key's digit stands."""
        shift = b.add(b.mul(digit, INT(words.width)), INT(words.low))
        shift = shift if word == INT else b.trunc(shift, word)
        # Bits above the key are those of places, if any, or zero.
        value = b.and_(b.lshr(key, shift), word((size - 1) & ((1 << words.bits) - 1)))
        value = value if word == INT else b.zext(value, INT)
        return b.gep(counts, [b.add(b.mul(digit, INT(size)), value)])

    def count(b: ir.IRBuilder, i: Any) -> None:
        key = b.load(b.gep(arrays[0], [i]))
        for digit in range(words.digits):
            at = slot(b, key, INT(digit))
            b.store(b.add(b.load(at), CINT(1)), at)

    range_loop(b, INT(0), n, count)

    def one_pass(b: ir.IRBuilder, digit: Any, state: list[Any]) -> list[Any]:
        old, new = state[:half], state[half:]
        first = b.load(slot(b, b.load(old[0]), digit))
        same = b.icmp_unsigned("==", b.zext(first, INT), n)
        before = b.block
        with b.if_then(b.not_(same)):
            _emit_starts(b, b.gep(counts, [b.mul(digit, INT(size))]), size)

            def move(b: ir.IRBuilder, i: Any) -> None:
                key = b.load(b.gep(old[0], [i]))
                at = slot(b, key, digit)
                target = b.load(at)
                b.store(b.add(target, CINT(1)), at)
                target = b.zext(target, INT)
                b.store(key, b.gep(new[0], [target]))
                for source, goal in zip(old[1:], new[1:], strict=True):
                    b.store(b.load(b.gep(source, [i])), b.gep(goal, [target]))

            range_loop(b, INT(0), n, move)
            moved = b.block
        after = []
        for stays, goes in zip(state, [*new, *old], strict=True):
            phi = b.phi(stays.type)
            phi.add_incoming(stays, before)
            phi.add_incoming(goes, moved)
            after.append(phi)
        return after

    return range_loop(b, INT(0), INT(words.digits), one_pass, arrays)[half - 1]


def _emit_starts(b: ir.IRBuilder, counts: Any, size: int) -> None:
    """Counts as the places at which each value begins."""

    def add(b: ir.IRBuilder, i: Any, state: list[Any]) -> list[Any]:
        at = b.gep(counts, [i])
        count = b.load(at)
        b.store(state[0], at)
        return [b.add(state[0], count)]

    range_loop(b, INT(0), INT(size), add, [CINT(0)])
