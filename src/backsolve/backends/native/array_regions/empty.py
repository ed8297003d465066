"""Stacks without entries, and how many entries a stack has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....ir import Equation
from ....regions import INDEX
from .. import stacks
from ..steps import INT, Site, Step
from ..views import Buffer, View
from .inside import in_memory

if TYPE_CHECKING:
    from ..schedule import Schedule


@dataclass(eq=False)
class EmptyStack(Step):
    words: View

    def buffers(self) -> list[Buffer]:
        return [self.words.buffer]

    def emit(self, site: Site) -> None:
        described = stacks.descriptor(site.b, site.pointers.stacks, 0)  # which is always empty
        words = site.base(self.words.buffer)
        for n, value in enumerate((site.b.ptrtoint(described, INT), INT(0), INT(0))):
            stacks.set_word(site.b, words, n, value)

    def describe(self) -> str:
        return "a stack without entries"


def lower_no_entries(schedule: Schedule, e: Equation) -> None:
    t = in_memory(e.outputs[0].type)
    schedule.root.stacks.are_used = True
    view = schedule.views[e.outputs[0]] = schedule.new_buffer(t.shape, t.dtype)
    schedule.steps.append(EmptyStack(view))
    schedule.ready[view.buffer] = len(schedule.steps) - 1


def lower_length(schedule: Schedule, e: Equation) -> None:
    view = schedule.view_of(e.inputs[0])
    schedule.views[e.outputs[0]] = view.with_(view.imaginary[2, ...])
    schedule.ranges[e.outputs[0]] = (0.0, float("inf"))
    assert view.dtype == INDEX.dtype
