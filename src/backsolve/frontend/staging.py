"""What branches and loops share: opening a region on a function's variables, and trying until it is known
all that the region changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CellType, FunctionType
from typing import Any

import numpy as np

from ..errors import ControlFlowError, InPlaceError, location
from ..links import restore
from ..tensor import Tensor
from .aliases import spoil
from .containers import Container
from .identity import has_others
from .places import (
    ABSENT,
    NOTHING,
    Array,
    Form,
    Perhaps,
    Place,
    Undefined,
    Variable,
    describe,
    is_number,
    take_apart,
    zeros_like,
)
from .scope import Discovered, Memory, Region, check_write, stack
from .writes import own_entries, tensor_in_cell


class Again(BaseException):
    """Stage a region again: more is known of it now."""

    def __init__(self, region: Region):
        super().__init__()
        self.region = region


class Opened(Region):
    """A region on the variables that two or more nested functions share."""

    def __init__(
        self,
        what: str,
        functions: Sequence[FunctionType | None],
        state: Sequence[str],
        held: Sequence[str],
        scratch: Sequence[str],
    ):
        super().__init__(what)
        around = stack()
        codes = tuple([f.__code__ for f in functions if f is not None])
        self.memory = around[-1].memory_of(codes) if around else Memory()
        self.inner = self.memory.inner
        self.cells: dict[str, CellType] = {}
        for f in functions:
            if f is not None:
                names = f.__code__.co_freevars
                self.cells.update(zip(names, f.__closure__ or (), strict=True))
        self.scratch = [Variable(n, self.cell(n)) for n in scratch]
        self.fills: dict[str, tuple[list[Any], Form]] = {}  # for variables without a value at first
        # Variables that only some ways assign: zeros in their place, beside a flag; or no value at all.
        self.perhaps: dict[str, tuple[list[Any], Form]] = {}
        self.lost: set[str] = set()
        self.first: list[tuple[str, Tensor, Any]] = []
        self.rounds: Any = None  # of a loop: what its rounds hand on (identity.py)
        self.shared: set[str] = set()  # variables whose object has other names
        for name in state:
            self.hold(Variable(name, self.cell(name)))
            if has_others(self.cells[name]):
                self.shared.add(name)
        for name in held:
            self.hold_value_of(name)

    def cell(self, name: str) -> CellType:
        if name not in self.cells:
            raise ControlFlowError(
                f"{self.what} assigns the global name `{name}`, which staging cannot follow; pass it as an "
                "argument and return it"
            )
        return self.cells[name]

    def hold_value_of(self, name: str) -> None:
        """The place behind a name that is written into: the object itself, if it can change."""
        cell = self.cells.get(name)
        if cell is None:
            return  # a name from outside the function: found when it is written into
        variable = Variable(name, cell)
        value = variable.get()
        place: Place | None = variable
        if isinstance(value, np.ndarray) and is_number(value):
            del value  # so that other names can be counted
            place = Array(name, tensor_in_cell(cell))
        elif isinstance(value, Tensor) and value.ndim:
            check_write(value)  # the regions around this one must hold it too
            place = Array(name, value)
        elif isinstance(value, list | dict):
            own_entries(value)
            place = Container(name, value)
        elif not (value is NOTHING or is_number(value) or isinstance(value, tuple | Perhaps)):
            place = None  # an object: its attributes are found when they are set
        if place is not None:
            self.hold(place)

    # ---- variables that a loop both binds and writes into

    def note_first_arrays(self, values: dict[str, Any]) -> None:
        """What a round starts with, in variables whose array has other names."""
        self.first = [
            (key, x, x._v)
            for key, value in values.items()
            for x in [value._bs_value if isinstance(value, Perhaps) else value]
            if key in self.shared and is_array(x)
        ]

    def check_first_arrays(self) -> None:
        """The first round would write into the array from before, and its other names would see that."""
        for key, x, value in self.first:
            if x._v is not value:
                raise InPlaceError(
                    f"{self.what} writes into `{key}` and binds it anew, and the array that it held before has "
                    f"other names too. Write {key} = {key}.copy() before the loop"
                )

    # ---- arrays that share memory with one that is written into

    def restore_spoilt(self) -> None:
        """As they were before the region; what was spoilt is still known."""
        for t, _ in self.spoilt:
            restore(t)

    def hand_on_spoilt(self) -> None:
        """Behind the region they must not be used, and the region around it must know."""
        self.restore_spoilt()
        for t, where in self.spoilt:
            spoil(t, where)
        self.spoilt = []

    # ---- values

    def snapshot(self) -> list[tuple[Place, Any]]:
        return [(p, p.get()) for p in [*self.places, *self.scratch]]

    def take_apart(self) -> tuple[dict[str, Any], dict[str, Form]]:
        """The numbers in all places, by name, and the forms of all places."""
        numbers: dict[str, Any] = {}
        forms: dict[str, Form] = {}
        for key, place in self.keyed():
            if key in self.lost:
                continue
            parts, form = take_apart(place.get())
            if isinstance(place, Container) and place.changed:
                place.changed = False
                raise Again(self)
            if key in self.perhaps:
                zeros, flagged = self.perhaps[key]
                if form is ABSENT:
                    parts, form = [False, *zeros], flagged
                elif form.why is None:
                    assert flagged.why is not None
                    parts, form = [True, *parts], form.with_flag(flagged.why)
            elif form is ABSENT and key in self.fills:
                parts, form = self.fills[key]
            forms[key] = form
            numbers[key] = parts[0] if len(parts) == 1 else parts
        return numbers, forms

    def put(self, numbers: dict[str, Any], forms: dict[str, Form]) -> None:
        for key, place in self.keyed():
            if key in self.lost:
                place.put(Undefined(self.why_lost(key)))
                continue
            form = forms[key]
            parts = [numbers[key]] if len(form.shapes) == 1 else numbers[key]
            place.put(form.build(parts))

    def forget(self) -> None:
        """Temporaries of a region have no meaning outside."""
        for variable in self.scratch:
            variable.put(NOTHING)

    def keyed(self) -> list[tuple[str, Place]]:
        """The places under names that differ."""
        keys: dict[str, Place] = {}
        for place in self.places:
            key, k = place.name, 1
            while key in keys:
                k += 1
                key = f"{place.name} ({k})"
            keys[key] = place
        return list(keys.items())

    def why_lost(self, key: str) -> str:
        what = f"{self.what} ({location()})"
        if key in self.lost and key in self.perhaps:
            return f"`{key}` has other types, or no value, in other ways through {what}; give it one type"
        return f"`{key}` is assigned in only some ways through {what}; assign it before"

    def fill(self, key: str, like: Any) -> None:
        """Let a variable that has no value yet start as zeros of the type it gets."""
        parts, form = take_apart(like)
        self.fills[key] = ([zeros_like(x) for x in parts], form)

    def flag(self, key: str, like: Any) -> None:
        """Let a variable that only some ways assign have a flag; if its types differ, it has no value."""
        if key in self.perhaps or not isinstance(dict(self.keyed())[key], Variable):
            self.lost.add(key)
            return
        why = like._bs_why if isinstance(like, Perhaps) else self.why_lost(key)
        parts, form = take_apart(like._bs_value if isinstance(like, Perhaps) else like)
        self.perhaps[key] = [zeros_like(x) for x in parts], form.with_flag(why)


def is_array(x: Any) -> bool:
    return isinstance(x, Tensor) and x.ndim > 0


def until_known(region: Opened, attempt: Callable[[], Any]) -> Any:
    """Run `attempt` until nothing new turns up; whenever it fails, everything is put back first."""
    for _ in range(100):
        before = region.snapshot()
        lesson = None
        try:
            result = attempt()
            region.hand_on_spoilt()
            return result
        except (Again, Discovered) as found:
            if found.region is not region:
                _put_back(region, before)
                raise
            lesson = found
        except BaseException:
            _put_back(region, before)
            raise
        _put_back(region, before)
        if isinstance(lesson, Discovered):
            region.learn(lesson)
    raise ControlFlowError(f"{region.what} changes more than staging can follow")


def _put_back(region: Opened, before: list[tuple[Place, Any]]) -> None:
    region.restore_spoilt()
    region.spoilt = []
    for place, value in before:
        place.restore(value)


def mismatch(
    name: str, a: Any, b: Any, where_a: str, where_b: str, advice: str
) -> ControlFlowError:
    name = name if " " in name else f"`{name}`"
    return ControlFlowError(
        f"{name} is {describe(a)} {where_a} and {describe(b)} {where_b}; {advice}"
    )
