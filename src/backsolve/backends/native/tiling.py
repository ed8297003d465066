"""Products by tiles of our own (tiles.py), where they take less time than BLAS.

BLAS copies both operands at each call into the order in which it reads them. A product of few rows does not
pay that back. Here rows are read where they lie, and columns, too, if they stay in the first cache; else
they are put into panels (packing.py), before the loop if it does not change them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir

from ...ir import Shape
from .blas import SHARE, SMALL, THIN, Product, spread
from .blocked import does_all, in_blocks
from .packing import pack_function
from .steps import INT, Site, Step
from .sweep import Sweep
from .tiled import product_function
from .tiles import PANELS, TERMS, Registers, Tile, fits_panels, registers
from .views import Buffer, View

if TYPE_CHECKING:
    from .schedule import Schedule

FEW = 64  # rows that find their columns in the second cache as well as in panels


@dataclass(eq=False)
class Pack(Step):
    """The columns of a matrix as panels."""

    source: View
    panels: View  # (panels, terms, columns of a tile)
    found: Registers

    def buffers(self) -> list[Buffer]:
        return [self.source.buffer, self.panels.buffer]

    def emit(self, site: Site) -> None:
        dtype, found = self.source.dtype, self.found
        width, steps = found.columns(dtype), _steps(self.source)
        lanes = found.lanes(dtype)
        function = pack_function(site.module, dtype, width, lanes, steps, found.masks)
        sizes = [INT(n) for n in (*steps, *self.source.shape)]
        site.b.call(function, [site.address(self.source), *sizes, site.address(self.panels)])

    def describe(self) -> str:
        return f"panels of {self.source.shape}"


@dataclass(eq=False)
class Tiled(Product):
    """A product whose right operand is a matrix, read where it lies, or panels of it."""

    found: Registers | None = None

    def leads(self) -> list[Shape]:
        return []  # sweeps have been made before

    def describe(self) -> str:
        return f"product {self.a.shape} × {(self.a.shape[-1], self.c.shape[-1])} in tiles"

    def emit(self, site: Site) -> None:
        """In groups of rows, each of which meets panel after panel; threads share groups, or panels."""
        assert self.found is not None
        dtype, found = self.c.dtype, self.found
        height, width = found.rows, found.columns(dtype)
        (m, n), terms = self.c.shape, self.a.shape[-1]
        steps = _steps(self.a)
        in_panels = len(self.b.shape) == 3
        b_steps = (width, terms * width) if in_panels else (_steps(self.b)[0], width)
        group = max(1, found.cache // (2 * height * terms * dtype.itemsize))
        groups, panels = -(-m // (height * group)), -(-n // width)
        unit = "terms" if steps[1] == 1 else "rows" if steps[0] == 1 else ""

        def part(b: ir.IRBuilder, starts: list[ir.Value], low: ir.Value, high: ir.Value) -> None:
            lanes = found.lanes(dtype)
            tiles = [
                Tile(dtype, rows, -(-columns // lanes), unit, found, rest=rest).function(b.module)
                for rows in (min(m, height), m % height or height)
                for columns in (min(n, width), n % width or width)
                for rest in (0 if in_panels else columns % lanes,)
            ]
            words = [INT(x) for x in (*steps, *b_steps, n, 0, m, n, terms, group)]
            ends = [INT(0), INT(panels)]
            ends = [low, high, *ends] if groups >= panels else [INT(0), INT(groups), low, high]
            function = product_function(b.module, dtype, found)
            b.call(function, [*starts, *words, *ends, *tiles])

        starts = [site.address(v) for v in (self.a, self.b, self.c)]
        size = max(groups, panels)
        most = min(self.flops // (2 * SHARE), size)
        if most >= 2:
            spread(site.b, site.name, starts, part, size, most, as_it_is=True)
        else:
            part(site.b, starts, INT(0), INT(size))


def with_tiles(schedule: Schedule) -> None:
    """Do products by tiles where that is faster."""
    found = registers()
    if found is None:
        return
    known: dict[tuple[object, ...], View] = {}
    steps, schedule.steps = schedule.steps, []
    for step in steps:
        if type(step) is Product:
            columns = _columns(schedule, step, found, known)
            if columns is not None:
                step = Tiled(step.a, columns, step.c, found=found)
            else:
                step = in_blocks(schedule, step, found) or step
        elif isinstance(step, Sweep):
            _in_sweep(schedule, step, found)
        schedule.steps.append(step)


def _in_sweep(schedule: Schedule, sweep: Sweep, found: Registers) -> None:
    """Products of rows: all slices read the same panels."""
    known: dict[tuple[object, ...], View] = {}
    for steps in (sweep.steps, sweep.last):
        for k, step in enumerate(steps):
            if type(step) is not Product or len(step.c.shape) > 2 or step.adds:
                continue
            whole, moves = sweep.parts.get(step.b.buffer, (step.b.buffer, (0,)))
            terms, n = step.b.shape
            if any(moves) or whole.kind == "local" or not step.c.is_contiguous:
                continue
            if n <= (1 if found.by_lane else THIN):
                continue
            if not fits_panels(step.c.dtype, terms, n) or _steps(step.a)[1] > 1:
                continue
            matrix = View(whole, step.b.imaginary)
            key = (whole, matrix.offset, matrix.strides)
            if key not in known:
                width = found.columns(matrix.dtype)
                known[key] = _packed(schedule, matrix, (-(-n // width), terms, width), found)
            steps[k] = Tiled(step.a, known[key], step.c, found=found)


def _columns(
    schedule: Schedule, step: Product, found: Registers, known: dict[tuple[object, ...], View]
) -> View | None:
    """The right operand as tiles read it, or None if BLAS shall do this product."""
    *batch, m, n = step.c.shape
    terms, dtype = step.a.shape[-1], step.c.dtype
    if batch or step.adds or dtype.kind != "f" or terms > TERMS or not step.c.is_contiguous:
        return None
    # Rows that do not lie in lines are read across them, again and again: they must stay near.
    rows = m * terms * dtype.itemsize if _steps(step.a)[1] > 1 else 0
    size = terms * n * dtype.itemsize
    if size > 2 * PANELS or rows > found.cache // 2:
        return None
    key = (step.b.buffer, step.b.offset, step.b.strides, step.b.shape)
    if key in known:
        return known[key]
    width = found.columns(dtype)
    shape = (-(-n // width), terms, width)
    panels = _before_the_loop(schedule, step.b, shape, found)
    if panels is not None:
        known[key] = panels
        return panels
    in_lines = _steps(step.b)[1] == 1 and (found.masks or n % found.lanes(dtype) == 0)
    if in_lines and size + rows <= (found.near if m <= FEW else found.cache):
        return step.b
    is_small = m * n * terms <= SMALL or n <= THIN or not does_all(found)
    is_repaid = m >= found.repaid and size <= PANELS and is_small
    return _packed(schedule, step.b, shape, found) if is_repaid else None


def _before_the_loop(
    schedule: Schedule, matrix: View, shape: Shape, found: Registers
) -> View | None:
    """The panels of a matrix that no round changes, made before the outermost loop that reads it."""
    inside = schedule.inside
    if inside is None or inside.outer is None:
        return None
    for inner, whole in schedule.lifted:
        if inner is matrix.buffer:
            outside = View(whole.buffer, matrix.imaginary)
            panels = _before_the_loop(inside.outer, outside, shape, found)
            if panels is None and inside.repeats:
                panels = _packed(inside.outer, outside, shape, found)
            return schedule.lift(panels) if panels is not None else None
    return None


def _packed(schedule: Schedule, matrix: View, shape: Shape, found: Registers) -> View:
    panels = schedule.new_buffer(shape, matrix.dtype)
    schedule.steps.append(Pack(matrix, panels, found))
    schedule.ready[panels.buffer] = len(schedule.steps) - 1
    return panels


def _steps(matrix: View) -> tuple[int, int]:
    """The distances of rows and of columns; of a single one, that of a matrix in one piece."""
    (m, n), (rows, columns) = matrix.shape, matrix.strides
    if n == 1:
        columns = m if rows == 1 and m > 1 else 1
    return rows if m > 1 else n, columns
