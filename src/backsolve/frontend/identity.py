"""Which objects the variables of a region hold at its ends, and what follows for those in their place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..links import is_spoilt, link, linked, partners
from ..tensor import Tensor
from .aliases import doubt, join, spoil
from .places import Attribute, Perhaps, Variable
from .scope import is_made_in
from .writes import REFERENCES_IN_CELL, is_entry_shared

if TYPE_CHECKING:
    from .staging import Opened

Spot = tuple[str, int]  # a variable, and which of the parts of its value
MOST_OLDS = 4


def parts(value: Any) -> list[Any]:
    """The objects that a variable leads to: those in a tuple, too."""
    if isinstance(value, Perhaps):
        return parts(value._bs_value)
    return [p for x in value for p in parts(x)] if isinstance(value, tuple) else [value]


def is_object(x: Any) -> bool:
    """Whether it can be changed: arrays, lists, dicts, and objects with attributes."""
    if isinstance(x, Tensor):
        return is_spoilt(x) or x.ndim > 0
    if isinstance(x, np.ndarray):
        return x.ndim > 0
    return isinstance(x, list | dict) or (hasattr(x, "__dict__") and not callable(x))


def has_others(cell: Any) -> bool:
    """Whether an object in a variable can be reached in another way too."""
    try:
        if isinstance(cell.cell_contents, Perhaps):
            return any(is_object(x) for x in parts(cell.cell_contents))
        if not is_object(cell.cell_contents):
            return False
    except ValueError:
        return False
    return sys.getrefcount(cell.cell_contents) > REFERENCES_IN_CELL


def variables(region: Opened) -> dict[str, Variable | Attribute]:
    """Places that a region binds anew: what they hold before and after may be other objects."""
    return {key: p for key, p in region.keyed() if isinstance(p, Variable | Attribute)}


def _is_shared(place: Variable | Attribute) -> bool:
    if isinstance(place, Variable):
        return has_others(place.cell)
    return is_object(place.get()) and is_entry_shared(place.owner, (".", place.attribute))


class Ends:
    """The objects in a region's variables when it ends in one way, and which of them are older than it."""

    def __init__(self, region: Opened, before: dict[str, Any]):
        self.values: dict[str, Any] = {}
        self.objects: dict[Spot, Any] = {}
        self.old: dict[Spot, Any] = {}
        for key, place in variables(region).items():
            shared = _is_shared(place)  # asked before anybody else holds it
            value = self.values[key] = place.get()
            if value is before.get(key):
                shared = key in region.shared or isinstance(place, Attribute)
            for j, part in enumerate(parts(value)):
                if not is_object(part):
                    continue
                self.objects[key, j] = part
                if (shared or isinstance(part, Tensor)) and not is_made_in(part, region):
                    self.old[key, j] = part

    def sharing(self, spot: Spot) -> list[Any]:
        """Old objects that what is there is, or shares memory with."""
        return [self.old[spot]] if spot in self.old else partners(self.objects[spot])


def with_olds(f: Callable[[], Any], region: Opened) -> tuple[Any, list[list[Any]]]:
    """The result of `f`, and for each of its parts the objects with which it shares memory."""
    result = f()
    shared = sys.getrefcount(result) > _REFERENCES_OF_RESULT
    old: list[list[Any]] = []
    for part in parts(result):
        if isinstance(part, Tensor):
            shared = not is_made_in(part, region)
        old.append([part] if is_object(part) and shared else partners(part))
    return result, old


def _count_result() -> int:
    make = lambda: np.zeros(1)
    result = make()
    return sys.getrefcount(result)


_REFERENCES_OF_RESULT = _count_result()


