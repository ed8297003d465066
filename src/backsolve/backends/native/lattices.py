"""An operand of a product that is no matrix in memory, as windows are: put into panels from where it lies.

The columns of B, or the rows of A, are *lines*. Entry (line, term) lies at offset(line) + offset(term), each
of which walks axes of its own; both are listed before the product. So a convolution never holds its windows.
Neighbours in memory, a *piece* of a line or of the terms, are moved as one vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import numpy as np
from llvmlite import ir

from ...ir import Shape
from .library import shared
from .numbers.registers import memory_type
from .packing import turned
from .repeat import loop_between
from .views import View

INT = ir.IntType(64)
TABLE = INT.as_pointer()
RANK = 4  # axes that a table walks at most, after those that lie in one piece are merged

Axes = tuple[tuple[int, int], ...]  # (length, stride)


@dataclass(frozen=True)
class Lattice:
    """Lines and terms of an operand, in panels that are `width` lines wide."""

    view: View
    lines: Axes
    terms: Axes
    width: int
    piece: int
    is_turned: bool  # whether pieces are of terms

    @classmethod
    def of(cls, view: View, depth: int, width: int, lanes: int) -> Lattice | None:
        """The first `depth` axes of the view are the lines, all others the terms."""
        lines, terms = (
            _merged(view.shape[part], view.strides[part])
            for part in (slice(None, depth), slice(depth, None))
        )
        if len(lines) > RANK or len(terms) > RANK:
            return None
        most = gcd(width, lanes)
        along, across = (gcd(_run(axes), most) for axes in (lines, terms))
        return cls(view, lines, terms, width, max(along, across), is_turned=across > along)

    @property
    def shape(self) -> tuple[int, int]:
        return _size(self.lines), _size(self.terms)

    @property
    def pieces(self) -> tuple[int, int]:
        """How many lines, and terms, one entry of their tables stands for."""
        return (1, self.piece) if self.is_turned else (self.piece, 1)

    @property
    def table_sizes(self) -> tuple[int, int]:
        (lines, terms), (of_lines, of_terms) = self.shape, self.pieces
        return -(-lines // self.width) * self.width // of_lines, terms // of_terms

    def fill_tables(self, b: ir.IRBuilder, tables: list[ir.Value]) -> None:
        """Lines that are missing in the last panel begin where the first one does: nobody reads their sums."""
        function = _fill_function(b.module)
        parts = zip((self.lines, self.terms), self.pieces, tables, self.table_sizes, strict=True)
        for axes, piece, table, size in parts:
            if piece > 1:
                axes = (*axes[:-1], (axes[-1][0] // piece, piece))
            axes = (*((1, 0),) * (RANK - len(axes)), *axes)
            b.call(function, [table, *[INT(x) for axis in axes for x in axis], INT(size)])

    def pack_function(self, module: ir.Module) -> ir.Function:
        """f(operand, tables of lines and terms, how many terms and lines, the panels)."""
        dtype = self.view.dtype
        pointer = memory_type(dtype).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, TABLE, TABLE, INT, INT, pointer])
        way = "turned" if self.is_turned else "lines"
        name = f"pack_lattice_{dtype.name}_{self.width}x{self.piece}_{way}"
        return shared(module, name, kind, _Packing(dtype, self.width, self.piece, way).emit)


def _size(axes: Axes) -> int:
    return prod(n for n, _ in axes)


def _merged(shape: Shape, strides: Shape) -> Axes:
    found: list[tuple[int, int]] = []
    for n, s in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if found and found[-1][1] == n * s:
            found[-1] = (found[-1][0] * n, s)
        else:
            found.append((n, s))
    return tuple(found)


def _run(axes: Axes) -> int:
    """How many neighbours lie side by side, at least."""
    return axes[-1][0] if axes and axes[-1][1] == 1 else 1


def _fill_function(module: ir.Module) -> ir.Function:
    """f(table, (length, stride) of all axes, the table's length): places in their order, and then zeros."""
    kind = ir.FunctionType(ir.VoidType(), [TABLE, *[INT] * (2 * RANK + 1)])
    return shared(module, f"places_{RANK}", kind, _fill)


def _fill(function: ir.Function) -> None:
    table, *words = function.args
    axes, size = list(zip(words[:-1:2], words[1:-1:2], strict=True)), words[-1]
    b = ir.IRBuilder(function.append_basic_block("entry"))
    _fill_below(b, table, axes, INT(0), INT(0))
    full = INT(1)
    for n, _ in axes:
        full = b.mul(full, n)
    loop_between(b, full, size, lambda b, i: b.store(INT(0), b.gep(table, [i])))
    b.ret_void()


def _fill_below(
    b: ir.IRBuilder, table: ir.Value, axes: list[Any], at: ir.Value, place: ir.Value
) -> None:
    if not axes:
        b.store(place, b.gep(table, [at]))
        return
    (n, stride), *rest = axes

    def each(b: ir.IRBuilder, i: ir.Value) -> None:
        _fill_below(b, table, rest, b.add(b.mul(at, n), i), b.add(place, b.mul(i, stride)))

    loop_between(b, INT(0), n, each)


class _Packing:
    def __init__(self, dtype: np.dtype[Any], width: int, piece: int, way: str):
        self.align, self.width, self.piece, self.way = dtype.itemsize, width, piece, way
        self.vector = ir.VectorType(memory_type(dtype), piece).as_pointer()

    def emit(self, function: ir.Function) -> None:
        self.source, self.lines, self.places, self.terms, lines, self.target = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        panels = b.udiv(b.add(lines, INT(self.width - 1)), INT(self.width))
        loop_between(b, INT(0), panels, self._turned if self.way == "turned" else self._copied)
        b.ret_void()

    def _copied(self, b: ir.IRBuilder, panel: ir.Value) -> None:
        """Term after term, all pieces of its lines."""
        count = self.width // self.piece
        first = b.mul(panel, INT(count))
        at = [b.load(b.gep(self.lines, [b.add(first, INT(k))])) for k in range(count)]
        starts = [b.gep(self.source, [x]) for x in at]

        def line(b: ir.IRBuilder, term: ir.Value) -> None:
            place = b.load(b.gep(self.places, [term]))
            for k, start in enumerate(starts):
                self._store(b, self._load(b, start, place), panel, term, INT(k * self.piece))

        loop_between(b, INT(0), self.terms, line)

    def _turned(self, b: ir.IRBuilder, panel: ir.Value) -> None:
        """Squares of as many terms as lines."""

        def some_terms(b: ir.IRBuilder, k: ir.Value) -> None:
            place = b.load(b.gep(self.places, [k]))
            first = b.mul(k, INT(self.piece))

            def square(b: ir.IRBuilder, p: ir.Value) -> None:
                column = b.mul(p, INT(self.piece))
                line = b.add(b.mul(panel, INT(self.width)), column)
                at = [b.gep(self.lines, [b.add(line, INT(c))]) for c in range(self.piece)]
                starts = [b.gep(self.source, [b.load(x)]) for x in at]
                rows = turned(b, [self._load(b, start, place) for start in starts])
                for r, row in enumerate(rows):
                    self._store(b, row, panel, b.add(first, INT(r)), column)

            loop_between(b, INT(0), INT(self.width // self.piece), square)

        loop_between(b, INT(0), b.udiv(self.terms, INT(self.piece)), some_terms)

    def _load(self, b: ir.IRBuilder, start: ir.Value, place: ir.Value) -> ir.Value:
        return b.load(b.bitcast(b.gep(start, [place]), self.vector), align=self.align)

    def _store(
        self, b: ir.IRBuilder, v: ir.Value, panel: ir.Value, term: ir.Value, column: ir.Value
    ) -> None:
        line = b.add(b.mul(panel, self.terms), term)
        place = b.gep(self.target, [b.add(b.mul(line, INT(self.width)), column)])
        b.store(v, b.bitcast(place, self.vector), align=self.align)
