"""A product of any size in tiles: block by block of terms and columns, both operands in panels.

A block of B is put into panels that stay in the second cache; tiles of rows of A, in panels of their own or
read where they lie, meet all of them while they are in the first. The sums of a block of terms start with
those of the block before, or with what the product is added to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from .library import shared
from .loops import loop_between
from .numbers.registers import memory_type
from .packing import pack_function
from .tiled import product_function
from .tiles import Registers, kind_of_tile

INT = ir.IntType(64)
WORDS = [
    "row_step",  # of A
    "term_step",
    "b_term_step",
    "b_column_step",
    "c_step",  # along rows
    "start_step",  # of what the sums start with
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
    """f(A, B, C, what the sums start with or null, room for panels of A, of B, the words, functions)."""
    kinds = [x.type for x in functions(module, dtype, found)]
    pointer, tile = memory_type(dtype).as_pointer(), kind_of_tile(dtype).as_pointer()
    given = [pointer] * 6 + [INT] * len(WORDS) + [*kinds, *[tile] * 4]
    kind = ir.FunctionType(ir.VoidType(), given)
    name = f"blocks_{dtype.name}_{found.rows}x{found.columns(dtype)}"
    return shared(module, name, kind, _Emitter(found.rows, found.columns(dtype)).emit)


def functions(module: ir.Module, dtype: np.dtype[Any], found: Registers) -> list[ir.Function]:
    """What it calls besides the tiles: a product of panels, and what makes panels of B and of A."""
    width, lanes = found.columns(dtype), found.lanes(dtype)
    packs = [pack_function(module, dtype, size, lanes) for size in (width, found.rows)]
    return [product_function(module, dtype, found), *packs]


class _Emitter:
    def __init__(self, height: int, width: int):
        self.height, self.width = height, width

    def emit(self, function: ir.Function) -> None:
        self.a, self.b, self.c, self.start, self.a_room, self.b_room, *words = function.args
        n = len(WORDS)
        self.word = dict(zip(WORDS, words[:n], strict=True))
        self.product, self.pack_columns, self.pack_rows, *self.tiles = words[n:]
        b = ir.IRBuilder(function.append_basic_block("entry"))
        self.packs = b.icmp_signed("!=", self.word["is_packed"], INT(0))
        self._parts(b, "n", "block_columns", self._columns)
        b.ret_void()

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
            steps = self.word["b_term_step"], self.word["b_column_step"]
            at = b.add(b.mul(term, steps[0]), b.mul(column, steps[1]))
            b.call(self.pack_columns, [b.gep(self.b, [at]), *steps, terms, n, self.b_room])
            is_first = b.icmp_signed("==", term, INT(0))
            start = b.select(is_first, self.start, self.c)
            start_step = b.select(is_first, self.word["start_step"], self.word["c_step"])
            is_null = b.icmp_unsigned("==", start, ir.Constant(start.type, None))

            def some_rows(b: ir.IRBuilder, row: ir.Value, m: ir.Value) -> None:
                steps = [self.word["row_step"], self.word["term_step"]]
                at = b.add(b.mul(row, steps[0]), b.mul(term, steps[1]))
                a = b.gep(self.a, [at])
                with b.if_then(self.packs):
                    b.call(self.pack_rows, [a, steps[1], steps[0], terms, m, self.a_room])
                # A tile of rows in a panel lies within height × terms entries.
                known = [terms, INT(self.height)]
                steps = [b.select(self.packs, x, y) for x, y in zip(known, steps, strict=True)]
                a = b.select(self.packs, self.a_room, a)
                place = lambda step: b.add(column, b.mul(row, step))
                c = b.gep(self.c, [place(self.word["c_step"])])
                s = b.gep(start, [place(start_step)])
                s = b.select(is_null, start, s)
                strides = [INT(self.width), b.mul(terms, INT(self.width))]
                sizes = [self.word["c_step"], start_step, m, n, terms, self.word["group"]]
                rows = b.mul(self.word["group"], INT(self.height))
                groups = b.udiv(b.add(m, b.sub(rows, INT(1))), rows)
                ends = [INT(0), groups, INT(0), panels]
                words = [*steps, *strides, *sizes]
                b.call(self.product, [a, self.b_room, c, s, *words, *ends, *self.tiles])

            self._parts(b, "m", "block_rows", some_rows)

        self._parts(b, "terms", "block_terms", some_terms)
