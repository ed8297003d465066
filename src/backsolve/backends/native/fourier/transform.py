"""Transforms of one length, in passes: what these read, and the calls that make them.

Each kind of transform knows its constants (`table`) and how much it works in (`room`), both in real numbers,
and emits itself between two places.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from ..tiles import registers
from .lines import INT, PLANES, Lines
from .passes import Pass
from .primes import PrimePass
from .roots import WRITTEN_OUT


class Memory(NamedTuple):
    """Where a transform works, and where its constants are."""

    room: ir.Value
    table: ir.Value

    def after(self, b: ir.IRBuilder, room: int | ir.Value, table: int) -> Memory:
        room = INT(room) if isinstance(room, int) else room
        return Memory(b.gep(self.room, [room]), b.gep(self.table, [INT(table)]))

    def planes(self, b: ir.IRBuilder, first: int, size: int, stride: int) -> Lines:
        """Two planes of the room."""
        re, im = (b.gep(self.room, [INT(first + k * size)]) for k in (0, 1))
        return Lines(PLANES, re, im, stride)


class Transform(ABC):
    n: int
    width: int  # so many side by side
    dtype: np.dtype[Any]  # of the parts
    room: int
    table: Any

    @abstractmethod
    def emit(self, b: ir.IRBuilder, x: Lines, y: Lines, at: Memory) -> None:
        """y becomes the transform of x."""


def lanes_for(dtype: np.dtype[Any], count: int) -> int:
    """Of a vector for so many numbers: never more than these, nor than 8."""
    found = registers()
    most = min(8, (found.nbytes if found is not None else 16) // dtype.itemsize)
    return min(most, 1 << (count.bit_length() - 1))


def joined(tables: list[Any]) -> tuple[Any, list[int]]:
    """Tables in one, and where each begins."""
    starts = np.cumsum([0, *(t.size for t in tables)]).tolist()
    return np.concatenate(tables), starts[:-1]


def call(
    b: ir.IRBuilder, made: Pass | PrimePass, x: Lines, y: Lines, table: ir.Value, *sizes: int
) -> None:
    numbers = map(INT, (*sizes, *made.more))
    b.call(made.function(b.module), [x.re, x.im, y.re, y.im, table, *numbers])


class Plain(Transform):
    """One pass after the other."""

    def __init__(self, radices: tuple[int, ...], width: int, dtype: np.dtype[Any]):
        self.radices, self.n = radices or (1,), prod(radices)
        self.width, self.dtype = width, dtype
        self.room = 2 * self.n * width * min(2, len(self.radices) - 1)
        done = np.cumprod(self.radices).tolist()
        self.table, self.starts = joined(
            [
                self._pass(r, d, PLANES, PLANES, 1).table(self.n // d)
                for r, d in zip(self.radices, done, strict=True)
            ]
        )

    def _is_line(self, r: int, done: int) -> bool:
        """Whether a pass has rows of one number."""
        return self.width == 1 and done == r < self.n and r <= WRITTEN_OUT

    def _pass(self, r: int, done: int, source: str, target: str, lanes: int) -> Pass | PrimePass:
        turns = done < self.n
        if r > WRITTEN_OUT:
            return PrimePass(r, self.dtype, source, target, lanes, turns)
        return Pass(r, self.dtype, source, target, lanes, self._is_line(r, done), turns)

    def emit(self, b: ir.IRBuilder, x: Lines, y: Lines, at: Memory) -> None:
        size, width = self.n * self.width, self.width
        works = [at.planes(b, 2 * k * size, size, width) for k in (0, 1)]
        before = 1
        for k, r in enumerate(self.radices):
            done = before * r
            m, table = self.n // done, b.gep(at.table, [INT(self.starts[k])])
            source = x if k == 0 else works[(k - 1) % 2]
            target = y if done == self.n else works[k % 2]
            # Rows that are done with are one long row, if nothing lies between them.
            blocks, long, steps = before, width, (source.stride, target.stride)
            if before == 1 or steps == (width, width):
                blocks, long, steps = 1, before * width, (before * steps[0], before * steps[1])
            lanes = lanes_for(self.dtype, m if self._is_line(r, done) else long)
            made = self._pass(r, done, source.kind, target.kind, lanes)
            call(b, made, source, target, table, m, blocks, long, *steps)
            before = done
