"""Who reads whom, in bare numbers: a system on which orders of elimination are planned and counted.

Vertices are numbers: the rows 0 … n−1, then the parameters, then one copy of each output (outputs stay when
their rows go). The vertices that one reads, and those that read it, are the bits of an integer.

What is left after some rows are eliminated does not depend on the order in which they went: i reads k if a path
leads there through eliminated rows alone. Two orders differ only in what they cost on the way, and a stretch
of an order can be counted without the rest (annealing.py lives on that).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Edge(NamedTuple):
    """i reads j; `unit`: by a map that multiplies nothing; `diagonal`: entry by entry."""

    i: int
    j: int
    unit: bool
    diagonal: bool


@dataclass(slots=True)
class Skeleton:
    """Mutable: `eliminate` shrinks it; `copy` before."""

    rows: int
    sizes: tuple[int, ...]  # entries, by vertex
    own: tuple[int, ...]  # by row: the bit of its copy, if it is an output
    reads: list[int]
    read_by: list[int]
    unit: list[int]  # of what is read, the part by a unit edge
    unit_by: list[int]
    full: list[int]  # of what is read, the part by an edge that is not diagonal
    full_by: list[int]

    @classmethod
    def of(
        cls, rows: int, sizes: Sequence[int], copies: dict[int, int], edges: Iterable[Edge]
    ) -> Skeleton:
        """`copies`: the vertex that is the copy of an output, by the output's row."""
        n = len(sizes)
        lists: list[list[int]] = [[0] * n for _ in range(6)]
        reads, read_by, unit, unit_by, full, full_by = lists
        own = tuple([1 << copies[v] if v in copies else 0 for v in range(rows)])
        copied = [Edge(copy, row, True, True) for row, copy in copies.items()]
        for i, j, is_unit, is_diagonal in [*edges, *copied]:
            reads[i] |= 1 << j
            read_by[j] |= 1 << i
            if is_unit:
                unit[i] |= 1 << j
                unit_by[j] |= 1 << i
            if not is_diagonal and (sizes[i] > 1 or sizes[j] > 1):
                full[i] |= 1 << j
                full_by[j] |= 1 << i
        return cls(rows, tuple(sizes), own, *lists)

    def copy(self) -> Skeleton:
        lists = (self.reads, self.read_by, self.unit, self.unit_by, self.full, self.full_by)
        return Skeleton(self.rows, self.sizes, self.own, *[x[:] for x in lists])

    @property
    def key(self) -> tuple[object, ...]:
        """Two systems with the same key may be eliminated in the same order."""
        return (
            self.rows,
            self.sizes,
            self.own,
            *map(tuple, (self.reads, self.unit, self.full)),
        )

    # ---- what it takes to eliminate v now

    def pairs(self, v: int) -> int:
        """The published rule, Markowitz's: predecessors × successors, whatever stands on the edges.

        A row's own copy is no successor: there the output stands already.
        """
        return self.reads[v].bit_count() * (self.read_by[v] & ~self.own[v]).bit_count()

    def multiplications(self, v: int) -> int:
        """Products of entries, where ±1 costs nothing. Maps count as diagonal, or as full matrices."""
        before, after = self.reads[v] & ~self.unit[v], self.read_by[v] & ~self.unit_by[v]
        if not before or not after:
            return 0
        full, full_by = self.full[v], self.full_by[v]
        width = (before & ~full).bit_count() + self._entries(before & full)
        height = (after & ~full_by).bit_count() + self._entries(after & full_by)
        return self.sizes[v] * width * height

    def growth(self, v: int) -> int:
        """How many edges there are more without v."""
        before, after = self.reads[v], self.read_by[v]
        new = sum((before & ~self.reads[i]).bit_count() for i in bits(after))
        return new - before.bit_count() - after.bit_count()

    def _entries(self, vertices: int) -> int:
        return sum(self.sizes[k] for k in bits(vertices)) if vertices else 0

    # ---- eliminating

    def eliminate(self, v: int) -> None:
        reads, read_by = self.reads, self.read_by
        before, after = reads[v], read_by[v]
        units, unit_by = self.unit[v], self.unit_by[v]
        full, full_by = self.full[v], self.full_by[v]
        gone = ~(1 << v)
        for i in bits(after):
            is_unit, is_full = unit_by >> i & 1, full_by >> i & 1
            # A path of unit edges stays one as long as no second path joins it.
            self.unit[i] = self.unit[i] & gone & ~before | (units & ~reads[i] if is_unit else 0)
            self.full[i] = self.full[i] & gone | (before if is_full else full)
            reads[i] = reads[i] & gone | before
        for k in bits(before):
            is_unit, is_full = units >> k & 1, full >> k & 1
            self.unit_by[k] = self.unit_by[k] & gone & ~after | (
                unit_by & ~read_by[k] if is_unit else 0
            )
            self.full_by[k] = self.full_by[k] & gone | (after if is_full else full_by)
            read_by[k] = read_by[k] & gone | after
        reads[v] = read_by[v] = 0
        self.unit[v] = self.unit_by[v] = self.full[v] = self.full_by[v] = 0

    def cost(self, order: Iterable[int], rule: str) -> int:
        """Of eliminating in this order, by "pairs" or "multiplications"."""
        left, total = self.copy(), 0
        price = left.pairs if rule == "pairs" else left.multiplications
        for v in order:
            total += price(v)
            left.eliminate(v)
        return total


def bits(x: int) -> Iterator[int]:
    while x:
        low = x & -x
        yield low.bit_length() - 1
        x ^= low
