"""The products of attention in tiles of our own (tiles.py): keys are put into panels once for all lines of q.

Rows, and columns that lie in lines, are read where they lie. How many keys a tile looks at is known only when
it runs, and with it which tiles the last rows and columns take.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from ...primitives.attention import TILE
from .packing import pack_function
from .tiled import product_function
from .tiles import TERMS, Registers, Tile, registers
from .views import View

INT = ir.IntType(64)


class Matrix(NamedTuple):
    """As BLAS sees it: where it begins, whether it is stored by columns, how far its lines are apart."""

    start: ir.Value
    by_columns: bool
    leading: int

    @property
    def steps(self) -> tuple[int, int]:
        """Along rows and columns."""
        return (1, self.leading) if self.by_columns else (self.leading, 1)

    @property
    def T(self) -> Matrix:
        return Matrix(self.start, not self.by_columns, self.leading)


class Columns(NamedTuple):
    """Those of B: where they begin, and their steps along terms and from panel to panel."""

    start: ir.Value
    term_step: int
    panel_step: int


def tiles_for(views: list[View]) -> Registers | None:
    """What multiplies these matrices; None where BLAS shall.

    Tiles are two vectors wide: TILE lines, and as many keys, are whole ones, so that few kinds are to be built.
    """
    found, dtype = registers(), views[0].dtype
    if found is None or found.large is None or not found.large.in_lines or dtype.kind != "f":
        return None
    found = replace(found, vectors=2)
    lanes = found.lanes(dtype)
    is_fit = all(v.strides[-1] == 1 and v.shape[-1] % lanes == 0 for v in views)
    return found if is_fit and max(v.shape[-2] for v in views) <= TERMS else None


def panels_shape(found: Registers, matrix: View) -> tuple[int, int]:
    """The room for the columns of a transposed matrix."""
    width = found.columns(matrix.dtype)
    keys, terms = matrix.shape[-2:]
    return -(-keys // width) * terms, width


@dataclass(frozen=True)
class Products:
    """Emits products of one attention, of which there are `lines` lines of q and `keys` keys."""

    found: Registers
    dtype: np.dtype[Any]
    lines: int
    keys: int

    def panels(self, b: ir.IRBuilder, matrix: View, start: ir.Value, room: ir.Value) -> Columns:
        """The columns of the transposed matrix."""
        found, width = self.found, self.found.columns(self.dtype)
        (keys, terms), steps = matrix.shape[-2:], matrix.strides[-2:][::-1]
        lanes = found.lanes(self.dtype)
        function = pack_function(b.module, self.dtype, width, lanes, steps, found.masks)
        b.call(function, [start, *map(INT, (*steps, terms, keys)), room])
        return Columns(room, width, terms * width)

    def in_lines(self, matrix: Matrix) -> Columns:
        return Columns(matrix.start, matrix.leading, self.found.columns(self.dtype))

    def multiply(
        self,
        b: ir.IRBuilder,
        A: Matrix,
        B: Columns,
        C: Matrix,
        sizes: tuple[Any, Any, Any],
        adds: bool = False,
    ) -> None:
        """C = A B, or C += A B: of so many rows, columns and terms, known now or when it runs."""
        found, dtype = self.found, self.dtype
        rows, columns, terms = (INT(x) if isinstance(x, int) else x for x in sizes)
        height, width = found.rows, found.columns(dtype)
        longest = sizes[2] if isinstance(sizes[2], int) else self.keys
        group = max(1, found.cache // (2 * height * longest * dtype.itemsize))
        tiles = self._tiles(b, rows, sizes[1], adds)
        words = [*A.steps, B.term_step, B.panel_step, C.leading, int(adds)]
        together = INT(height * group)
        groups = b.udiv(b.add(rows, b.sub(together, INT(1))), together)
        panels = b.udiv(b.add(columns, INT(width - 1)), INT(width))
        given = [*map(INT, words), rows, columns, terms, INT(group), INT(0), groups, INT(0), panels]
        function = product_function(b.module, dtype, found)
        b.call(function, [A.start, B.start, C.start, *given, *tiles])

    def _tiles(self, b: ir.IRBuilder, rows: ir.Value, columns: Any, adds: bool) -> list[ir.Value]:
        """The whole tile; of fewer columns, of fewer rows, of fewer of both."""
        found, dtype = self.found, self.dtype
        height, most = found.rows, found.vectors
        width, lanes = found.columns(dtype), found.lanes(dtype)
        lasts = self.lines, self.keys  # all other tiles are whole
        assert TILE % height == TILE % width == 0

        def tile(rows: int, vectors: int) -> ir.Value:
            return Tile(dtype, rows, vectors, "", found, adds).function(b.module)

        def whole(rows: int) -> ir.Value:
            return tile(rows, most)

        def narrow(rows: int) -> ir.Value:
            if isinstance(columns, int):
                return tile(rows, -(-(columns % width or width) // lanes))
            rests = {x % width: tile(rows, -(-(x % width) // lanes)) for x in lasts if x % width}
            return _chosen(b, b.urem(columns, INT(width)), rests, whole(rows))

        def lower(of: Callable[[int], ir.Value]) -> ir.Value:
            rests = {x % height: of(x % height) for x in lasts if x % height}
            return _chosen(b, b.urem(rows, INT(height)), rests, of(height))

        return [whole(height), narrow(height), lower(whole), lower(narrow)]


def _chosen(
    b: ir.IRBuilder, key: ir.Value, options: dict[int, ir.Value], otherwise: ir.Value
) -> ir.Value:
    for value, option in options.items():
        otherwise = b.select(b.icmp_signed("==", key, INT(value)), option, otherwise)
    return otherwise
