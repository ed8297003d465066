"""Transforms of short lines, some at a time: side by side they fill vectors, which a single one does not."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir

from ..library import shared
from ..numbers.registers import register_type
from ..packing import turned
from .lines import INT, PLANES, REAL, SWAPPED, Access, Lines, in_vectors
from .transform import Memory, Transform, lanes_for


class Together(Transform):
    """`inner`, between lines of so many real numbers each, which lie one behind the other."""

    def __init__(self, inner: Transform, x_size: int, y_size: int):
        self.inner, self.x_size, self.y_size = inner, x_size, y_size
        self.n, self.width, self.dtype = inner.n, inner.width, inner.dtype
        self.room = (x_size + y_size) * self.width + inner.room
        self.table = inner.table

    def emit(self, b: ir.IRBuilder, x: Lines, y: Lines, at: Memory) -> None:
        start = b.gep(at.room, [INT(self.x_size * self.width)])
        source, target = self._columns(b, x.kind, at.room), self._columns(b, y.kind, start)
        self._turn(b, x.re, at.room, self.width, self.x_size)
        self.inner.emit(b, source, target, at.after(b, (self.x_size + self.y_size) * self.width, 0))
        self._turn(b, start, y.re, self.y_size, self.width)

    def _columns(self, b: ir.IRBuilder, kind: str, start: ir.Value) -> Lines:
        """Lines as columns; the parts of a number are neighbours in a line, so here they are rows."""
        if kind == REAL:
            return Lines(REAL, start, start, self.width)
        below = b.gep(start, [INT(self.width)])
        planes = Lines(PLANES, start, below, 2 * self.width)
        return planes.swapped() if kind == SWAPPED else planes

    def _turn(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value, rows: int, columns: int) -> None:
        lanes = lanes_for(self.dtype, min(rows, columns))
        function = _turn_function(b.module, self.dtype, lanes)
        b.call(function, [x, y, INT(rows), INT(columns)])


def _turn_function(module: ir.Module, dtype: np.dtype[Any], lanes: int) -> ir.Function:
    """f(x, y, rows and columns of x): y = xᵀ."""
    real = register_type(dtype)
    kind = ir.FunctionType(ir.VoidType(), [real.as_pointer()] * 2 + [INT] * 2)
    name = f"fourier_turn_{dtype.name}_{lanes}"
    return shared(module, name, kind, partial(_emit_turn, Access(real, lanes)))


def _emit_turn(access: Access, function: ir.Function) -> None:
    x, y, rows, columns = function.args
    for argument in function.args[:2]:
        argument.add_attribute("noalias")
    lanes = access.lanes

    def some_rows(b: ir.IRBuilder, i: ir.Value) -> None:
        def block(b: ir.IRBuilder, j: ir.Value) -> None:
            def place(start: ir.Value, row: ir.Value, k: int, step: ir.Value, column: Any) -> Any:
                return b.gep(start, [b.add(b.mul(b.add(row, INT(k)), step), column)])

            found = [access.plain(b, place(x, i, k, columns, j)) for k in range(lanes)]
            for k, v in enumerate(turned(b, found) if lanes > 1 else found):
                access.put(b, v, place(y, j, k, rows, i))

        in_vectors(b, columns, lanes, block)

    b = ir.IRBuilder(function.append_basic_block("entry"))
    in_vectors(b, rows, lanes, some_rows)
    b.ret_void()
