"""The budget of `bs.checkpoint` while a function runs, and the report of what was done in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

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

    @property
    def forward_steps(self) -> int:
        return sum(c.forward_steps for c in self.chains)

    @property
    def recorded_steps(self) -> int:
        return sum(c.recorded_steps for c in self.chains)

    @property
    def optimum(self) -> int:
        """Of the chains that are made of equal steps."""
        return sum(c.optimum or 0 for c in self.chains)

    @property
    def peak_bytes(self) -> int:
        return max([c.peak_bytes for c in self.chains], default=0)

    def __str__(self) -> str:
        return "\n".join(map(str, self.chains)) or "nothing was differentiated"


@dataclass(frozen=True)
class Budget:
    memory: int | None  # bytes
    slots: int | None
    report: Report


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
