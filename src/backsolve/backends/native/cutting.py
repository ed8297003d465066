"""Which steps to do slice by slice, so that what they hand on stays in the cache.

Steps that share their leading axes (the rows of a softmax, the heads of an attention, the samples of a
regression) need not pass over whole arrays one after the other: one loop over the slices does all of
them on each. Arrays that live only inside shrink to one slice; sums over the swept axes are gathered on
the side. The slices are independent, which is also what threads divide among themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np

from ...ir import Shape
from .steps import Step
from .views import ORIGIN, Buffer, View

SLICE = 1 << 16  # bytes of one slice of everything that moves: it should fit the first cache
PRODUCT_SLICE = 1 << 18  # the same with products among the steps, whose calls cost more
FAR = 1 << 23  # bytes of a slice from which on it stays in no cache
LARGE = 1 << 18  # bytes of traffic below which there is nothing to save
SHORT = 64  # entries: loops all below this length are not worth entering
GATHERED = 1 << 16  # bytes of a sum gathered on the side

Role = (
    str  # "read", "write", or how entries are combined ("add", "max", …) in a sum over the slices
)
Put = Callable[[View, tuple[int, ...], Role], View]


class Cuttable(Protocol):
    """A step whose loops can be cut into slices along leading axes."""

    def leads(self) -> list[Shape]:
        """The leading shapes along which it can be cut."""

    def cut(self, lead: Shape, chunk: int, put: Put) -> Step:
        """The step on the first slice: `chunk` rows of the last leading axis, one of the others.

        Every view is handed to `put` as it is on the first slice, with the distances (in entries)
        that it moves from slice to slice along each leading axis, and what is done to it.
        """

    def buffers(self) -> list[Buffer]: ...


@dataclass(frozen=True)
class Touch:
    """A view of a step on the first slice."""

    view: View
    moves: tuple[int, ...]
    role: Role

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last entry that it reaches."""
        if not self.view.imaginary.size:
            return 0, 0
        low, high = np.lib.array_utils.byte_bounds(self.view.imaginary)
        return low - ORIGIN, high - 1 - ORIGIN


def slice_view(view: View, depth: int, chunk: int) -> tuple[View, tuple[int, ...]]:
    """A view whose first `depth` axes are swept: its first slice, and its moves."""
    strides = view.strides[:depth]
    first = view.imaginary[(0,) * (depth - 1)][:chunk]
    return view.with_(first), (*strides[:-1], strides[-1] * chunk)


