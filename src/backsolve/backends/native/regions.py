"""Loops, branches and calls: in registers where their values are small, else as steps over arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import Equation
from . import registers
from .array_regions import LOWER as ARRAYS

if TYPE_CHECKING:
    from .schedule import Schedule


def lower_region(schedule: Schedule, e: Equation) -> None:
    from .schedule import Unsupported

    name = e.primitive.name
    if registers.lower(schedule, e):
        return
    if name not in ARRAYS:
        raise Unsupported(f"{name} with {registers.fits(e)}")
    ARRAYS[name](schedule, e)


LOWER = dict.fromkeys(("loop", "branch", "call", "no_entries", "length"), lower_region)
