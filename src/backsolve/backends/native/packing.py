"""An operand of a product as panels: the columns (or rows) of one tile side by side, term after term."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np
from llvmlite import ir

from .library import shared
from .loops import loop_between
from .numbers.registers import memory_type

INT, CINT = ir.IntType(64), ir.IntType(32)


def pack_function(module: ir.Module, dtype: np.dtype[Any], width: int, lanes: int) -> ir.Function:
    """f(B, its steps along terms and columns, how many terms and columns, the panels).

    Panels are `width` columns wide; a last one that is not full is filled up with zeros. Of A, rows stand
    for columns.
    """
    lanes = gcd(width, lanes)
    pointer = memory_type(dtype).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, INT, INT, INT, INT, pointer])
    name = f"pack_{dtype.name}_{width}x{lanes}"
    return shared(module, name, kind, _Emitter(dtype, width, lanes).emit)


class _Emitter:
    def __init__(self, dtype: np.dtype[Any], width: int, lanes: int):
        self.dtype, self.real = dtype, memory_type(dtype)
        self.width, self.lanes = width, lanes

    def emit(self, function: ir.Function) -> None:
        self.source, self.term_step, self.column_step, self.terms, columns, self.target = (
            function.args
        )
        b = ir.IRBuilder(function.append_basic_block("entry"))
        self.columns = columns
        panels = b.udiv(b.add(columns, INT(self.width - 1)), INT(self.width))
        in_lines = b.icmp_signed("==", self.column_step, INT(1))
        full = b.udiv(columns, INT(self.width))
        copied = b.select(in_lines, full, INT(0))

        def line(b: ir.IRBuilder, term: ir.Value) -> None:
            loop_between(b, INT(0), copied, lambda b, j: self._copy_line(b, j, term))

        # From line to line, not from panel to panel: so memory is read in its order.
        loop_between(b, INT(0), b.select(in_lines, self.terms, INT(0)), line)
        loop_between(b, copied, panels, self._panel)
        b.ret_void()

    def _panel(self, b: ir.IRBuilder, j: ir.Value) -> None:
        left = b.sub(self.columns, b.mul(j, INT(self.width)))
        is_full = b.icmp_signed(">=", left, INT(self.width))
        with b.if_then(b.not_(is_full)):
            start, zero = self._place(b, j, INT(0), INT(0)), ir.Constant(self.real, 0.0)
            size = b.mul(self.terms, INT(self.width))
            loop_between(b, INT(0), size, lambda b, i: b.store(zero, b.gep(start, [i])))
        turned = b.and_(is_full, b.icmp_signed("==", self.term_step, INT(1)))
        blocks = b.select(turned, b.udiv(self.terms, INT(self.lanes)), INT(0))
        with b.if_then(turned):
            self._turn(b, j, blocks)
        columns = b.select(is_full, INT(self.width), left)
        self._one_by_one(b, j, b.mul(blocks, INT(self.lanes)), columns)

    def _copy_line(self, b: ir.IRBuilder, j: ir.Value, term: ir.Value) -> None:
        """A line of a panel that lies in one piece."""
        line = self._load(b, self._entry(b, j, term, INT(0)), self.width)
        self._store(b, line, self._place(b, j, term, INT(0)))

    def _turn(self, b: ir.IRBuilder, j: ir.Value, blocks: ir.Value) -> None:
        """So many blocks of terms, each as long as a vector, from columns that lie in one piece."""

        def square(b: ir.IRBuilder, k: ir.Value, block: ir.Value) -> None:
            start, first = b.mul(k, INT(self.lanes)), b.mul(block, INT(self.lanes))
            columns = [b.add(start, INT(c)) for c in range(self.lanes)]
            vectors = [self._load(b, self._entry(b, j, first, c), self.lanes) for c in columns]
            for r, line in enumerate(_turned(b, vectors)):
                self._store(b, line, self._place(b, j, b.add(first, INT(r)), start))

        def some_columns(b: ir.IRBuilder, k: ir.Value) -> None:
            loop_between(b, INT(0), blocks, lambda b, block: square(b, k, block))

        loop_between(b, INT(0), INT(self.width // self.lanes), some_columns)

    def _one_by_one(self, b: ir.IRBuilder, j: ir.Value, first: ir.Value, columns: ir.Value) -> None:
        """All terms from `first` on."""

        def column(b: ir.IRBuilder, c: ir.Value) -> None:
            def single(b: ir.IRBuilder, term: ir.Value) -> None:
                b.store(b.load(self._entry(b, j, term, c)), self._place(b, j, term, c))

            loop_between(b, first, self.terms, single)

        loop_between(b, INT(0), columns, column)

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


def _turned(b: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
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
