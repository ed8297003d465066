"""A region's Program as a function of its own, called through a table of pointers.

It is scheduled like a whole program, with these differences: an output that replaces an input (a value
carried from round to round) is written into that input's memory, in place where the order of steps allows
and by a last copy where not; memory of the surroundings that does not change meanwhile is read where it
lies, strided as it is; temporary arrays lie in a room of the outer arena.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from ....ir import Program, type_of
from .. import boxes, stacks
from ..arena import lay_out
from ..emission import emit_function, places
from ..failure import call_step
from ..steps import INT, POINTER, Site, Step
from ..sweep import rooms, with_sweeps
from ..tiling import with_tiles
from ..views import Buffer, View
from .inside import Inside

if TYPE_CHECKING:
    from ..schedule import Schedule


class Region:
    def __init__(self, program: Program, inside: Inside):
        from ..donation import put_in_place
        from ..schedule import Schedule

        self.schedule = schedule = Schedule(program, inside)
        put_in_place(schedule, inside.pairs)
        schedule.steps = with_sweeps(schedule.steps)
        with_tiles(schedule)
        temporary = [x for x in (*schedule.arena, *rooms(schedule.steps)) if x.kind == "arena"]
        self.arena_bytes = lay_out(schedule.steps, temporary)

    @property
    def steps(self) -> Sequence[Step]:
        return self.schedule.steps

    @property
    def flops(self) -> int:
        return sum(step.flops for step in self.steps)

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    def left_sites(self) -> list[int]:
        """Places that make stacks which outlive the region: some output may be one of them."""
        return self.schedule.sites if self.gives_stacks else []

    @property
    def gives_stacks(self) -> bool:
        return any(type_of(a).is_stack for a in self.schedule.program.outputs)

    @cached_property
    def makes_boxes(self) -> bool:
        return boxes.makes_boxes(self.schedule.program.equations)

    def cleaner(self, site: Site) -> Callable[[], None]:
        """What gives back the memory of the stacks of a round, if none of them outlives it."""
        sites = [] if self.gives_stacks else self.schedule.sites
        has_boxes = self.makes_boxes and not self.gives_stacks
        if not sites and not has_boxes:
            return lambda: None
        b, table = site.b, site.pointers.stacks
        described = [stacks.descriptor(b, table, n) for n in sites]
        lengths = [stacks.word(b, x, stacks.LENGTH) for x in described]
        recurs = self.schedule.inside is not None and self.schedule.inside.recurs
        mark = stacks.nodes_in_use(b, table) if recurs or has_boxes else None
        heap = boxes.mark(b, table) if has_boxes else None

        def clean() -> None:
            for x, length in zip(described, lengths, strict=True):
                stacks.set_word(b, x, stacks.LENGTH, length)
            if mark is not None:
                stacks.release_nodes(b, table, mark)
            if heap is not None:
                boxes.release(b, table, heap)

        return clean

    def lifted(self) -> list[Buffer]:
        """The memory of the surroundings that it reads."""
        return [view.buffer for _, view in self.schedule.lifted]

    def describe(self) -> str:
        lines = "\n".join(step.describe() for step in self.steps)
        return "\n".join(f"     {line}" for line in lines.split("\n"))


class Table:
    """What a region's function is called with, set up where `site` stands."""

    def __init__(self, site: Site, schedule: Schedule):
        self.site = site
        self.first = places(schedule)
        size = self.first["lifted"] + len(schedule.lifted)
        with site.b.goto_entry_block():
            self.pointer = site.b.alloca(POINTER, size=size)
        self._put(self.first["root"], site.pointers.root)
        if schedule.callees:
            self._put(self.first["limit"], site.b.inttoptr(site.pointers.limit, POINTER))
        for k, (_, view) in enumerate(schedule.lifted):
            self._put(self.first["lifted"] + k, site.base(view.buffer))

    def give(self, k: int, pointer: ir.Value) -> None:
        """Where input k lies."""
        self._put(k, pointer)

    def take(self, k: int, pointer: ir.Value) -> None:
        """Where output k is due."""
        self._put(self.first["output"] + k, pointer)

    def _put(self, place: int, pointer: Any) -> None:
        b = self.site.b
        b.store(b.bitcast(pointer, POINTER), b.gep(self.pointer, [INT(place)]))


class Call(Table):
    """A region's own function with its table."""

    def __init__(self, site: Site, region: Region, room: View, name: str):
        super().__init__(site, region.schedule)
        self.room = room
        self.function = emit_function(site.module, f"{site.name}_{name}", region.schedule)
        self.function.linkage = "internal"

    def run(self) -> None:
        arena = self.site.b.bitcast(self.site.base(self.room.buffer), POINTER)
        call_step(self.site.b, self.function, [self.pointer, arena])
