"""A whole product in tiles: one function for all sizes, called with the tiles that it is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from .library import shared
from .loops import loop_between
from .numbers.registers import memory_type
from .tiles import Registers, kind_of_tile

INT = ir.IntType(64)
WORDS = [
    "row_step",  # of A
    "term_step",
    "b_step",  # along terms
    "panel_step",  # from one panel of B to the next
    "m",
    "n",
    "terms",
    "group",  # tiles of rows that meet panel after panel
]


def product_function(module: ir.Module, dtype: np.dtype[Any], found: Registers) -> ir.Function:
    """f(A, B, C, the words, groups from and to, panels from and to, tiles).

    The tiles are functions: the whole one; of fewer columns, of fewer rows, of fewer of both.
    """
    pointer, tile = memory_type(dtype).as_pointer(), kind_of_tile(dtype).as_pointer()
    given = [pointer] * 3 + [INT] * (len(WORDS) + 4) + [tile] * 4
    kind = ir.FunctionType(ir.VoidType(), given)
    name = f"product_{dtype.name}_{found.rows}x{found.columns(dtype)}"
    return shared(module, name, kind, _Emitter(dtype, found).emit)


class _Emitter:
    def __init__(self, dtype: np.dtype[Any], found: Registers):
        self.height, self.width = found.rows, found.columns(dtype)

    def emit(self, function: ir.Function) -> None:
        self.a, self.b, self.c, *words = function.args
        n = len(WORDS)
        self.word = dict(zip(WORDS, words[:n], strict=True))
        first, last, *panels = words[n : n + 4]
        self.whole, self.narrow, self.lower, self.corner = words[n + 4 :]
        b = ir.IRBuilder(function.append_basic_block("entry"))
        loop_between(b, first, last, lambda b, g: self._group(b, g, *panels))
        b.ret_void()

    def _group(self, b: ir.IRBuilder, g: ir.Value, low: ir.Value, high: ir.Value) -> None:
        first = b.mul(g, self.word["group"])
        last = b.add(first, self.word["group"])

        def panel(tile: Any, lower: Any) -> Callable[[ir.IRBuilder, ir.Value, ir.Value], None]:
            def rows(b: ir.IRBuilder, j: ir.Value, columns: ir.Value) -> None:
                def single(function: Any) -> Callable[[ir.IRBuilder, ir.Value, ir.Value], None]:
                    return lambda b, i, _: self._tile(b, function, i, j, columns)

                _up_to(b, first, last, self.word["m"], self.height, single(tile), single(lower))

            return rows

        whole, narrow = panel(self.whole, self.lower), panel(self.narrow, self.corner)
        _up_to(b, low, high, self.word["n"], self.width, whole, narrow)

    def _tile(
        self, b: ir.IRBuilder, tile: Any, i: ir.Value, j: ir.Value, columns: ir.Value
    ) -> None:
        word = self.word
        row = b.mul(i, INT(self.height))
        a = b.gep(self.a, [b.mul(row, word["row_step"])])
        x = b.gep(self.b, [b.mul(j, word["panel_step"])])
        c = b.gep(self.c, [b.add(b.mul(row, word["n"]), b.mul(j, INT(self.width)))])
        steps = word["row_step"], word["term_step"]
        b.call(tile, [a, *steps, x, word["b_step"], c, word["n"], word["terms"], columns])


def _up_to(
    b: ir.IRBuilder,
    low: ir.Value,
    high: ir.Value,
    size: ir.Value,
    step: int,
    body: Callable[[ir.IRBuilder, ir.Value, ir.Value], None],
    shorter: Callable[[ir.IRBuilder, ir.Value, ir.Value], None],
) -> None:
    """body(i, step) for the whole steps among i = low … high − 1, shorter(i, rest) for a last one."""
    whole, rest = b.udiv(size, INT(step)), b.urem(size, INT(step))
    end = b.select(b.icmp_signed("<", high, whole), high, whole)
    loop_between(b, low, end, lambda b, i: body(b, i, INT(step)))
    is_last = b.and_(b.icmp_signed(">", high, whole), b.icmp_signed(">", rest, INT(0)))
    with b.if_then(is_last):
        shorter(b, whole, rest)
