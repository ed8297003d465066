"""Branches that work on arrays: each is a function, and one of them is called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....ir import Equation, Var
from ....regions import INDEX, Branches, no_branch
from ..failure import fail_if
from ..numbers.registers import convert, load
from ..steps import INT, Site, Step
from ..views import Buffer, View
from .heirs import heirs
from .inside import Inside, in_memory, known_number
from .region import Call, Region

if TYPE_CHECKING:
    from ..schedule import Schedule


@dataclass(eq=False)
class BranchStep(Step):
    which: View
    branches: list[Region]
    given: dict[int, View]  # inputs that outputs replace
    taken: list[View]  # the outputs
    room: View
    failure: int | None  # if `which` is out of range; None if it cannot be

    def buffers(self) -> list[Buffer]:
        views = [self.which, *self.given.values(), *self.taken, self.room]
        lifted = [x for region in self.branches for x in region.lifted()]
        return list(dict.fromkeys([*[v.buffer for v in views], *lifted]))

    def inner_steps(self) -> list[Step]:
        return [step for region in self.branches for step in region.steps]

    @property
    def flops(self) -> int:
        return max(region.flops for region in self.branches)

    @property
    def seconds(self) -> float:
        return max(region.seconds for region in self.branches)

    def describe(self) -> str:
        texts = [f"   {n}:\n{region.describe()}" for n, region in enumerate(self.branches)]
        return "\n".join(["branch", *texts])

    def emit(self, site: Site) -> None:
        b = site.b
        found = load(b, site.address(self.which), self.which.dtype)
        which = convert(b, found, self.which.dtype, INDEX.dtype)
        if self.failure is not None:
            outside = b.icmp_unsigned(">=", which, INT(len(self.branches)))
            fail_if(b, outside, self.failure)
        after = b.append_basic_block("joined")
        blocks = [b.append_basic_block(f"branch{n}") for n in range(len(self.branches))]
        choice = b.switch(which, blocks[-1])
        for n, (block, region) in enumerate(zip(blocks, self.branches, strict=True)):
            if block is not blocks[-1]:
                choice.add_case(INT(n), block)
            b.position_at_end(block)
            call = Call(site, region, self.room, f"branch{n}")
            for i, view in self.given.items():
                call.give(i, site.base(view.buffer))
            for k, view in enumerate(self.taken):
                call.take(k, site.base(view.buffer))
            call.run()
            b.branch(after)
        b.position_at_end(after)


def lower_branch(schedule: Schedule, e: Equation) -> None:
    region: Branches = e.params["region"]
    which, *atoms = e.inputs
    programs = region.branches
    types = [in_memory(t) for t in region.outputs()]
    given: dict[int, View] = {}
    pairs: dict[int, int] = {}
    for k, i in heirs(programs).items():
        others = [which, *atoms[:i], *atoms[i + 1 :]]
        view = schedule.ownable(atoms[i], others) if type(atoms[i]) is Var else None
        if view is not None:
            schedule.overwritten.add(view.buffer)
            given[i], pairs[k] = view, i
    surroundings: dict[int, Any] = {}
    for i, a in enumerate(atoms):
        if i not in given:
            known = known_number(schedule, a, programs[0].inputs[i].dtype)
            surroundings[i] = schedule.view_of(a) if known is None else known
    ranges = {i: schedule.range_of(a) for i, a in enumerate(atoms) if i not in given}
    recurs = schedule.inside is not None and schedule.inside.recurs
    branches = [
        Region(p, Inside(schedule.root, types, schedule, surroundings, {}, pairs, ranges, recurs))
        for p in programs
    ]
    taken = [
        given[pairs[k]] if k in pairs else schedule.new_buffer(t.shape, t.dtype)
        for k, t in enumerate(types)
    ]
    size = max(r.arena_bytes for r in branches)
    room = schedule.new_buffer((size,), np.dtype(np.uint8))
    failure = _failure(schedule, which, len(branches), e.where)
    step = BranchStep(schedule.in_memory(which), branches, given, taken, room, failure)
    schedule.steps.append(step)
    schedule.sites += [n for r in branches for n in r.schedule.sites]
    for var, view in zip(e.outputs, taken, strict=True):
        schedule.views[var] = view
        schedule.ready[view.buffer] = len(schedule.steps) - 1


def _failure(schedule: Schedule, which: Any, n: int, where: str) -> int | None:
    if getattr(which, "dtype", None) == np.bool_ and n == 2:
        return None
    low, high = schedule.range_of(which)
    return None if low >= 0 and high < n else schedule.fail(IndexError, no_branch(n, where))
