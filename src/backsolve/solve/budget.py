"""The budget of `bs.checkpoint` while a function runs, and the report of what was done in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Protocol
from weakref import ref

from .revolve import fewest_steps, text


@dataclass
class ChainReport:
    """One chain: a loop, a sequence of functions, or the segments of a straight-line program."""

    name: str
    steps: int = 0
    slots: int | None = None  # of a chain of equal steps that is not recorded as a whole
    forward_steps: int = 0  # run ahead without being recorded, the first sweep included
    recorded_steps: int = 0  # run to be reversed at once: each step once in a solve
    measured_steps: int = 0  # recorded once to see how much they store
    kept_bytes: int = 0  # in kept states and recorded steps, now
    peak_bytes: int = 0  # the most of it at any time
    is_planned: bool = False  # for as many steps, whose number is not known while compiling

    @property
    def optimum(self) -> int | None:
        """The fewest forward steps that this number of slots allows."""
        return None if self.slots is None else fewest_steps(self.steps, self.slots)

    def hold(self, size: int) -> None:
        self.kept_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.kept_bytes)

    def __str__(self) -> str:
        best = "" if self.slots is None else f" (optimum {self.optimum:,} in {self.slots} slots)"
        most = "up to " if self.is_planned else ""
        return (
            f"{self.name}: {most}{self.steps:,} steps, {self.forward_steps:,} forward{best}, "
            f"{self.recorded_steps:,} recorded, at most {text(self.peak_bytes)} kept"
        )


@dataclass
class Report:
    """What the last call of a function with a budget kept and computed again, chain by chain."""

    chains: list[ChainReport] = field(default_factory=list)
    most: int = 0  # bytes that chains kept at the same time
    compiled: list[Report] = field(default_factory=list)  # of compiled functions that were called

    @property
    def _all(self) -> list[ChainReport]:
        return [*self.chains, *[c for r in self.compiled for c in r.chains]]

    @property
    def forward_steps(self) -> int:
        return sum(c.forward_steps for c in self._all)

    @property
    def recorded_steps(self) -> int:
        return sum(c.recorded_steps for c in self._all)

    @property
    def optimum(self) -> int:
        """Of the chains that are made of equal steps."""
        return sum(c.optimum or 0 for c in self._all)

    @property
    def peak_bytes(self) -> int:
        return max([self.most, *[c.peak_bytes for c in self._all]])

    def __str__(self) -> str:
        lines = [*map(str, self._all)]
        if self.most and len(lines) != 1:
            lines.append(f"together at most {text(self.peak_bytes)} kept")
        return "\n".join(lines) or "nothing was differentiated"


class LargerStepError(Exception):
    """Steps store more than was planned for: one of them so many bytes."""

    def __init__(self, size: int):
        super().__init__(size)
        self.size = size


class Holder(Protocol):
    """A chain on a shelf."""

    report: ChainReport

    def give_up(self) -> None:
        """Forget what is kept, if nobody is at it: the chain can be run again from its start."""


class Shelf:
    """What the chains of one budget keep together. One that needs room takes it from the oldest ones.

    These are reversed last, and run once more then; and in turn they have all the room.
    """

    def __init__(self, memory: int | None, report: Report):
        self.memory, self.report = memory, report
        self._holders: list[ref[Holder]] = []
        self._kept = 0  # at most: a chain that nobody needs any more takes its share with it
        self._lock = threading.RLock()

    def make_room(self, holder: Holder, size: int) -> None:
        """For so many bytes more of one that is on the shelf, or is about to be."""
        with self._lock:
            if all(h() is not holder for h in self._holders):
                self._holders.append(ref(holder))
            if self.memory is None or self._kept + size <= self.memory:
                return
            self._holders = [h for h in self._holders if h() is not None]
            there = [h for r in self._holders if (h := r()) is not None]
            self._kept = sum(h.report.kept_bytes for h in there)
            for other in there:
                if self._kept + size <= self.memory:
                    return
                if other is not holder and other.report.kept_bytes:
                    other.give_up()

    @contextmanager
    def lending(self, size: int) -> Iterator[None]:
        """So many bytes, while something runs that keeps them itself."""
        holder = _Running()
        self.make_room(holder, size)
        holder.report.hold(size)
        self.hold(size)
        try:
            yield
        finally:
            holder.report.hold(-size)
            self.hold(-size)

    def hold(self, size: int) -> None:
        """So many bytes more, or fewer."""
        with self._lock:
            self._kept += size
            self.report.most = max(self.report.most, self._kept)


class _Running:
    """What gives up nothing: it is at work."""

    def __init__(self) -> None:
        self.report = ChainReport("compiled")

    def give_up(self) -> None:
        pass


@dataclass(frozen=True)
class Budget:
    memory: int | None  # bytes
    slots: int | None
    report: Report
    shelves: tuple[Shelf, ...]  # its own, and those of the budgets around it

    @contextmanager
    def lending(self, report: Report) -> Iterator[None]:
        """What was planned so, while it is computed in compiled code."""
        told = self.report.compiled
        if all(r is not report for r in told):
            told.append(report)
        with ExitStack() as stack:
            for shelf in self.shelves:
                stack.enter_context(shelf.lending(report.peak_bytes))
            yield


def budget_here(memory: int | None, slots: int | None, report: Report) -> Budget:
    """Within the one that holds where this is called."""
    around = eager_budget()
    outer = () if around is None else around.shelves
    if around is not None and around.memory is not None and memory is not None:
        memory = min(memory, around.memory)
    return Budget(memory, slots, report, (Shelf(memory, report), *outer))


class _Current(threading.local):
    budget: Budget | None = None


_current = _Current()


def eager_budget() -> Budget | None:
    """What loops that run now, on numbers, may keep."""
    return _current.budget


@contextmanager
def within(budget: Budget | None) -> Iterator[None]:
    before, _current.budget = _current.budget, budget
    try:
        yield
    finally:
        _current.budget = before
