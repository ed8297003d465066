"""Outline: of a matrix how many entries it has, in all, in a row and in a column; each at most.

Counts are enough to bound a product: an entry of A in column j meets each entry of B in row j, so that

    pairs that meet in A B   ≤   nnz(A) · (most in a row of B),   (most in a column of A) · nnz(B)

and the product's own counts follow. It takes a few multiplications, however large the matrices. Entries at one
place count as one: what is added up is not multiplied twice.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ...ir import Type
from ..base import Between, Cost
from ..structure import Facts, facts_of_product, facts_of_sum, facts_of_transpose
from .entries import Entries
from .terms import Listed, Part, Steps


class Outline(Between):
    __slots__ = ("_facts", "in_column", "in_row", "is_sign", "made_by", "nnz")

    def __init__(
        self,
        in_type: Type,
        out_type: Type,
        nnz: int,
        in_row: int,
        in_column: int,
        is_sign: bool = False,
        structure: Facts = frozenset(),
        made_by: int = 0,
    ):
        self._in, self._out, self._facts = in_type, out_type, structure
        n, m = in_type.size, out_type.size
        self.in_row, self.in_column = min(in_row, n, nnz), min(in_column, m, nnz)
        if "diagonal" in structure:
            self.in_row, self.in_column = min(self.in_row, 1), min(self.in_column, 1)
        self.nnz = min(nnz, m * self.in_row, n * self.in_column)
        self.is_sign = is_sign  # all entries are ±1: products with it are free
        self.made_by = made_by  # multiplications

    @property
    def T(self) -> Outline:
        structure = facts_of_transpose(self._facts)
        return Outline(
            self._out, self._in, self.nnz, self.in_column, self.in_row, self.is_sign, structure
        )

    def known(self, structure: Facts) -> Outline:
        """The same, with facts."""
        return Outline(
            self._in, self._out, self.nnz, self.in_row, self.in_column, self.is_sign, structure
        )

    @property
    def structure(self) -> Facts:
        return self._facts

    @property
    def cost(self) -> Cost:
        return Cost(0 if self.is_sign else self.nnz, self.nnz, self.nnz * self._out.dtype.itemsize)

    @property
    def key(self) -> tuple[Any, ...]:
        """All that products with it depend on."""
        types = self._in, self._out
        return *types, self.nnz, self.in_row, self.in_column, self.is_sign, self._facts

    def times(self, other: Outline) -> Outline:
        """self @ other."""
        meet = min(self.nnz * other.in_row, self.in_column * other.nnz)
        adds_nothing = self.in_row <= 1 or other.in_column <= 1
        return Outline(
            other._in,
            self._out,
            meet,
            self.in_row * other.in_row,
            self.in_column * other.in_column,
            self.is_sign and other.is_sign and adds_nothing,
            facts_of_product([self._facts, other._facts]),
            0 if self.is_sign or other.is_sign else meet,
        )

    def plus(self, other: Outline) -> Outline:
        return Outline(
            self._in,
            self._out,
            self.nnz + other.nnz,
            self.in_row + other.in_row,
            self.in_column + other.in_column,
            structure=facts_of_sum([self._facts, other._facts]),
        )

    def __repr__(self) -> str:
        return f"Outline({self.nnz} of {self._out.size} × {self._in.size})"


def full(in_type: Type, out_type: Type) -> Outline:
    """Of a matrix of which nothing is known."""
    n, m = in_type.size, out_type.size
    return Outline(in_type, out_type, m * n, n, m)


def outline_of(a: Entries) -> Outline:
    found = [_part(a, t) for t in a.terms]
    if not found:
        return Outline(a.in_type, a.out_type, 0, 0, 0)
    total = found[0]
    for part in found[1:]:
        total = total.plus(part)
    return total


def _part(a: Entries, t: Part) -> Outline:
    is_sign = type(t.values) in (int, float) and abs(t.values) == 1
    if isinstance(t, Listed):
        return Outline(a.in_type, a.out_type, t.size, t.size, t.size, is_sign)
    in_row, in_column = _repeats(t.counts, t.rows), _repeats(t.counts, t.cols)
    return Outline(a.in_type, a.out_type, t.size, in_row, in_column, is_sign)


def _repeats(counts: tuple[int, ...], at: Steps) -> int:
    """How often a place comes at most: the axes that do not move, if strides show the others to part."""
    both = [(abs(s), n) for s, n in zip(at.strides, counts, strict=True) if n > 1]
    reach = 0
    for s, n in sorted(both):
        if s and s <= reach:
            return prod(counts)
        reach += s * (n - 1)
    return prod([n for s, n in both if not s])
