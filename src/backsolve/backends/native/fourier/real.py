"""Transforms of real numbers, and back to them, without the work on what their symmetry tells (halves.py)."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from .convolution import clear
from .halves import DOUBLE, JOIN, PART, Fold, fold_table
from .lines import INT, PAIRS, PLANES, REAL, Lines
from .passes import Pass
from .transform import Memory, Transform, call, joined, lanes_for

Make = Callable[[int], Transform]  # a complex transform of that length


class _Real(Transform):
    """`make` gives the complex transform: of half the length if that is even."""

    def __init__(self, n: int, make: Make):
        self.n, self.inner = n, make(n if n % 2 else n // 2)
        self.width, self.dtype = self.inner.width, self.inner.dtype
        self.size = self.inner.n * self.width
        self.is_line = self.width == 1
        self.room = 2 * self.size + self.inner.room
        fold = [] if n % 2 else [fold_table(n, self.is_line, self.dtype)]
        self.table, self.starts = joined([self.inner.table, *fold])

    def numbers(self, lines: Lines, b: ir.IRBuilder) -> Lines:
        """Real rows as rows of half as many complex ones."""
        assert lines.kind == REAL
        if self.n % 2:
            return lines
        if self.is_line:
            return lines._replace(kind=PAIRS)
        below = b.gep(lines.re, [INT(lines.stride)])
        return lines._replace(kind=PLANES, im=below, stride=2 * lines.stride)

    def fold(
        self, b: ir.IRBuilder, what: str, x: Lines, y: Lines, at: Memory, **ways: bool
    ) -> None:
        rows = self.n // 2 if what == DOUBLE else self.n // 4
        lanes = lanes_for(self.dtype, max(1, rows) if self.is_line else self.width)
        made = Fold(what, self.dtype, x.kind, y.kind, lanes, self.is_line, **ways)
        table = b.gep(at.table, [INT(self.starts[-1])])
        sizes = (self.n // 2, self.width, x.stride, y.stride)
        b.call(made.function(b.module), [x.re, x.im, y.re, y.im, table, *map(INT, sizes)])


class FromReal(_Real):
    def __init__(self, n: int, make: Make, is_full: bool = False, is_inverse: bool = False):
        super().__init__(n, make)
        self.is_full, self.is_inverse = is_full, is_inverse

    def emit(self, b: ir.IRBuilder, x: Lines, y: Lines, at: Memory) -> None:
        done = at.planes(b, 0, self.size, self.width)
        inside = at.after(b, 2 * self.size, 0)
        x = self.numbers(x, b)
        if self.n % 2 == 0:
            self.inner.emit(b, x, done, inside)
            self.fold(b, PART, done, y, at, is_full=self.is_full, is_inverse=self.is_inverse)
        elif self.is_full:
            x, y = (x.swapped(), y.swapped()) if self.is_inverse else (x, y)
            self.inner.emit(b, x, y, inside)
        else:
            self.inner.emit(b, x, done, inside)
            rows = self.n // 2 + 1
            lanes = lanes_for(self.dtype, rows if self.is_line else self.width)
            made = Pass(1, self.dtype, PLANES, y.kind, lanes, self.is_line, turns=False)
            call(b, made, done, y, at.table, rows, 1, self.width, done.stride, y.stride)


class ToReal(_Real):
    """From the numbers up to n/2, those of the other sign; not halved."""

    def emit(self, b: ir.IRBuilder, x: Lines, y: Lines, at: Memory) -> None:
        given = at.planes(b, 0, self.size, self.width)
        inside = at.after(b, 2 * self.size, 0)
        if self.n % 2:
            self.fold(b, DOUBLE, x, given, at)
            clear(b, given, (self.n // 2 + 1) * self.width, self.size, self.dtype)
            self.inner.emit(b, given, y, inside)
        else:
            self.fold(b, JOIN, x, given, at)
            self.inner.emit(b, given.swapped(), self.numbers(y, b).swapped(), inside)