class Plan:
    """Whether steps can be swept together along `lead`, and what that saves."""

    def __init__(self, steps: Sequence[Any], lead: Shape, outside: set[Buffer]):
        self.steps, self.lead, self.outside = steps, lead, outside
        self.chunk = 1
        self.counts: tuple[int, ...] = lead
        self.rest = 0
        self.touches: list[list[Touch]] = []

    def is_possible(self, chunk: int) -> bool:
        self.chunk = chunk
        self.counts = (*self.lead[:-1], self.lead[-1] // chunk)
        self.rest = self.lead[-1] % chunk  # rows of a last, shorter slice
        self.touches = [self.touches_of(s) for s in self.steps]
        by_buffer: dict[Buffer, list[Touch]] = {}
        for t in self.all_touches():
            by_buffer.setdefault(t.view.buffer, []).append(t)
        return all(self.may_share(b, ts) for b, ts in by_buffer.items())

    def touches_of(self, step: Any) -> list[Touch]:
        found: list[Touch] = []

        def note(view: View, moves: tuple[int, ...], role: Role) -> View:
            found.append(Touch(view, moves, role))
            return view

        step.cut(self.lead, self.chunk, note)
        return found

    def all_touches(self) -> list[Touch]:
        return [t for ts in self.touches for t in ts]

    def may_share(self, buffer: Buffer, touches: list[Touch]) -> bool:
        """Read by all, or summed into by one, or every slice keeps to its own part."""
        roles = {t.role for t in touches}
        if roles == {"read"}:
            return True
        if not roles <= {"read", "write"}:  # a sum
            return len(touches) == 1 and buffer.nbytes <= GATHERED
        row, rest = divmod(buffer.size, prod(self.lead))
        part = row * self.chunk
        expected = [0] * len(self.counts)
        step = part
        for k in range(len(self.counts) - 1, -1, -1):
            expected[k] = step
            step *= self.counts[k]
        return rest == 0 and all(
            all(m == e or n == 1 for m, e, n in zip(t.moves, expected, self.counts, strict=True))
            and t.span[0] >= 0
            and t.span[1] < part
            for t in touches
        )

    # ---- what it is worth

    def locals(self) -> list[Buffer]:
        """Written here and seen nowhere else: they shrink to one slice."""
        written = dict.fromkeys(t.view.buffer for t in self.all_touches() if t.role == "write")
        return [b for b in written if b.kind == "arena" and b not in self.outside]

    def slice_bytes(self) -> int:
        """What one slice touches that the next does not."""
        moving = {t.view.buffer for t in self.all_touches() if any(t.moves)}
        return sum(b.nbytes for b in moving) // max(prod(self.counts), 1)

    def longest(self) -> int:
        """Entries of the longest loop over a slice."""
        return max(t.view.imaginary.size for t in self.all_touches())

    def saved_bytes(self) -> int:
        """Memory traffic that stays in the cache: what is read after another step wrote or read it."""
        seen: set[Buffer] = set()
        saved = 0
        for ts in self.touches:
            moving = {t.view.buffer for t in ts if any(t.moves)}
            saved += sum(b.nbytes for b in moving & seen)
            seen |= moving
        return saved


def find_plan(steps: Sequence[Any], at: int, users: dict[Buffer, list[int]]) -> Plan | None:
    """The best run of steps, from step `at` on, to be swept together."""
    best: tuple[int, Plan] | None = None
    for lead in leads_of(steps[at]):
        end = end_of_run(steps, at, lead)
        moved = sum(x.nbytes for step in steps[at:end] for x in step.buffers())
        if end - at < 2 or moved < LARGE:
            continue
        inside = {x for step in steps[at:end] for x in step.buffers()}
        outside = {x for x in inside if users[x][0] < at or users[x][-1] >= end}
        plan = Plan(steps[at:end], lead, outside)
        if not plan.is_possible(1) or not plan.is_possible(chunk_of(plan)):
            continue
        saved = plan.saved_bytes()
        worth = saved >= LARGE and plan.slice_bytes() <= FAR and plan.longest() >= SHORT
        if worth and (best is None or saved > best[0]):
            best = (saved, plan)
    return best[1] if best is not None else None


def end_of_run(steps: Sequence[Any], at: int, lead: Shape) -> int:
    """How far steps can be swept together: to the first that shares a buffer with them in another way."""
    plan = Plan([], lead, set())
    by_buffer: dict[Buffer, list[Touch]] = {}
    for end in range(at, len(steps)):
        if lead not in leads_of(steps[end]):
            return end
        new = plan.touches_of(steps[end])
        for t in new:
            by_buffer.setdefault(t.view.buffer, []).append(t)
        if not all(plan.may_share(b, by_buffer[b]) for b in {t.view.buffer for t in new}):
            return end
    return len(steps)


def leads_of(step: Any) -> list[Shape]:
    return [x for x in step.leads() if prod(x) > 1] if hasattr(step, "leads") else []


def chunk_of(plan: Plan) -> int:
    """How many rows of the last leading axis make a slice."""
    size = PRODUCT_SLICE if any(not hasattr(s, "domain") for s in plan.steps) else SLICE
    return near(max(1, size // max(plan.slice_bytes(), 1)), plan.lead)


def near(wanted: int, lead: Shape) -> int:
    """A divisor of the rows near `wanted`; or, where there is none, `wanted` itself and a shorter last slice.

    That one there can be only if a single axis is swept. Of near divisors whole vectors are taken: short loops
    over the rows of a slice that are none would run number by number.
    """
    rows = lead[-1]
    wanted = min(wanted, rows)
    divisors = [c for c in range(1, wanted + 1) if rows % c == 0]
    near = [c for c in divisors if 2 * c >= wanted]
    if near:
        return max(near, key=lambda c: (c % 8 == 0, c % 4 == 0, c))
    return divisors[-1] if len(lead) > 1 else max(wanted - wanted % 8, min(wanted, 8))


def one_by_one(step: Any, outside: set[Buffer]) -> Plan | None:
    """One step, slice by slice, so that what it needs for a while is needed for one slice only."""
    for lead in leads_of(step):
        plan = Plan([step], lead, outside)
        if plan.is_possible(1):
            return plan
    return None
