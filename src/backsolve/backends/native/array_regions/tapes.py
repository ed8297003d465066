"""Stacks that a loop reads and makes, in memory: three words each (stacks.py), and the place of an entry."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from ....ir import Type
from .. import stacks
from ..failure import fail_if
from ..steps import INT, POINTER, Site
from ..views import View

NO_MEMORY = (MemoryError, "no memory for what a loop stores")


@dataclass(eq=False)
class Tape:
    """A stack in a loop: its words, and what an entry is in memory."""

    words: View
    entry: Type

    @property
    def size(self) -> int:
        """Bytes of an entry."""
        return self.entry.size * self.entry.dtype.itemsize

    def open(self, site: Site) -> None:
        """Before the first round."""
        words = site.base(self.words.buffer)
        self.described = site.b.inttoptr(site.b.load(words), stacks.WORDS)
        self.start = stacks.word(site.b, words, 1)

    def length(self, site: Site) -> ir.Value:
        return stacks.word(site.b, site.base(self.words.buffer), 2)

    def place(self, b: ir.IRBuilder, k: ir.Value) -> ir.Value:
        """Of entry k. The memory may have moved since the last round."""
        data = b.inttoptr(stacks.word(b, self.described, stacks.DATA), POINTER)
        return b.gep(data, [b.mul(b.add(self.start, k), INT(self.size))])


@dataclass(eq=False)
class NewTape(Tape):
    """A stack that a loop makes, behind what its descriptor holds already."""

    site: int
    recurs: bool
    failure: int

    def open(self, site: Site, count: ir.Value | None = None) -> None:
        b, table = site.b, site.pointers.stacks
        if self.recurs:
            self.described = stacks.take_node(b, table)
            none = b.icmp_unsigned("==", self.described, ir.Constant(self.described.type, None))
            fail_if(b, none, self.failure)
        else:
            self.described = stacks.descriptor(b, table, self.site)
        self.start = stacks.word(b, self.described, stacks.LENGTH)
        if count is not None:
            self._reserve(b, count)

    def _reserve(self, b: ir.IRBuilder, entries: ir.Value) -> None:
        end = b.add(self.start, entries)
        size = b.mul(end, INT(self.size))
        capacity = stacks.word(b, self.described, stacks.CAPACITY)
        with b.if_then(b.icmp_signed("<", capacity, size), likely=False):
            fail_if(b, stacks.reserve(b, self.described, size), self.failure)
        stacks.set_word(b, self.described, stacks.LENGTH, end)

    def grow(self, b: ir.IRBuilder, k: ir.Value) -> None:
        """Make room for entry k, the next one."""
        self._reserve(b, b.add(k, INT(1)))

    def close(self, site: Site, rounds: ir.Value) -> None:
        words = site.base(self.words.buffer)
        address = site.b.ptrtoint(self.described, INT)
        for n, value in enumerate((address, self.start, rounds)):
            stacks.set_word(site.b, words, n, value)
