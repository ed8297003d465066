"""A product of any size in tiles: block by block of terms and columns, both operands in panels.

A block of B is put into panels that stay in the second cache; tiles of rows of A, in panels of their own or
read where they lie, meet all of them while they are in the first. The sums of a block of terms are added to
those of the block before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from llvmlite import ir

from .library import shared
from .numbers.registers import memory_type
from .packing import kind_of_pack, pack_function
from .repeat import loop_between
from .tiled import kind_of_product, product_function
from .tiles import Registers, kind_of_tile

INT = ir.IntType(64)
WORDS = [
    "row_step",  # of A
    "term_step",
    "b_term_step",
    "b_column_step",
    "c_step",  # along rows
    "adds",  # into C: 1 or 0
    "m",
    "n",
    "terms",
    "block_terms",
    "block_columns",  # full panels
    "block_rows",  # full tiles
    "group",  # tiles of rows that meet panel after panel
    "is_packed",  # whether A is put into panels: 1 or 0
]


def blocks_function(module: ir.Module, dtype: np.dtype[Any], found: Registers) -> ir.Function:
    """f(A, B, C, room for panels of A, of B, the words, functions, tiles of the first block, of the others)."""
    height, width = found.rows, found.columns(dtype)
    pointer, pack = memory_type(dtype).as_pointer(), kind_of_pack(dtype).as_pointer()
    given = [pointer] * 5 + [INT] * len(WORDS)
    given += [kind_of_product(dtype).as_pointer(), pack, pack]
    given += [kind_of_tile(dtype).as_pointer()] * 8
    kind = ir.FunctionType(ir.VoidType(), given)
    name = f"blocks_{dtype.name}_{height}x{width}"
    return shared(module, name, kind, BlockEmitter(height, width).emit, is_hot=False)


def functions(
    module: ir.Module,
    dtype: np.dtype[Any],
    found: Registers,
    a_steps: Sequence[int] | None,
    b_steps: Sequence[int],
) -> list[ir.Value]:
    """What it calls besides the tiles: a product of panels, and what makes panels of B and of A.

    Steps are those along rows and terms of A, if it is packed, and along terms and columns of B.
    """
    lanes, nothing = found.lanes(dtype), ir.Constant(kind_of_pack(dtype).as_pointer(), None)
    pack = lambda width, steps: pack_function(module, dtype, width, lanes, steps, found.masks)
    return [
        product_function(module, dtype, found),
        pack(found.columns(dtype), b_steps),
        pack(found.rows, a_steps[::-1]) if a_steps is not None else nothing,
    ]


class BlockEmitter:
    """The loops over blocks; how panels are made of them is for others to say anew (lattices.py)."""

    words: ClassVar[list[str]] = WORDS

    def __init__(self, height: int, width: int):
        self.height, self.width = height, width

    def emit(self, function: ir.Function) -> None:
        self.a, self.b, self.c, self.a_room, self.b_room, *words = function.args
        n = len(self.words)
        self.word = dict(zip(self.words, words[:n], strict=True))
        self.product, self.pack_columns, self.pack_rows, *self.tiles = words[n:]
        b = ir.IRBuilder(function.append_basic_block("entry"))
        self._parts(b, "n", "block_columns", self._columns)
        b.ret_void()

    def columns_in_panels(
        self, b: ir.IRBuilder, column: ir.Value, n: ir.Value, term: ir.Value, terms: ir.Value
    ) -> None:
        steps = self.word["b_term_step"], self.word["b_column_step"]
        at = b.add(b.mul(term, steps[0]), b.mul(column, steps[1]))
        b.call(self.pack_columns, [b.gep(self.b, [at]), *steps, terms, n, self.b_room])

    def rows_for_tiles(
        self, b: ir.IRBuilder, row: ir.Value, m: ir.Value, term: ir.Value, terms: ir.Value
    ) -> list[ir.Value]:
        """Where they begin, and their steps along rows and terms."""
        steps = [self.word["row_step"], self.word["term_step"]]
        at = b.add(b.mul(row, steps[0]), b.mul(term, steps[1]))
        a = b.gep(self.a, [at])
        packs = b.icmp_signed("!=", self.word["is_packed"], INT(0))
        with b.if_then(packs):
            b.call(self.pack_rows, [a, steps[1], steps[0], terms, m, self.a_room])
        pairs = zip(self.packed_rows(terms), [a, *steps], strict=True)
        return [b.select(packs, x, y) for x, y in pairs]

    def packed_rows(self, terms: ir.Value) -> list[ir.Value]:
        # A tile of rows in a panel lies within height × terms entries.
        return [self.a_room, terms, INT(self.height)]

    def _parts(self, b: ir.IRBuilder, size: str, part: str, body: Any) -> None:
        """body(b, first, how many) for the blocks along one size."""
        count = b.udiv(b.add(self.word[size], b.sub(self.word[part], INT(1))), self.word[part])

        def single(b: ir.IRBuilder, i: ir.Value) -> None:
            first = b.mul(i, self.word[part])
            left = b.sub(self.word[size], first)
            shorter = b.icmp_signed("<", left, self.word[part])
            body(b, first, b.select(shorter, left, self.word[part]))

        loop_between(b, INT(0), count, single)

    def _columns(self, b: ir.IRBuilder, column: ir.Value, n: ir.Value) -> None:
        panels = b.udiv(b.add(n, INT(self.width - 1)), INT(self.width))

        def some_terms(b: ir.IRBuilder, term: ir.Value, terms: ir.Value) -> None:
            self.columns_in_panels(b, column, n, term, terms)
            is_first = b.icmp_signed("==", term, INT(0))
            pairs = zip(self.tiles[:4], self.tiles[4:], strict=True)
            tiles = [b.select(is_first, first, later) for first, later in pairs]
            adds = b.select(is_first, self.word["adds"], INT(1))

            def some_rows(b: ir.IRBuilder, row: ir.Value, m: ir.Value) -> None:
                a, *steps = self.rows_for_tiles(b, row, m, term, terms)
                c = b.gep(self.c, [b.add(column, b.mul(row, self.word["c_step"]))])
                strides = [INT(self.width), b.mul(terms, INT(self.width))]
                sizes = [self.word["c_step"], adds, m, n, terms, self.word["group"]]
                rows = b.mul(self.word["group"], INT(self.height))
                groups = b.udiv(b.add(m, b.sub(rows, INT(1))), rows)
                ends = [INT(0), groups, INT(0), panels]
                words = [*steps, *strides, *sizes]
                b.call(self.product, [a, self.b_room, c, *words, *ends, *tiles])

            self._parts(b, "m", "block_rows", some_rows)

        self._parts(b, "terms", "block_terms", some_terms)
