"""How many vectors of a loop are under way at once.

A processor looks some tens of instructions ahead. Where the statements of a round wait for each other, one long
chain of them, most of its units are idle, unless the same statements for several vectors stand side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import Var
from .instructions import WITHIN, instructions_of, is_function
from .nests import LONG_LOOP
from .tiles import registers

if TYPE_CHECKING:
    from .kernel import Kernel

INTERLEAVE = 4
BY_LOADS = ((INTERLEAVE, 4), (2, 8), (1, 1 << 30))  # for so many loads and stores
BUSY = 48  # statements that keep all units busy by themselves: one vector at a time
DEEP = (
    10  # operations one after the other, from which on a round waits for them: a function is more
)
DIVIDING = 20  # operations in whose time one unit divides once
BY_WIDTH = ((INTERLEAVE, 2.2), (2, 5.0), (1, float("inf")))  # for so many chains side by side


def vectors_under_way(kernel: Kernel, is_long: bool, has_totals: bool, moved: int) -> int:
    """In a loop with so many loads and stores; 0: as many as LLVM finds right."""
    if is_long and (several := _by_width(kernel)):
        return several
    if len(kernel.statements) > BUSY:
        return 1
    if not is_long:
        return 0
    if functions := _functions(kernel):  # several are under way together by themselves
        return INTERLEAVE if functions < 2 else 2
    # A running total is a chain, too; with many loads and stores it is they that take time.
    return next(n for n, most in BY_LOADS if moved <= most) if has_totals else 0


def left_waiting(kernel: Kernel, rounds: int) -> float:
    """The share of a chain's time that is waited for all the same, for its price."""
    return 0.5 if rounds >= LONG_LOOP and _by_width(kernel) == INTERLEAVE else 1.0


def _by_width(kernel: Kernel) -> int:
    """By the chains that stand side by side already; 0 where it is not for them to say."""
    found = registers()
    if found is None or not found.by_lane:  # those have 32 registers, and few instructions in view
        return 0
    work, divisions, depths = 0.0, 0, dict[Var, float]()
    for e in kernel.statements:
        what, share = instructions_of(e)
        before = [depths.get(a, 0.0) for a in e.inputs if type(a) is Var]
        depths |= dict.fromkeys(e.outputs, share * WITHIN[what] + max(before, default=0.0))
        work += share * WITHIN[what]
        divisions += what == "division"
    longest = max(depths.values(), default=0.0)
    if longest < DEEP:
        return 0
    several = next(n for n, most in BY_WIDTH if work <= most * longest)
    return several if work >= divisions * DIVIDING else min(several, 2)


def _functions(kernel: Kernel) -> int:
    return sum(map(is_function, kernel.statements))
