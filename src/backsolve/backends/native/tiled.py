"""A whole product in tiles: one function for all sizes, called with the tiles that it is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from .library import shared
from .numbers.registers import memory_type
from .parts import load_part, store_part
from .repeat import loop_between
from .tiles import Registers, kind_of_tile

INT = ir.IntType(64)
WORDS = [
    "row_step",  # of A
    "term_step",
    "b_step",  # along terms
    "panel_step",  # from one panel of B to the next
    "c_step",  # along rows
    "adds",  # into C: 1 or 0; tiles do so themselves, but where columns do not fill vectors
    "m",
    "n",
    "terms",
    "group",  # tiles of rows that meet panel after panel
]


def product_function(module: ir.Module, dtype: np.dtype[Any], found: Registers) -> ir.Function:
    """f(A, B, C, the words, groups from and to, panels from and to, tiles).

    The tiles are functions: the whole one; of fewer columns, of fewer rows, of fewer of both.
    """
    name = f"product_{dtype.name}_{found.rows}x{found.columns(dtype)}{'_masks' * found.masks}"
    return shared(module, name, kind_of_product(dtype), _Emitter(dtype, found).emit)


def kind_of_product(dtype: np.dtype[Any]) -> ir.FunctionType:
    pointer, tile = memory_type(dtype).as_pointer(), kind_of_tile(dtype).as_pointer()
    given = [pointer] * 3 + [INT] * (len(WORDS) + 4) + [tile] * 4
    return ir.FunctionType(ir.VoidType(), given)


class _Emitter:
    """One loop over groups, panels and tiles for all of them: little code to translate at the first product."""

    def __init__(self, dtype: np.dtype[Any], found: Registers):
        self.height, self.width, self.lanes = found.rows, found.columns(dtype), found.lanes(dtype)
        self.masks, self.nbytes = found.masks, dtype.itemsize

    def emit(self, function: ir.Function) -> None:
        self.a, self.b, self.c, *words = function.args
        n = len(WORDS)
        self.word = dict(zip(WORDS, words[:n], strict=True))
        first, last, low, high = words[n : n + 4]
        self.tiles = words[n + 4 :]
        b = ir.IRBuilder(function.append_basic_block("entry"))
        # Where columns do not fill their vectors, a tile goes here first.
        self.room = b.alloca(self.c.type.pointee, size=self.height * self.width)
        all_tiles = b.udiv(b.add(self.word["m"], INT(self.height - 1)), INT(self.height))

        def group(b: ir.IRBuilder, g: ir.Value) -> None:
            start = b.mul(g, self.word["group"])
            end = _smaller(b, b.add(start, self.word["group"]), all_tiles)
            loop_between(b, low, high, lambda b, j: self._panel(b, j, start, end))

        loop_between(b, first, last, group)
        b.ret_void()

    def _panel(self, b: ir.IRBuilder, j: ir.Value, start: ir.Value, end: ir.Value) -> None:
        """Tiles `start` to `end` of rows meet panel j."""
        column = b.mul(j, INT(self.width))
        columns = _smaller(b, b.sub(self.word["n"], column), INT(self.width))
        is_narrow = b.icmp_signed("<", columns, INT(self.width))
        whole, narrow, lower, corner = self.tiles
        high_tile = b.select(is_narrow, narrow, whole)
        low_tile = b.select(is_narrow, corner, lower)
        panel = b.gep(self.b, [b.mul(j, self.word["panel_step"])])
        target = b.gep(self.c, [column])
        is_partial = b.icmp_signed("!=", b.urem(columns, INT(self.lanes)), INT(0))
        step = b.select(is_partial, INT(self.width), self.word["c_step"])

        def tile(b: ir.IRBuilder, i: ir.Value) -> None:
            row = b.mul(i, INT(self.height))
            rows = b.sub(self.word["m"], row)
            is_low = b.icmp_signed("<", rows, INT(self.height))
            function = b.select(is_low, low_tile, high_tile)
            a = b.gep(self.a, [b.mul(row, self.word["row_step"])])
            c = b.gep(target, [b.mul(row, self.word["c_step"])])
            place = b.select(is_partial, self.room, c)
            steps = self.word["row_step"], self.word["term_step"]
            words = [panel, self.word["b_step"], place, step, self.word["terms"]]
            b.call(function, [a, *steps, *words])
            with b.if_then(is_partial):
                self._copy(b, c, _smaller(b, rows, INT(self.height)), columns)

        loop_between(b, start, end, tile)

    def _copy(self, b: ir.IRBuilder, c: ir.Value, rows: ir.Value, columns: ir.Value) -> None:
        adds = b.icmp_signed("!=", self.word["adds"], INT(0))

        def line(b: ir.IRBuilder, r: ir.Value) -> None:
            source = b.gep(self.room, [b.mul(r, INT(self.width))])
            target = b.gep(c, [b.mul(r, self.word["c_step"])])
            if self.masks:
                self._copy_vectors(b, source, target, columns, adds)
                return

            def entry(b: ir.IRBuilder, k: ir.Value) -> None:
                new, place = b.load(b.gep(source, [k])), b.gep(target, [k])
                b.store(b.select(adds, b.fadd(b.load(place), new), new), place)

            loop_between(b, INT(0), columns, entry)

        loop_between(b, INT(0), rows, line)

    def _copy_vectors(
        self,
        b: ir.IRBuilder,
        source: ir.Value,
        target: ir.Value,
        columns: ir.Value,
        adds: ir.Value,
    ) -> None:
        kind = ir.VectorType(source.type.pointee, self.lanes).as_pointer()
        for k in range(0, self.width, self.lanes):
            left = b.sub(columns, INT(k))
            place = b.bitcast(b.gep(target, [INT(k)]), kind)
            new = b.load(b.bitcast(b.gep(source, [INT(k)]), kind), align=self.nbytes)
            before = load_part(b, place, left)
            store_part(b, b.select(adds, b.fadd(before, new), new), place, left)


def _smaller(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.select(b.icmp_signed("<", x, y), x, y)
