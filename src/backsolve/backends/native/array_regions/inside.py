"""What the schedule of a region knows of its surroundings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ....ir import Type, Var, type_of
from ....regions import INDEX
from ..stacks import WIDTH
from ..views import Buffer, View

if TYPE_CHECKING:
    from ..placement import Placement
    from ..schedule import Schedule

Range = tuple[float, float]


@dataclass(eq=False)
class Inside:
    root: Schedule  # that of the whole program: it has the constants and the failures
    types: list[Type]  # of the outputs, as they lie in memory
    outer: Schedule | None = None  # None for a callee, which has several
    fixed: dict[int, Any] = field(default_factory=dict)  # inputs: views of the outer's, or numbers
    entries: dict[int, View] = field(default_factory=dict)  # inputs laid out as such a view
    pairs: dict[int, int] = field(default_factory=dict)  # output -> the input that it overwrites
    ranges: dict[int, Range] = field(default_factory=dict)  # of integer inputs
    recurs: bool = False  # it may be under way several times at once
    repeats: bool = False  # it is the body of a loop

    def give(self, schedule: Placement, k: int, var: Var) -> None:
        """Input k of the region, a number or in memory."""
        if k in self.ranges:
            schedule.ranges[var] = self.ranges[k]
        known = self.fixed.get(k)
        if isinstance(known, View):
            schedule.views[var] = schedule.lift(known)
            return
        if known is not None:
            schedule.numbers[var] = known
            return
        t = in_memory(var.type)
        buffer = Buffer("input", t.size, t.dtype, k)
        schedule.ready[buffer] = -1
        like = self.entries.get(k)
        schedule.views[var] = View.whole(buffer, t.shape)
        if like is not None:
            schedule.views[var] = View(buffer, like.imaginary)


def in_memory(t: Type) -> Type:
    """What lies in memory for a value of type `t`; of a stack its three words."""
    return Type((WIDTH,), INDEX.dtype) if t.is_stack else Type(t.shape, t.dtype)


def known_number(schedule: Schedule, a: Any, dtype: np.dtype[Any]) -> Any:
    """The number that an atom is known to be everywhere, or None."""
    if type(a) is not Var:
        return dtype.type(a)
    if a.type.is_stack:
        return None
    found = schedule.numbers.get(a)
    return None if found is None else dtype.type(found)


def owned(schedule: Schedule, a: Any, t: Type, others: Any) -> View:
    """Memory of type `t` that holds `a` and may be overwritten."""
    if type(a) is Var:
        found = schedule.ownable(a, others)
        if found is not None and found.dtype == t.dtype:
            schedule.overwritten.add(found.buffer)
            return found
    view = schedule.new_buffer(t.shape, t.dtype)
    schedule.copy(a, view)
    return view


def in_one_piece(schedule: Schedule, a: Any, t: Type) -> View:
    """Where `a` lies as an array of type `t`, entry behind entry."""
    if type_of(a).dtype == t.dtype or type_of(a).is_stack:
        view = schedule.in_memory(a)
        if view.is_contiguous and view.shape == t.shape:
            return view
    fresh = schedule.new_buffer(t.shape, t.dtype)
    schedule.copy(a, fresh)
    return fresh
