"""Which states of a chain to keep, and which steps to run again, so that it can be gone back in little memory.

A chain of n steps is reversed from its last to its first; for each step the state before it must be there. With
s slots for states (the first included), r sweeps reach at most

    β(s, r) = C(s + r, s)   steps,

and the fewest forward steps, those of the first sweep included and those that are recorded to be reversed
apart, are  r n − β(s + 1, r − 1)  with the least r such that n ≤ β(s, r)  (Griewank 1992, revolve).

Steps that differ are planned by dynamic programming over all stretches i … j and budgets m: either step i is
recorded and stays so, or the state before some step k is kept, k … j are reversed first, and i … k after it
from the state at i (Beaumont et al. 2019). A step that is a loop can be recorded in several ways: in more
pieces it holds less, and is run again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import comb
from typing import Any

import numpy as np

from ..errors import BudgetError

LAST = 32  # states of a loop whose end was not known that may be given up again
UNITS = 160  # in which the memory of a plan is counted
RECORD = 0  # the action of a plan: record the first step. Any other number: keep the state there


def reach(slots: int, sweeps: int) -> int:
    """β(s, r): how many steps can be reversed with `slots` states when none is run more than `sweeps` times."""
    return comb(slots + sweeps, slots) if slots >= 0 and sweeps >= 0 else 0


def sweeps_needed(steps: int, slots: int) -> int:
    r = 0
    while reach(slots, r) < steps:
        r += 1
    return r


def fewest_steps(steps: int, slots: int) -> int:
    """Forward steps of the best schedule, the first sweep included.

    >>> fewest_steps(1_000, 10), fewest_steps(10_000, 20), fewest_steps(100_000, 50)
    (3636, 37976, 375196)
    """
    _check_slots(slots)
    if steps < 1:
        return 0
    r = sweeps_needed(steps, slots)
    return r * steps - reach(slots + 1, r - 1)


def stride(steps: int, slots: int) -> int:
    """After how many steps the best schedule keeps its next state; all but the last one if no slot is left."""
    if slots == 1:
        return steps - 1
    r = sweeps_needed(steps, slots)
    # Any number is best for which  β(s, r−2) ≤ m ≤ β(s, r−1)  and  β(s−1, r−1) ≤ n − m ≤ β(s−1, r).
    return max(reach(slots, r - 2), steps - reach(slots - 1, r), 1)


def thinned(kept: Sequence[int], steps: int, slots: int) -> list[int]:
    """Which of the states kept before the steps `kept` to hold on to, if all steps are to be reversed best.

    A state that is given up makes room while the steps behind it are reversed: only the last few are looked at.
    """
    ahead, tail = list(kept[:-LAST]), list(kept[-LAST:])
    ends = [*tail, steps]

    @cache
    def best(i: int, n: int) -> tuple[int, int]:
        """The fewest steps behind state i, the n-th that is held; and which one to hold next."""
        if i == len(tail):
            return 0, i
        left = [
            (fewest_steps(ends[j] - ends[i], slots - n) + best(j, n + 1)[0], j)
            for j in range(i + 1, len(ends))
        ]
        return min(left)

    found, i = ahead, 0
    while i < len(tail):
        n = len(found)
        found.append(tail[i])
        i = best(i, n)[1]
    return found


def _check_slots(slots: int) -> None:
    if slots < 1:
        raise BudgetError(f"a chain is reversed from 1 kept state at least, got slots={slots}")


class Binomial:
    """The plan for steps that are alike. A budget is a number of slots."""

    def __init__(self, slots: int):
        _check_slots(slots)
        self.budget = slots

    def action(self, i: int, j: int, slots: int) -> int:
        """RECORD, or where to keep the next state while i … j is reversed from the state at i."""
        if j - i == 1:
            return RECORD
        return i + stride(j - i, slots) if slots > 1 else j - 1

    def after_keeping(self, slots: int, k: int) -> int:
        return max(slots - 1, 1)

    def after_recording(self, slots: int, i: int, j: int) -> int:
        return slots


class RecordAll:
    """The plan where everything fits."""

    budget = 0

    def action(self, i: int, j: int, budget: int) -> int:
        return RECORD

    def after_keeping(self, budget: int, k: int) -> int:
        return budget

    def after_recording(self, budget: int, i: int, j: int) -> int:
        return budget

    def way(self, i: int, j: int, budget: int) -> int:
        return 0


@dataclass(frozen=True)
class Step:
    """One step of a chain whose steps differ."""

    state: int  # bytes of the state before it
    tape: int  # bytes that it holds once it is recorded, its result included
    cost: float = 1.0
    others: tuple[tuple[int, float], ...] = ()  # smaller tapes, and what going back costs more then

    @property
    def ways(self) -> tuple[tuple[int, float], ...]:
        return (self.tape, 0.0), *self.others


class Planned:
    """The plan for steps that differ, by dynamic programming. A budget is a number of units of memory."""

    def __init__(self, steps: Sequence[Step], memory: int, room: int = 0):
        n = len(steps)
        self.unit = max((memory - room) / UNITS, 1e-9)
        self.budget = UNITS
        self.states = [self._units(s.state) for s in steps]
        self.ways = [[(self._units(tape), more) for tape, more in s.ways] for s in steps]
        m = np.arange(UNITS + 1)
        total = np.concatenate([[0.0], np.cumsum([s.cost for s in steps])])
        # While steps run ahead unrecorded, what one reads and what it makes are both there.
        moving = [
            s.state * (k > 0) + t.state
            for k, (s, t) in enumerate(zip(steps, steps[1:], strict=False))
        ]
        moves = np.array([*map(self._units, moving), 0])
        states = np.array(self.states)
        best = np.full((n + 1, n + 1, UNITS + 1), np.inf)
        self._action = np.zeros((n + 1, n + 1, UNITS + 1), np.int32)
        self._way = np.zeros((n + 1, n + 1, UNITS + 1), np.int8)
        for length in range(1, n + 1):
            for i in range(n - length + 1):
                j = i + length
                found = np.full(UNITS + 1, np.inf)
                for way, (tape, more) in enumerate(self.ways[i]):
                    if tape <= UNITS:
                        rest = best[i + 1, j, : UNITS + 1 - tape] if length > 1 else 0.0
                        is_less = rest + more < found[tape:]
                        self._way[i, j, tape:][is_less] = way
                        found[tape:] = np.where(is_less, rest + more, found[tape:])
                if length > 1:
                    ks = np.arange(i + 1, j)
                    left = m[None, :] - states[ks][:, None]
                    right = np.where(left >= 0, best[ks[:, None], j, np.maximum(left, 0)], np.inf)
                    costs = (total[ks] - total[i])[:, None] + right + best[i, ks]
                    needs = np.maximum.accumulate(moves[i : j - 1])
                    costs[m[None, :] < needs[:, None]] = np.inf
                    k = costs.argmin(axis=0)
                    least = costs[k, m]
                    self._action[i, j] = np.where(least < found, ks[k], RECORD)
                    found = np.minimum(found, least)
                best[i, j] = found
        self._best = best[0, n]
        if not np.isfinite(self._best[UNITS]):
            needed = least_memory(steps) + room
            error = BudgetError(
                f"{text(memory)} are not enough to differentiate this in: the least that can be met is "
                f"about {enough(needed)}"
            )
            error.least = needed
            raise error
        self.cost = float(self._best[UNITS] + total[n])

    def _units(self, size: int) -> int:
        return int(-(-size // self.unit))

    def action(self, i: int, j: int, budget: int) -> int:
        return int(self._action[i, j, budget])

    def after_keeping(self, budget: int, k: int) -> int:
        return budget - self.states[k]

    def after_recording(self, budget: int, i: int, j: int) -> int:
        return budget - self.ways[i][self.way(i, j, budget)][0]

    def way(self, i: int, j: int, budget: int) -> int:
        """In which of its ways to record step i."""
        return int(self._way[i, j, budget])


def least_memory(steps: Sequence[Step]) -> int:
    """The smallest budget that a plan exists for: every step is recorded alone, from the first state."""
    ahead = [
        s.state * (k > 0) + t.state for k, (s, t) in enumerate(zip(steps, steps[1:], strict=False))
    ]
    alone = [min(tape for tape, _ in s.ways) + s.state * (k > 0) for k, s in enumerate(steps)]
    # Sizes are counted in whole units, of each at most two too many.
    return int(np.ceil(max([*ahead, *alone]) * UNITS / (UNITS - 2)))


# ---- budgets


_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def bytes_in(memory: Any) -> int:
    """A number of bytes, or a text such as "200MB", "1.5 GiB".

    >>> bytes_in("200MB"), bytes_in("1.5GiB"), bytes_in(4096), bytes_in(2e6)
    (200000000, 1610612736, 4096, 2000000)
    """
    if isinstance(memory, str):
        found = re.fullmatch(
            r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]?)(i?)(?:b|bytes?)?\s*", memory.lower()
        )
        if found is not None and (found[2] or not found[3]):
            factor = _UNITS[found[2]]
            if found[3]:
                factor = 1 << (10 * "kmgt".index(found[2]) + 10)
            memory = round(float(found[1]) * factor)
    is_number = isinstance(memory, int | float | np.number) and not isinstance(memory, bool)
    if not is_number or not 1 <= memory < np.inf or memory != int(memory):
        raise BudgetError(
            f'a budget is a number of bytes above 0, or a text such as "200MB" or "1.5GiB"; got {memory!r}'
        )
    return int(memory)


def text(size: int) -> str:
    """Bytes for a reader."""
    for factor, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= factor:
            return f"{size / factor:.4g} {name}"
    return f"{size} bytes"


def enough(size: int) -> str:
    """The same of what is needed: taken at its word, it is no less."""
    digits = max(len(str(size)) - 4, 0)
    return text(-(-size // 10**digits) * 10**digits)
