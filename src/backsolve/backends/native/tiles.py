"""A tile of a product: a few rows times a few columns, summed up in vector registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from llvmlite import binding, ir

from .library import shared
from .numbers.registers import memory_type
from .parts import load_part
from .repeat import range_loop

INT, CINT = ir.IntType(64), ir.IntType(32)
# Measured against OpenBLAS: beyond these it is faster.
TERMS = 1 << 10  # of a sum in one go
PANELS = 1 << 18  # bytes of panels made for one product; twice as many before a loop
# Terms of the sums in one round: where vectors do not say how many, and where entries are spread one by one.
# More of these, and LLVM would load them so early for some processors that sums leave their registers.
UNROLLED, UNROLLED_SPREAD = 4, 2


@dataclass(frozen=True)
class Large:
    """What a block of a large product holds (blocks.py), and which products are faster so than by BLAS."""

    terms: int  # bytes of a line of A
    columns: int  # bytes of panels of B, which stay in the second cache
    rows: int  # tiles of A that meet panel after panel
    in_lines: bool  # also those whose rows lie in lines


@dataclass(frozen=True)
class Registers:
    """What a processor multiplies with: the largest tile whose sums, with what they need, fit."""

    nbytes: int  # of a vector
    rows: int
    vectors: int  # side by side in each row
    by_lane: bool  # an instruction multiplies a vector by one entry of another
    cache: int  # bytes of the first one
    near: int  # bytes of columns that a few rows read where they lie
    large: Large | None = None  # None where BLAS is faster
    masks: bool = False  # instructions read and write a part of a vector

    @property
    def repaid(self) -> int:
        """Rows from which on panels are worth making for one product."""
        if self.masks:
            return 4
        return 8 if self.by_lane and self.large is not None else 24

    def lanes(self, dtype: np.dtype[Any]) -> int:
        return self.nbytes // dtype.itemsize

    def columns(self, dtype: np.dtype[Any]) -> int:
        return self.vectors * self.lanes(dtype)


@cache
def registers() -> Registers | None:
    """Those of this processor; None where products are better left to BLAS."""
    family, maker, *_ = binding.get_default_triple().split("-")
    if family in ("aarch64", "arm64"):
        # Apple's BLAS multiplies in a unit of its own, at many times the speed of these registers.
        large = Large(1 << 11, 1 << 20, 16, in_lines=False) if maker != "apple" else None
        return Registers(16, 4, 4, by_lane=True, cache=1 << 16, near=1 << 16, large=large)  # of 32
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        large = Large(1 << 10, 1 << 20, 4, in_lines=True)
        return Registers(
            64, 8, 3, by_lane=False, cache=1 << 15, near=1 << 15, large=large, masks=True
        )  # of 32
    if features.get("avx2") and features.get("fma"):
        return Registers(32, 6, 2, by_lane=False, cache=1 << 15, near=1 << 17)  # of 16
    return None


def fits_panels(dtype: np.dtype[Any], terms: int, columns: int, most: int = PANELS) -> bool:
    """Whether the columns of a product are worth making panels of."""
    return (
        registers() is not None
        and dtype.kind == "f"
        and terms <= TERMS
        and terms * columns * dtype.itemsize <= most
    )


def kind_of_tile(dtype: np.dtype[Any]) -> ir.FunctionType:
    """f(A, its steps along rows and terms, B, its step along terms, C, its step along rows, terms)."""
    pointer = memory_type(dtype).as_pointer()
    steps = [pointer, INT, INT, pointer, INT, pointer, INT, INT]
    return ir.FunctionType(ir.VoidType(), steps)


@dataclass(frozen=True)
class Tile:
    """C = A B, of so many rows and vectors; `unit` says along what A lies in one piece."""

    dtype: np.dtype[Any]
    rows: int
    vectors: int
    unit: str  # "terms", "rows", "panel" for rows in panels of whole tiles, or "" for any
    found: Registers
    adds: bool = False  # into C
    rest: int = 0  # entries of the last vector of B's lines, where these end before it does

    def function(self, module: ir.Module) -> ir.Function:
        lanes = self.found.lanes(self.dtype)
        unit = self.unit
        if (unit == "rows" and self.rows % lanes) or (unit != "panel" and not self.found.by_lane):
            unit = ""
        name = f"tile_{self.dtype.name}_{self.rows}x{self.vectors}x{lanes}_{unit}"
        if unit == "panel":
            name += str(self.found.rows)
        if self.adds:
            name += "_adds"
        if self.rest:
            name += f"_{self.rest}"
        return shared(module, name, kind_of_tile(self.dtype), _Emitter(self, unit).emit)


def tile_of(
    dtype: np.dtype[Any], rows: int, columns: int, unit: str, found: Registers, adds: bool
) -> Tile:
    """That of so many columns. Those that do not fill their vectors are added by whoever copies them."""
    vectors, rest = divmod(columns, found.lanes(dtype))
    return Tile(dtype, rows, vectors + (rest > 0), unit, found, adds and not rest)


class _Emitter:
    def __init__(self, tile: Tile, unit: str):
        self.rows, self.vectors, self.dtype, self.unit = tile.rows, tile.vectors, tile.dtype, unit
        self.adds, self.rest = tile.adds, tile.rest
        self.real = memory_type(tile.dtype)
        self.lanes, self.height = tile.found.lanes(tile.dtype), tile.found.rows
        # Rows of a panel are multiplied lane by lane if they fill vectors.
        self.by_vectors = unit == "rows" or (
            unit == "panel" and tile.found.by_lane and self.rows % self.lanes == 0
        )
        self.vector = ir.VectorType(self.real, self.lanes)
        spread = UNROLLED if tile.found.by_lane else UNROLLED_SPREAD
        # The steps of panels are known, so that a round of one term holds little but multiplications.
        self.unrolled = {"terms": self.lanes, "panel": 2}.get(unit, spread)

    def emit(self, function: ir.Function) -> None:
        self.a, self.row_step, self.term_step, self.b, self.b_step, *rest = function.args
        c, c_step, terms = rest
        b = ir.IRBuilder(function.append_basic_block("entry"))
        sums = [ir.Constant(self.vector, None)] * (self.rows * self.vectors)
        line = lambda r: b.gep(c, [b.mul(c_step, INT(r))])
        if self.adds:
            places = [place for r in range(self.rows) for place in self._vectors(b, line(r))]
            sums = [b.load(place, align=self.dtype.itemsize) for place in places]
        blocks = b.udiv(terms, INT(self.unrolled))
        sums = range_loop(b, INT(0), blocks, self._block, sums)
        if self.unrolled > 1:
            done = b.mul(blocks, INT(self.unrolled))
            sums = range_loop(b, done, terms, self._single, sums)
        for r in range(self.rows):
            self._store(b, sums[r * self.vectors : (r + 1) * self.vectors], line(r))
        b.ret_void()

    def _block(self, b: ir.IRBuilder, i: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        """Several terms of all sums."""
        first = b.mul(i, INT(self.unrolled))
        rows = range(self.rows)
        if self.unit == "terms":
            loads = [self._load(b, self._place(b, r, first)) for r in rows]
        for u in range(self.unrolled):
            term = b.add(first, INT(u))
            if self.unit == "terms":
                factors = [self._spread(b, v, u) for v in loads]
            elif self.by_vectors:
                loads = [self._load(b, self._place(b, r, term)) for r in rows[:: self.lanes]]
                factors = [self._spread(b, loads[r // self.lanes], r % self.lanes) for r in rows]
            else:
                factors = self._broadcast(b, term)
            sums = self._add(b, factors, term, sums)
        return sums

    def _single(self, b: ir.IRBuilder, term: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        return self._add(b, self._broadcast(b, term), term, sums)

    def _add(
        self, b: ir.IRBuilder, factors: Sequence[ir.Value], term: ir.Value, sums: list[ir.Value]
    ) -> list[ir.Value]:
        start = b.gep(self.b, [b.mul(term, self.b_step)])
        places = self._vectors(b, start)
        line = [
            b.load(place, align=self.dtype.itemsize)
            for place in places[: -1 if self.rest else None]
        ]
        if self.rest:
            line.append(load_part(b, places[-1], INT(self.rest)))
        multiply_add = self._multiply_add(b.module)
        pairs = [(f, v) for f in factors for v in line]
        return [b.call(multiply_add, [v, f, s]) for (f, v), s in zip(pairs, sums, strict=True)]

    def _broadcast(self, b: ir.IRBuilder, term: ir.Value) -> list[ir.Value]:
        undefined = ir.Constant(self.vector, ir.Undefined)
        found = [b.load(self._place(b, r, term)) for r in range(self.rows)]
        return [self._spread(b, b.insert_element(undefined, x, CINT(0)), 0) for x in found]

    def _spread(self, b: ir.IRBuilder, v: ir.Value, lane: int) -> ir.Value:
        mask = ir.Constant(ir.VectorType(CINT, self.lanes), [lane] * self.lanes)
        return b.shuffle_vector(v, ir.Constant(self.vector, ir.Undefined), mask)

    def _place(self, b: ir.IRBuilder, row: int, term: ir.Value) -> ir.Value:
        """Where A's entry lies. A step of 1, and those of panels, are known."""
        in_lines = self.unit in ("rows", "panel")
        across = INT(row) if in_lines else b.mul(self.row_step, INT(row))
        term_step = INT(self.height) if self.unit == "panel" else self.term_step
        along = term if self.unit == "terms" else b.mul(term_step, term)
        return b.gep(self.a, [b.add(across, along)])

    def _load(self, b: ir.IRBuilder, place: ir.Value) -> ir.Value:
        return b.load(b.bitcast(place, self.vector.as_pointer()), align=self.dtype.itemsize)

    def _store(self, b: ir.IRBuilder, line: Sequence[ir.Value], start: ir.Value) -> None:
        for v, place in zip(line, self._vectors(b, start), strict=True):
            b.store(v, place, align=self.dtype.itemsize)

    def _vectors(self, b: ir.IRBuilder, start: ir.Value) -> list[ir.Value]:
        """Where the vectors of a line lie."""
        first = b.bitcast(start, self.vector.as_pointer())
        return [b.gep(first, [INT(j)]) if j else first for j in range(self.vectors)]

    def _multiply_add(self, module: ir.Module) -> ir.Function:
        name = f"llvm.fmuladd.v{self.lanes}f{8 * self.dtype.itemsize}"
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        return module.globals.get(name) or ir.Function(module, kind, name)
