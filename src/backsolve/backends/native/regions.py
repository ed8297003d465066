"""Loops, branches and calls: in registers where their values are small, else as steps over arrays.

Functions such as exp on more than a few entries are loops of vectors in either case: written out entry by entry
they would take LLVM seconds, and run slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir import Equation
from ...regions import Callee
from . import registers
from .array_regions import LOWER as ARRAYS
from .elementwise import FUNCTIONS

if TYPE_CHECKING:
    from .schedule import Schedule

MOST_FUNCTIONS = 64  # of entries of arrays, written out one by one


def lower_region(schedule: Schedule, e: Equation) -> None:
    if _functions([e], set()) > MOST_FUNCTIONS or not registers.lower(schedule, e):
        ARRAYS[e.primitive.name](schedule, e)


def _functions(equations: Any, seen: set[int]) -> int:
    """How many functions of entries of arrays there are, each place of the program counted once."""
    total = 0
    for e in equations:
        region = e.params.get("region") if e.primitive.holds_regions else None
        if region is None:
            size = e.outputs[0].type.size
            total += size if size > 1 and e.primitive.name in FUNCTIONS else 0
            continue
        programs = (region.program,) if isinstance(region, Callee) else region.programs()
        for program in programs:
            if program is not None and id(program) not in seen:
                seen.add(id(program))
                total += _functions(program.equations, seen)
    return total


LOWER = dict.fromkeys(ARRAYS, lower_region)
