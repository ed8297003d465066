"""Products of operands that are no matrices in memory (lattices.py), in blocks of tiles (blocks.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from llvmlite import ir

from ...ir import Shape
from .blas import SHARE, Product, spread
from .blocked import Sizes, does_all, tiles_of
from .blocks import BlockEmitter
from .lattices import TABLE, Lattice
from .library import shared
from .numbers.registers import memory_type
from .share_out import most_workers
from .steps import INT, Site
from .tiled import kind_of_product, product_function
from .tiles import Registers, kind_of_tile, registers
from .views import Buffer, View

if TYPE_CHECKING:
    from .schedule import Schedule

FEWEST = 4  # rows that repay panels of columns
WORK = 1 << 17  # multiplications that repay the tables


@dataclass(eq=False)
class LatticeProduct(Product):
    """C = A B, with room for the panels of each worker, and tables of where lines and terms lie."""

    rows: Lattice | None = None
    columns: Lattice | None = None
    found: Registers | None = None
    sizes: Sizes | None = None
    room: View | None = None  # (workers, entries)
    tables: View | None = None

    def buffers(self) -> list[Buffer]:
        more = [x.buffer for x in (self.room, self.tables) if x is not None]
        return [*super().buffers(), *more]

    @property
    def flops(self) -> int:
        assert self.rows is not None
        return 2 * prod(self.c.shape) * self.rows.shape[1]

    def leads(self) -> list[Shape]:
        return []

    def describe(self) -> str:
        assert self.rows is not None
        assert self.columns is not None
        shapes = f"{self.rows.shape} × {self.columns.shape[::-1]}"
        return f"product {shapes} in blocks of tiles, operands read where they lie"

    def emit(self, site: Site) -> None:
        """Threads share what there is more of, rows or columns."""
        assert self.rows is not None
        assert self.columns is not None
        assert self.found is not None
        assert self.sizes is not None
        assert self.room is not None
        assert self.tables is not None
        rows, columns, found, sizes = self.rows, self.columns, self.found, self.sizes
        (m, n), terms, dtype = self.c.shape, rows.shape[1], self.c.dtype
        unit = found.rows if m > n else found.columns(dtype)
        count = -(-max(m, n) // unit)
        room_size = INT(self.room.shape[-1])
        pieces = (*rows.pieces, *columns.pieces)

        def part(b: ir.IRBuilder, starts: list[ir.Value], low: ir.Value, high: ir.Value) -> None:
            called = [
                product_function(b.module, dtype, found),
                columns.pack_function(b.module),
                rows.pack_function(b.module),
                *tiles_of(b.module, self.c, "panel", found, (False, sizes.terms < terms)),
            ]
            first, last = (b.mul(x, INT(unit)) for x in (low, high))
            is_over = b.icmp_signed(">", last, INT(max(m, n)))
            length = b.sub(b.select(is_over, INT(max(m, n)), last), first)
            x, y, z, room, *tables = starts
            own = 0 if m > n else 2  # the table of lines that are shared out
            tables[own] = b.gep(tables[own], [b.udiv(first, INT(pieces[own]))])
            z = b.gep(z, [b.mul(first, INT(n if m > n else 1))])
            worker = b.function.args[-1] if is_shared else INT(0)
            a_room = b.gep(room, [b.mul(worker, room_size)])
            b_room = b.gep(a_room, [INT(sizes.rows * sizes.terms)])
            shape = [length, INT(n)] if m > n else [INT(m), length]
            block = (terms, sizes.terms, sizes.columns, sizes.rows, sizes.rows // found.rows)
            words = [INT(n), INT(0), *shape, *map(INT, block), *map(INT, pieces)]
            function = _blocks_function(b.module, self.c, found)
            b.call(function, [x, y, z, a_room, b_room, *tables, *words, *called])

        tables, at = [], 0
        for size in (*rows.table_sizes, *columns.table_sizes):
            tables.append(site.address(self.tables, at))
            at += size
        rows.fill_tables(site.b, tables[:2])
        columns.fill_tables(site.b, tables[2:])
        starts = [site.address(v) for v in (self.a, self.b, self.c, self.room)]
        most = min(self.flops // (2 * SHARE), count, self.room.shape[0])
        is_shared = most >= 2
        if is_shared:
            spread(site.b, site.name, [*starts, *tables], part, count, most, as_it_is=True)
        else:
            part(site.b, [*starts, *tables], INT(0), INT(count))


def _blocks_function(module: ir.Module, c: View, found: Registers) -> ir.Function:
    """f(A, B, C, room for panels of A, of B, tables, the words, functions, tiles)."""
    dtype, height, width = c.dtype, found.rows, found.columns(c.dtype)
    pointer = memory_type(dtype).as_pointer()
    pack = ir.FunctionType(ir.VoidType(), [pointer, TABLE, TABLE, INT, INT, pointer])
    given = [pointer] * 5 + [TABLE] * 4 + [INT] * (len(_Emitter.words) - 4)
    given += [kind_of_product(dtype).as_pointer(), pack.as_pointer(), pack.as_pointer()]
    given += [kind_of_tile(dtype).as_pointer()] * 8
    kind = ir.FunctionType(ir.VoidType(), given)
    name = f"lattice_blocks_{dtype.name}_{height}x{width}"
    return shared(module, name, kind, _Emitter(height, width).emit, is_hot=False)


class _Emitter(BlockEmitter):
    words: ClassVar[list[str]] = [
        "rows",  # tables of places
        "row_terms",
        "columns",
        "column_terms",
        "c_step",
        "adds",
        "m",
        "n",
        "terms",
        "block_terms",
        "block_columns",
        "block_rows",
        "group",
        "rows_piece",  # how many an entry of the table stands for
        "row_terms_piece",
        "columns_piece",
        "column_terms_piece",
    ]

    def columns_in_panels(
        self, b: ir.IRBuilder, column: ir.Value, n: ir.Value, term: ir.Value, terms: ir.Value
    ) -> None:
        tables = self._at(b, "columns", column), self._at(b, "column_terms", term)
        b.call(self.pack_columns, [self.b, *tables, terms, n, self.b_room])

    def rows_for_tiles(
        self, b: ir.IRBuilder, row: ir.Value, m: ir.Value, term: ir.Value, terms: ir.Value
    ) -> list[ir.Value]:
        tables = self._at(b, "rows", row), self._at(b, "row_terms", term)
        b.call(self.pack_rows, [self.a, *tables, terms, m, self.a_room])
        return self.packed_rows(terms)

    def _at(self, b: ir.IRBuilder, table: str, index: ir.Value) -> ir.Value:
        return b.gep(self.word[table], [b.udiv(index, self.word[f"{table}_piece"])])


def is_worth_it(m: int, n: int, terms: int, dtype: np.dtype[Any]) -> bool:
    """Whether this processor's products are made of tiles, and one of this size repays what it needs."""
    found = registers()
    if found is None or not does_all(found):
        return False
    return m >= FEWEST and n >= found.lanes(dtype) and m * n * terms >= WORK


