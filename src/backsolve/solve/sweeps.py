"""What a substitution through all rows takes, back and ahead: each row for the seeds that reach it.

Where several blocks lead to one row, their images are added up. A set of parameters, or of outputs, is an
integer whose bits stand for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Var
from ..row import Row
from .work import Work, added, block_works, calls_for


def substitution_works(
    steps: Sequence[Row], parameters: Sequence[Row], outputs: Sequence[Row], record: bool
) -> tuple[Work, Work]:
    """Of a batch for each output, and of one for each parameter."""
    from_parameters = _reached(steps, parameters)
    seeded = _seeded(outputs)
    from_outputs = _reached_back(steps, seeded)
    folded = _folded(steps, parameters) if record else set()
    ahead, back = _Sum(parameters), _Sum(outputs)
    for row in steps:
        read = [p for p in row.parents if p.__class__ is Row]
        asked, is_known = from_outputs[row], row in folded
        for p, (there, again) in zip(read, block_works(row, record), strict=True):
            back.take(again, asked)
            back.meet(p.size, asked)
            if not is_known:
                given = from_parameters.get(p, 0)
                ahead.take(there, given)
                ahead.meet(row.size, given)
        if not is_known:
            ahead.meet(row.size, from_parameters[row], -1)
    for row, asked in from_outputs.items():
        back.meet(row.size, asked, -1)
    for row, asked in seeded.items():
        back.meet(row.size, asked)
    return back.work(), ahead.work()


def _folded(rows: Sequence[Row], parameters: Sequence[Row]) -> set[Row]:
    """Rows whose differentials compiled code knows: images of the seeds by blocks without a traced value."""
    known = set(parameters)
    for row in rows:
        read = [p for p in row.parents if p.__class__ is Row]
        if all(p in known for p in read) and not any(type(v) is Var for v in row.saved):
            known.add(row)
    return known


def _reached(rows: Sequence[Row], sources: Sequence[Row]) -> dict[Row, int]:
    """Which of the sources each row depends on, as bits."""
    found = {p: 1 << k for k, p in enumerate(sources)}
    for row in rows:
        bits = 0
        for p in row.parents:
            bits |= found.get(p, 0) if p.__class__ is Row else 0
        found[row] = found.get(row, 0) | bits
    return found


def _seeded(outputs: Sequence[Row]) -> dict[Row, int]:
    found: dict[Row, int] = {}
    for k, y in enumerate(outputs):
        found[y] = found.get(y, 0) | 1 << k
    return found


def _reached_back(rows: Sequence[Row], seeded: dict[Row, int]) -> dict[Row, int]:
    found = dict(seeded)
    for row in reversed(rows):
        bits = found.setdefault(row, 0)
        for p in row.parents:
            if p.__class__ is Row:
                found[p] = found.get(p, 0) | bits
    return found


class _Sum:
    """Of works, each for the seeds that reach it, and of additions where images meet."""

    def __init__(self, at: Sequence[Row]):
        self.sizes = [r.size for r in at]
        self.counts: dict[int, tuple[float, int]] = {}  # of sets: calls, and of what size in all
        self.total = [0.0] * len(Work._fields)
        self.additions, self.added = 0.0, 0

    def take(self, work: Work, reached: int) -> None:
        solves, seeds = self._count(reached)
        total = self.total
        total[0] += solves * work.calls
        for k in range(1, len(total)):
            total[k] += seeds * work[k]

    def meet(self, size: int, reached: int, times: int = 1) -> None:
        """Images of this size come to a row, where the first of them is not added to anything."""
        solves, seeds = self._count(reached)
        self.additions += times * solves
        self.added += times * seeds * size

    def _count(self, reached: int) -> tuple[float, int]:
        found = self.counts.get(reached)
        if found is None:
            mine = [n for k, n in enumerate(self.sizes) if reached >> k & 1]
            found = self.counts[reached] = sum(map(calls_for, mine)), sum(mine)
        return found

    def work(self) -> Work:
        calls, handled, *exact = self.total
        return Work(calls, handled, *map(int, exact)).plus(added(self.additions, self.added))
