"""An operand of a product as panels: the columns (or rows) of one tile side by side, term after term."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import Any

import numpy as np
from llvmlite import ir

from .library import shared
from .numbers.registers import memory_type
from .parts import load_part, store_part
from .repeat import loop_between

INT, CINT = ir.IntType(64), ir.IntType(32)
LINE = 64  # bytes


def pack_function(
    module: ir.Module,
    dtype: np.dtype[Any],
    width: int,
    lanes: int,
    steps: Sequence[int],
    masks: bool = False,
) -> ir.Function:
    """f(B, its steps along terms and columns, how many terms and columns, the panels).

    Panels are `width` columns wide; the last vector of a line is filled up with zeros. Of A, rows stand
    for columns. A step of 1 among `steps`, along terms and columns, is one that the function knows.
    """
    lanes = gcd(width, lanes)
    way = "lines" if steps[1] == 1 else "turned" if steps[0] == 1 else "single"
    masks = masks and way != "single"
    name = f"pack_{dtype.name}_{width}x{lanes}_{way}{'_masks' * masks}"
    emitter = (_ByMasks if masks else _Emitter)(dtype, width, lanes, way)
    return shared(module, name, kind_of_pack(dtype), emitter.emit)


def kind_of_pack(dtype: np.dtype[Any]) -> ir.FunctionType:
    pointer = memory_type(dtype).as_pointer()
    return ir.FunctionType(ir.VoidType(), [pointer, INT, INT, INT, INT, pointer])


class _Emitter:
    def __init__(self, dtype: np.dtype[Any], width: int, lanes: int, way: str):
        self.dtype, self.real = dtype, memory_type(dtype)
        self.width, self.lanes, self.way = width, lanes, way

    def emit(self, function: ir.Function) -> None:
        self.source, self.term_step, self.column_step, self.terms, self.columns, self.target = (
            function.args
        )
        if self.way == "lines":
            self.column_step = INT(1)
        elif self.way == "turned":
            self.term_step = INT(1)
        b = ir.IRBuilder(function.append_basic_block("entry"))
        full, left = (f(self.columns, INT(self.width)) for f in (b.udiv, b.urem))
        is_full = b.icmp_signed("==", left, INT(0))
        start, zero = self._place(b, full, INT(0), INT(0)), ir.Constant(self.real, 0.0)
        # Tiles read whole vectors: without a last one that is not full there is nothing to fill up.
        in_vectors = b.icmp_signed("==", b.urem(left, INT(self.lanes)), INT(0))
        size = b.select(in_vectors, INT(0), b.mul(self.terms, INT(self.width)))
        loop_between(b, INT(0), size, lambda b, i: b.store(zero, b.gep(start, [i])))
        vectors = b.udiv(left, INT(self.lanes))
        if self.way == "lines":
            # From line to line, not from panel to panel: so memory is read in its order.
            def line(b: ir.IRBuilder, term: ir.Value) -> None:
                loop_between(b, INT(0), full, lambda b, j: self._copy(b, j, term, self.width))

            loop_between(b, INT(0), self.terms, line)
            self._panel(b, full, vectors)
        else:
            all_vectors = INT(self.width // self.lanes)

            def panel(b: ir.IRBuilder, j: ir.Value) -> None:
                self._panel(b, j, b.select(b.icmp_signed("<", j, full), all_vectors, vectors))

            loop_between(b, INT(0), b.select(is_full, full, b.add(full, INT(1))), panel)
        self._one_by_one(b, full, INT(0), b.mul(vectors, INT(self.lanes)), left)
        b.ret_void()

    def _panel(self, b: ir.IRBuilder, j: ir.Value, vectors: ir.Value) -> None:
        """So many vectors of columns of one panel."""
        column = lambda b, k: b.mul(k, INT(self.lanes))
        if self.way == "lines":

            def copies(b: ir.IRBuilder, k: ir.Value) -> None:
                copy = lambda b, term: self._copy(b, j, term, self.lanes, column(b, k))
                loop_between(b, INT(0), self.terms, copy)

            loop_between(b, INT(0), vectors, copies)
            return
        first: ir.Value = INT(0)
        if self.way == "turned":
            blocks = b.udiv(self.terms, INT(self.lanes))
            first = b.mul(blocks, INT(self.lanes))
            turn = lambda b, k, i: self._turn(b, j, i, column(b, k))
            self._in_lines_of_cache(b, vectors, blocks, turn)
        self._one_by_one(b, j, first, INT(0), column(b, vectors))

    def _in_lines_of_cache(
        self, b: ir.IRBuilder, vectors: ir.Value, blocks: ir.Value, turn: Callable[..., None]
    ) -> None:
        """turn(b, vector, block) for all: what is in a line of the cache is read, or written, in one go."""
        if self.lanes * self.dtype.itemsize < LINE:
            inner = lambda b, i: loop_between(b, INT(0), vectors, lambda b, k: turn(b, k, i))
            loop_between(b, INT(0), blocks, inner)
        else:
            inner = lambda b, k: loop_between(b, INT(0), blocks, lambda b, i: turn(b, k, i))
            loop_between(b, INT(0), vectors, inner)

    def _copy(
        self,
        b: ir.IRBuilder,
        j: ir.Value,
        term: ir.Value,
        size: int,
        column: ir.Value | None = None,
    ) -> None:
        """A piece of a line."""
        column = INT(0) if column is None else column
        line = self._load(b, self._entry(b, j, term, column), size)
        self._store(b, line, self._place(b, j, term, column))

    def _turn(self, b: ir.IRBuilder, j: ir.Value, block: ir.Value, start: ir.Value) -> None:
        """A block of terms of as many columns, which lie in one piece each."""
        first = b.mul(block, INT(self.lanes))
        columns = [self._entry(b, j, first, start)]
        for _ in range(self.lanes - 1):
            columns.append(b.gep(columns[-1], [self.column_step]))
        place = self._place(b, j, first, start)
        for r, line in enumerate(turned(b, [self._load(b, c, self.lanes) for c in columns])):
            self._store(b, line, b.gep(place, [INT(r * self.width)]))

    def _one_by_one(
        self, b: ir.IRBuilder, j: ir.Value, first: ir.Value, column: ir.Value, end: ir.Value
    ) -> None:
        """All terms from `first` on, of the columns up to `end`."""

        def line(b: ir.IRBuilder, c: ir.Value) -> None:
            def single(b: ir.IRBuilder, term: ir.Value) -> None:
                b.store(b.load(self._entry(b, j, term, c)), self._place(b, j, term, c))

            loop_between(b, first, self.terms, single)

        loop_between(b, column, end, line)

    def _place(self, b: ir.IRBuilder, j: ir.Value, term: ir.Value, column: ir.Value) -> ir.Value:
        line = b.add(b.mul(j, self.terms), term)
        return b.gep(self.target, [b.add(b.mul(line, INT(self.width)), column)])

    def _entry(self, b: ir.IRBuilder, j: ir.Value, term: ir.Value, column: ir.Value) -> ir.Value:
        across = b.mul(b.add(b.mul(j, INT(self.width)), column), self.column_step)
        return b.gep(self.source, [b.add(b.mul(term, self.term_step), across)])

    def _load(self, b: ir.IRBuilder, place: ir.Value, size: int) -> ir.Value:
        vector = ir.VectorType(self.real, size).as_pointer()
        return b.load(b.bitcast(place, vector), align=self.dtype.itemsize)

    def _store(self, b: ir.IRBuilder, v: ir.Value, place: ir.Value) -> None:
        b.store(v, b.bitcast(place, v.type.as_pointer()), align=self.dtype.itemsize)


class _ByMasks(_Emitter):
    """Where instructions read and write parts of vectors, the ends of lines are vectors like all others."""

    def emit(self, function: ir.Function) -> None:
        self.source, self.term_step, self.column_step, self.terms, self.columns, self.target = (
            function.args
        )
        b = ir.IRBuilder(function.append_basic_block("entry"))
        up = lambda n, by: b.udiv(b.add(n, INT(by - 1)), INT(by))
        panels = up(self.columns, self.width)
        if self.way == "lines":
            self.column_step = INT(1)
            line = lambda b, term: loop_between(
                b, INT(0), panels, lambda b, j: self._part(b, j, term)
            )
            loop_between(b, INT(0), self.terms, line)
        else:
            self.term_step = INT(1)
            blocks = up(self.terms, self.lanes)

            def panel(b: ir.IRBuilder, j: ir.Value) -> None:
                left = b.sub(self.columns, b.mul(j, INT(self.width)))
                vectors = b.udiv(b.add(left, INT(self.lanes - 1)), INT(self.lanes))
                most = INT(self.width // self.lanes)
                vectors = b.select(b.icmp_signed("<", vectors, most), vectors, most)
                turn = lambda b, k, i: self._turn_all(b, j, i, b.mul(k, INT(self.lanes)), left)
                self._in_lines_of_cache(b, vectors, blocks, turn)

            loop_between(b, INT(0), panels, panel)
        b.ret_void()

    def _part(self, b: ir.IRBuilder, j: ir.Value, term: ir.Value) -> None:
        """A line of a panel."""
        left = b.sub(self.columns, b.mul(j, INT(self.width)))
        kind = ir.VectorType(self.real, self.lanes).as_pointer()
        with b.if_else(b.icmp_signed(">=", left, INT(self.width))) as (whole, part):
            with whole:
                self._copy(b, j, term, self.width)
            with part:
                for k in range(0, self.width, self.lanes):
                    entry = b.bitcast(self._entry(b, j, term, INT(k)), kind)
                    line = load_part(b, entry, b.sub(left, INT(k)))
                    self._store(b, line, self._place(b, j, term, INT(k)))

    def _turn_all(
        self, b: ir.IRBuilder, j: ir.Value, block: ir.Value, start: ir.Value, left: ir.Value
    ) -> None:
        """A block, which the ends of columns and of terms may cut off."""
        first = b.mul(block, INT(self.lanes))
        terms, columns = b.sub(self.terms, first), b.sub(left, start)
        least = b.select(b.icmp_signed("<", terms, columns), terms, columns)
        with b.if_else(b.icmp_signed(">=", least, INT(self.lanes))) as (whole, part):
            with whole:
                self._turn(b, j, block, start)
            with part:
                kind = ir.VectorType(self.real, self.lanes).as_pointer()
                entry, loads = self._entry(b, j, first, start), []
                for c in range(self.lanes):
                    count = b.select(b.icmp_signed(">", columns, INT(c)), terms, INT(0))
                    loads.append(load_part(b, b.bitcast(entry, kind), count))
                    entry = b.gep(entry, [self.column_step])
                place = self._place(b, j, first, start)
                for r, line in enumerate(turned(b, loads)):
                    count = b.select(b.icmp_signed(">", terms, INT(r)), INT(self.lanes), INT(0))
                    store_part(b, line, b.bitcast(b.gep(place, [INT(r * self.width)]), kind), count)


def turned(b: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """The transposed of as many vectors as each has entries, a power of two.

    Interleaving the first half of them with the second moves one bit of the row's number over to the
    column's; after all bits have moved, the two have changed places.
    """
    n = len(rows)
    lines = ir.VectorType(CINT, n)
    halves = [[x for k in range(n // 2) for x in (h + k, h + k + n)] for h in (0, n // 2)]
    masks = [ir.Constant(lines, half) for half in halves]
    for _ in range(n.bit_length() - 1):
        pairs = [(rows[k], rows[k + n // 2]) for k in range(n // 2)]
        rows = [b.shuffle_vector(x, y, mask) for x, y in pairs for mask in masks]
    return rows