def multiply(
    schedule: Schedule,
    views: Sequence[View],
    labels: Sequence[str],
    output: str,
    column: str = "",
) -> View | None:
    """The contraction of two operands that share no label of the output.

    The columns are those of `column`, or of the last label, so that the result lies in memory nearly as it is
    labelled. None where another way is faster, though it may have to copy the operands first.
    """
    views, labels = list(views), list(labels)
    if (column or output[-1]) in labels[0]:
        views, labels = views[::-1], labels[::-1]
    inner = [c for c in labels[0] if c not in output]
    outer = [[c for c in output if c in x] for x in labels]
    operands = [
        v.permute(tuple(x.index(c) for c in (*lines, *inner)))
        for v, x, lines in zip(views, labels, outer, strict=True)
    ]
    shapes = [v.shape[: len(lines)] for v, lines in zip(operands, outer, strict=True)]
    m, n = map(prod, shapes)
    terms, dtype = prod(operands[0].shape[len(outer[0]) :]), views[0].dtype
    if not is_worth_it(m, n, terms, dtype):
        return None
    found = registers()
    assert found is not None
    assert found.large is not None
    rows, columns = (
        Lattice.of(v, len(lines), width, found.lanes(dtype))
        for v, lines, width in zip(operands, outer, (found.rows, found.columns(dtype)), strict=True)
    )
    if rows is None or columns is None:
        return None
    unit = max(rows.pieces[1], columns.pieces[1])
    sizes = Sizes.fitting((m, n, terms), dtype, found, found.large, unit=unit)
    shares = min(most_workers(), max(1, m * n * terms // SHARE))
    room = schedule.new_buffer((shares, sizes.terms * (sizes.rows + sizes.columns)), dtype)
    entries = sum((*rows.table_sizes, *columns.table_sizes))
    tables = schedule.new_buffer((entries,), np.dtype(np.int64))
    target = schedule.new_buffer((*shapes[0], *shapes[1]), dtype)
    c = target.reshape((m, n))
    assert c is not None
    schedule.steps.append(
        LatticeProduct(
            operands[0], operands[1], c, False, rows, columns, found, sizes, room, tables
        )
    )
    schedule.ready[target.buffer] = len(schedule.steps) - 1
    order = outer[0] + outer[1]
    return target.permute(tuple(order.index(c) for c in output))
