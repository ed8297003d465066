"""Complex numbers in memory and in vectors: in pairs, as NumPy has them, or in two planes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from llvmlite import ir

from ..numbers.registers import Complex
from ..packing import turned
from ..repeat import loop_between
from .butterflies import constant

INT, CINT = ir.IntType(64), ir.IntType(32)
PAIRS, SWAPPED, PLANES, REAL, IMAGINARY = "pairs", "swapped", "planes", "real", "imaginary"
_OTHER = {PAIRS: SWAPPED, SWAPPED: PAIRS, REAL: IMAGINARY, IMAGINARY: REAL}


class Lines(NamedTuple):
    """Rows of complex numbers: where their parts begin, and how far rows are apart, in numbers.

    A transform of numbers whose parts have changed places is the inverse transform, parts changed again:
    `SWAPPED` are pairs that are read and written so. `REAL` and `IMAGINARY` have one part in memory.
    """

    kind: str
    re: ir.Value
    im: ir.Value
    stride: int

    def swapped(self) -> Lines:
        if self.kind == PLANES:
            return self._replace(re=self.im, im=self.re)
        return self._replace(kind=_OTHER[self.kind])

    def at(self, b: ir.IRBuilder, row: int | ir.Value, column: int | ir.Value = 0) -> Lines:
        """From another row and column on."""
        row, column = (INT(k) if isinstance(k, int) else k for k in (row, column))
        at = b.add(b.mul(row, INT(self.stride)), column)
        re, im = moved(b, self.kind, [self.re, self.im], at)
        return self._replace(re=re, im=im)


def moved(b: ir.IRBuilder, kind: str, starts: list[ir.Value], at: ir.Value) -> list[ir.Value]:
    """Where the number `at` of a row lies."""
    if kind in (PAIRS, SWAPPED):
        at = b.mul(at, INT(2))
    return [b.gep(start, [at]) for start in starts]


@dataclass(frozen=True)
class Access:
    """Loads and stores of `lanes` neighbours in a row that begins at `starts`."""

    real: ir.Type
    lanes: int

    def load(self, b: ir.IRBuilder, kind: str, starts: list[ir.Value], at: ir.Value) -> Complex:
        starts = moved(b, kind, starts, at)
        if kind not in (PAIRS, SWAPPED):
            parts = [self.plain(b, start) for start in starts[: 2 if kind == PLANES else 1]]
            parts += [self.zero] * (2 - len(parts))
            return Complex(*(parts if kind != IMAGINARY else parts[::-1]))
        place = starts[0]
        if self.lanes == 1:
            first, second = b.load(place), b.load(b.gep(place, [INT(1)]))
        else:
            both = self.plain(b, place, 2)
            first, second = (
                _shuffled(b, both, both, list(range(k, 2 * self.lanes, 2))) for k in (0, 1)
            )
        return Complex(second, first) if kind == SWAPPED else Complex(first, second)

    def store(
        self, b: ir.IRBuilder, v: Complex, kind: str, starts: list[ir.Value], at: ir.Value
    ) -> None:
        starts = moved(b, kind, starts, at)
        if kind in (PAIRS, SWAPPED):
            self.interleave(b, [v.im, v.re] if kind == SWAPPED else list(v), starts[0])
        else:
            for part, start in zip(v, starts[: 1 if kind == REAL else 2], strict=False):
                self.put(b, part, start)

    @property
    def zero(self) -> ir.Constant:
        return constant(self.real if self.lanes == 1 else ir.VectorType(self.real, self.lanes), 0.0)

    def plain(self, b: ir.IRBuilder, place: ir.Value, times: int = 1) -> ir.Value:
        """As they lie."""
        if self.lanes == 1:
            return b.load(place)
        pointer = ir.VectorType(self.real, times * self.lanes).as_pointer()
        return b.load(b.bitcast(place, pointer), align=self._nbytes)

    def spread(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """The same number in all lanes."""
        if self.lanes == 1:
            return x
        nothing = ir.Constant(ir.VectorType(self.real, self.lanes), ir.Undefined)
        return _shuffled(b, b.insert_element(nothing, x, CINT(0)), nothing, [0] * self.lanes)

    def backwards(self, b: ir.IRBuilder, v: Complex) -> Complex:
        if self.lanes == 1:
            return v
        return Complex(*(_shuffled(b, x, x, list(range(self.lanes))[::-1]) for x in v))

    def interleave(self, b: ir.IRBuilder, vectors: list[ir.Value], place: ir.Value) -> None:
        """Store the first entries of all, then the second ones…"""
        r, lanes = len(vectors), self.lanes
        if r == 1 or lanes == 1:
            for k, v in enumerate(vectors):
                self.put(b, v, b.gep(place, [INT(k)]))
        elif r % lanes == 0:
            for k in range(0, r, lanes):
                for j, v in enumerate(turned(b, vectors[k : k + lanes])):
                    self.put(b, v, b.gep(place, [INT(r * j + k)]))
        elif r in (2, 4):
            while len(vectors) > 2:
                two = zip(vectors[::2], vectors[1::2], strict=True)
                vectors = [_shuffled(b, x, y, list(range(2 * lanes))) for x, y in two]
            order = [k * lanes + j for j in range(lanes) for k in range(r)]
            self.put(b, _shuffled(b, vectors[0], vectors[1], order), place)
        else:
            for j in range(lanes):
                for k, v in enumerate(vectors):
                    b.store(b.extract_element(v, CINT(j)), b.gep(place, [INT(r * j + k)]))

    @property
    def _nbytes(self) -> int:
        return 4 if self.real == ir.FloatType() else 8

    def put(self, b: ir.IRBuilder, v: ir.Value, place: ir.Value) -> None:
        b.store(v, b.bitcast(place, v.type.as_pointer()), align=self._nbytes)


def _shuffled(b: ir.IRBuilder, x: ir.Value, y: ir.Value, order: list[int]) -> ir.Value:
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(CINT, len(order)), order))


def in_vectors(
    b: ir.IRBuilder, count: ir.Value, lanes: int, body: Callable[[ir.IRBuilder, ir.Value], None]
) -> None:
    """`body(b, i)` for vectors that cover range(count), which is at least `lanes`; the last may overlap."""
    rounds = b.udiv(b.add(count, INT(lanes - 1)), INT(lanes))
    last = b.sub(count, INT(lanes))

    def step(b: ir.IRBuilder, k: ir.Value) -> None:
        i = b.mul(k, INT(lanes))
        body(b, i if lanes == 1 else b.select(b.icmp_signed("<", i, last), i, last))

    loop_between(b, INT(0), rounds, step)
