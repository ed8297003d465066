"""The step that makes a large product in tiles, block by block (blocks.py), on all threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Shape
from .blas import SHARE, THIN, Product, spread
from .blocks import blocks_function, functions
from .share_out import most_workers
from .steps import INT, Site
from .tiles import Large, Registers, tile_of
from .views import Buffer, View

if TYPE_CHECKING:
    from .schedule import Schedule

# Rows and columns from which on rows that lie in lines are worth putting into panels, too.
MANY, REPAID = 64, 256
FEWEST = 12  # rows that repay panels of columns


@dataclass(frozen=True)
class Sizes:
    """What is in a block."""

    terms: int
    columns: int  # full panels
    rows: int  # full tiles
    is_packed: bool  # whether rows are put into panels as well

    @classmethod
    def of(cls, step: Product, found: Registers, large: Large) -> Sizes:
        (m, n), terms, dtype = step.c.shape, step.a.shape[-1], step.c.dtype
        in_lines = step.a.strides[-1] == 1
        is_packed = not in_lines or (not found.by_lane and m >= MANY and n >= REPAID)
        return cls.fitting((m, n, terms), dtype, found, large, is_packed)

    @classmethod
    def fitting(
        cls,
        shape: Shape,
        dtype: np.dtype[Any],
        found: Registers,
        large: Large,
        is_packed: bool = True,
        unit: int = 1,
    ) -> Sizes:
        """Those of a product of so many rows, columns and terms; a block holds some times `unit` terms."""
        m, n, all_terms = shape
        most = large.terms // dtype.itemsize
        terms = -(-all_terms // -(-all_terms // most))  # blocks of even length
        terms = -(-terms // unit) * unit
        width, height = found.columns(dtype), found.rows
        panels = max(1, large.columns // (terms * width * dtype.itemsize))
        return cls(
            terms,
            min(panels, -(-n // width)) * width,
            min(large.rows, -(-m // height)) * height,
            is_packed,
        )


@dataclass(eq=False)
class Blocked(Product):
    """C = A B, or C += A B, with room for the panels of each worker."""

    found: Registers | None = None
    sizes: Sizes | None = None
    room: View | None = None  # (workers, entries)

    def buffers(self) -> list[Buffer]:
        return [*super().buffers(), *([self.room.buffer] if self.room is not None else [])]

    def leads(self) -> list[Shape]:
        return []  # sweeps have been made before

    def describe(self) -> str:
        return f"product {self.a.shape} × {self.b.shape} in blocks of tiles"

    def emit(self, site: Site) -> None:
        """Threads share what there is more of, rows or columns: that operand is packed once."""
        assert self.found is not None
        assert self.sizes is not None
        assert self.room is not None
        found, sizes, dtype = self.found, self.sizes, self.c.dtype
        (m, n), terms = self.c.shape, self.a.shape[-1]
        height, width = found.rows, found.columns(dtype)
        unit = height if m > n else width
        count = -(-max(m, n) // unit)
        a_steps, b_steps = self.a.strides, self.b.strides
        a_unit = "panel" if sizes.is_packed else "terms"
        group = INT(sizes.rows // height)
        room_size = INT(self.room.shape[-1])

        def part(b: ir.IRBuilder, starts: list[ir.Value], low: ir.Value, high: ir.Value) -> None:
            packed = a_steps if sizes.is_packed else None
            called = functions(b.module, dtype, found, packed, b_steps)
            adds = (self.adds, self.adds or sizes.terms < terms)
            called += tiles_of(b.module, self.c, a_unit, found, adds)
            first = b.mul(low, INT(unit))
            last = b.mul(high, INT(unit))
            is_over = b.icmp_signed(">", last, INT(max(m, n)))
            length = b.sub(b.select(is_over, INT(max(m, n)), last), first)
            moves = (a_steps[0], 0, n) if m > n else (0, b_steps[1], 1)
            x, y, z, room = starts
            x, y, z = (
                b.gep(p, [b.mul(first, INT(k))]) for p, k in zip((x, y, z), moves, strict=True)
            )
            worker = b.function.args[-1] if is_shared else INT(0)
            a_room = b.gep(room, [b.mul(worker, room_size)])
            b_room = b.gep(a_room, [INT(sizes.rows * sizes.terms)])
            rows, columns = (length, INT(n)) if m > n else (INT(m), length)
            words = [INT(k) for k in (*a_steps, *b_steps, n, int(self.adds))]
            words += [rows, columns, *map(INT, (terms, sizes.terms, sizes.columns, sizes.rows))]
            words += [group, INT(int(sizes.is_packed))]
            function = blocks_function(b.module, dtype, found)
            b.call(function, [x, y, z, a_room, b_room, *words, *called])

        starts = [site.address(v) for v in (self.a, self.b, self.c, self.room)]
        most = min(self.flops // (2 * SHARE), count, self.room.shape[0])
        is_shared = most >= 2
        if is_shared:
            spread(site.b, site.name, starts, part, count, most, as_it_is=True)
        else:
            part(site.b, starts, INT(0), INT(count))


def tiles_of(
    module: ir.Module, c: View, unit: str, found: Registers, adds: Sequence[bool]
) -> list[ir.Function]:
    """All tiles of a product: those of the first block of terms, and of the others."""
    (m, n), dtype = c.shape, c.dtype
    height, width = found.rows, found.columns(dtype)
    return [
        tile_of(dtype, rows, columns, unit, found, later).function(module)
        for later in adds
        for rows in (min(m, height), m % height or height)
        for columns in (min(n, width), n % width or width)
    ]


def does_all(found: Registers) -> bool:
    """Whether products whose rows lie in lines are done in blocks, too."""
    return found.large is not None and found.large.in_lines


def in_blocks(schedule: Schedule, step: Product, found: Registers) -> Blocked | None:
    """The product in blocks of tiles; None where BLAS is better, or the only one that can do it."""
    *batch, m, n = step.c.shape
    large = found.large
    if large is None or batch or step.c.dtype.kind != "f" or not step.c.is_contiguous:
        return None
    in_lines = step.a.strides[-1] == 1
    if n <= THIN or m < FEWEST or (in_lines and not does_all(found)):
        return None
    sizes = Sizes.of(step, found, large)
    shares = min(most_workers(), max(1, step.flops // (2 * SHARE)))
    shape = (shares, sizes.terms * (sizes.rows + sizes.columns))
    room = schedule.new_buffer(shape, step.c.dtype)
    return Blocked(step.a, step.b, step.c, step.adds, found, sizes, room)
