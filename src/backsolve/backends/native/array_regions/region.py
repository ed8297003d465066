"""A region's Program as a function of its own, called through a table of pointers.

It is scheduled like a whole program, with these differences: an output that replaces an input (a value
carried from round to round) is written into that input's memory, in place where the order of steps allows
and by a last copy where not; memory of the surroundings that does not change meanwhile is read where it
lies, strided as it is; temporary arrays lie in a room of the outer arena.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from ....ir import Program
from ..arena import lay_out
from ..emission import emit_function, places
from ..failure import call_step
from ..steps import INT, POINTER, Site, Step
from ..sweep import Sweep, with_sweeps
from ..views import Buffer, View
from .inside import Inside


class Region:
    def __init__(self, program: Program, inside: Inside):
        from ..donation import put_in_place
        from ..schedule import Schedule

        self.schedule = schedule = Schedule(program, inside)
        put_in_place(schedule, inside.pairs)
        schedule.steps = with_sweeps(schedule.steps)
        rooms = [x.room for x in schedule.steps if isinstance(x, Sweep)]
        temporary = [x for x in (*schedule.arena, *rooms) if x.kind == "arena"]
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

    def lifted(self) -> list[Buffer]:
        """The memory of the surroundings that it reads."""
        return [view.buffer for _, view in self.schedule.lifted]

    def describe(self) -> str:
        lines = "\n".join(step.describe() for step in self.steps)
        return "\n".join(f"     {line}" for line in lines.split("\n"))


class Call:
    """A region's function and the table it is called with, set up where `site` stands."""

    def __init__(self, site: Site, region: Region, room: View, name: str):
        self.site, self.room = site, room
        schedule = region.schedule
        self.function = emit_function(site.module, f"{site.name}_{name}", schedule)
        self.function.linkage = "internal"
        self.first = places(schedule)
        size = self.first["lifted"] + len(schedule.lifted)
        with site.b.goto_entry_block():
            self.table = site.b.alloca(POINTER, size=size)
        self._put(self.first["root"], site.pointers.root)
        for k, (_, view) in enumerate(schedule.lifted):
            self._put(self.first["lifted"] + k, site.base(view.buffer))

    def give(self, k: int, pointer: ir.Value) -> None:
        """Where input k lies."""
        self._put(k, pointer)

    def take(self, k: int, pointer: ir.Value) -> None:
        """Where output k is due."""
        self._put(self.first["output"] + k, pointer)

    def run(self) -> None:
        arena = self.site.b.bitcast(self.site.base(self.room.buffer), POINTER)
        call_step(self.site.b, self.function, [self.table, arena])

    def _put(self, place: int, pointer: Any) -> None:
        b = self.site.b
        b.store(b.bitcast(pointer, POINTER), b.gep(self.table, [INT(place)]))