def after_branches(region: Opened, ends: Sequence[Ends]) -> None:
    """The variables hold new objects now, each for one of those at the ends."""
    places = variables(region)
    for key, place in places.items():
        values = [end.values[key] for end in ends]
        if all(v is values[0] for v in values) and (key, 0) in ends[0].old:
            place.put(values[0])  # the same old object either way
    new = {
        (key, j): part
        for key, place in places.items()
        for j, part in enumerate(parts(place.get()))
        if is_object(part)
    }
    spots = [spot for spot in new if any(spot in end.objects for end in ends)]
    for n, spot in enumerate(spots):
        olds = [x for end in ends if spot in end.objects for x in end.sharing(spot)]
        if olds and not all(x is new[spot] for x in olds):
            join(new[spot], olds, region.what)
        for other in spots[:n]:  # two names of one object
            both = [end for end in ends if spot in end.objects and other in end.objects]
            if any(end.objects[spot] is end.objects[other] for end in both):
                join(new[spot], [new[other]], region.what)


class Rounds:
    """The same for a loop, where the objects of one round's end are those that the next one begins with."""

    def __init__(self, region: Opened):
        self.region = region
        self.before: dict[Spot, Any] = {}
        self.twins: dict[Spot, set[Spot]] = region.memory.twins
        self.heirs: dict[Spot, set[Spot]] = region.memory.heirs
        self.olds: dict[Spot, list[Any]] = {}  # objects from outside that a round leaves there
        self.stale: dict[int, tuple[Tensor, str]] = {}

    def open(self) -> None:
        """Before each try."""
        self.before = self.spots()

    def begin(self, at_start: bool = True) -> None:
        """Link what the variables hold with what Python might hold there as well."""
        now = self.spots()
        places = variables(self.region)
        for spot, x in now.items():
            is_attribute = isinstance(places[spot[0]], Attribute)
            if at_start and (is_attribute or spot[0] in self.region.shared):
                self.meet(x, self.before.get(spot))
        self.link(now)
        for t, where in self.stale.values():
            spoil(t, where)

    def link(self, start: dict[Spot, Any]) -> None:
        """What a round starts with, with what the one before may have left there."""
        for spot, x in start.items():
            others = [start.get(t) for t in self.twins.get(spot, ())]
            others += [self.before.get(t) for t in self.heirs.get(spot, ())]
            for other in others + self.olds.get(spot, []):
                self.meet(x, other)

    def meet(self, x: Any, other: Any) -> None:
        if other is None or x is other:
            return
        if isinstance(x, Tensor) and isinstance(other, Tensor):
            link(x, other)
        elif not isinstance(x, Tensor):
            doubt(x, f"what may be an object with other names in {self.region.what}")
        elif isinstance(other, np.ndarray):
            pass  # staging.py looks whether the first round writes into it

    def spots(self) -> dict[Spot, Any]:
        found = {}
        for key, place in variables(self.region).items():
            for j, part in enumerate(parts(place.get())):
                if is_object(part):
                    found[key, j] = part
        return found

    def end(self, start: dict[Spot, Any]) -> bool:
        """Look at what a round has left; whether it must be staged again, with what is known now."""
        ends = Ends(self.region, {})
        while self.learn(ends, start):
            if self.region.writes:
                return True
            self.link(start)  # nobody has written: late links do as well as early ones
        return False

    def learn(self, ends: Ends, start: dict[Spot, Any]) -> bool:
        """Whether something new is known."""
        started, before = ({id(x) for x in xs.values()} for xs in (start, self.before))
        learnt = False
        for spot, x in ends.objects.items():
            if x is start.get(spot):
                continue
            shared = {id(y): y for y in linked(x, before)}
            twins = {s for s, y in ends.objects.items() if s != spot and id(y) in shared}
            if spot not in ends.old:
                del shared[id(x)]
            heirs = {s for s, y in self.before.items() if id(y) in shared}
            for known, found in ((self.twins, twins), (self.heirs, heirs)):
                learnt |= not found <= known.setdefault(spot, set())
                known[spot] |= found
            olds = self.olds.setdefault(spot, [])
            for key, y in shared.items():
                is_known = key in started or key in before or any(y is z for z in olds)
                if not is_known and not is_made_in(y, self.region):
                    olds.append(y)
                    learnt |= len(olds) <= MOST_OLDS  # what is new with each try is nobody's
        for t, where in self.region.spoilt:
            if not is_made_in(t, self.region) and id(t) not in started and id(t) not in self.stale:
                self.stale[id(t)] = t, where
                learnt = True
        return learnt
