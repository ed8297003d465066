"""The rounds of a loop that Python has run, found again in the rows it left.

A stretch of rows repeats with a period if every row is of the kind of the one a period later (its primitive,
the types around it) and reads, as that one does, a row of its own round, a row of the round before, or one from
outside. Where a round begins is a matter of choice: at a *neck*, where fewest numbers cross to the next.
Rows that differ in where they read (x[t]) stand outside, and so do the arrays they read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..row import Row

FEWEST = 8  # rounds
_LONGEST = 1024  # rows of a round
_DELAYS = 4  # rounds that a row may read back
_MOST_READ = 4  # by one row of a round
_NOTHING, _PARAMETER = -1, -2  # in place of the number of a row that is read


class Read(NamedTuple):
    """What a row of a round reads: a row of its own round, of the one before, or one from outside."""

    where: str  # "own", "before", "outside"
    position: int = -1


@dataclass(frozen=True)
class Rounds:
    """`count` rounds of `period` rows from row `start` on, numbered as in the system, from 0."""

    start: int
    period: int
    count: int
    reads: tuple[tuple[Read | None, ...], ...]  # by position in a round and by input
    apart: frozenset[int]  # positions of rows that differ from round to round

    @property
    def end(self) -> int:
        return self.start + self.period * self.count

    @property
    def carried(self) -> list[int]:
        """The positions that the next round reads."""
        found = {r.position for line in self.reads for r in line if r and r.where == "before"}
        return sorted(found)


def find_rounds(rows: Sequence[Row], parameters: Sequence[Row]) -> list[Rounds]:
    """All loops in the rows of a system, in their order."""
    if len(rows) < FEWEST:
        return []
    number = {row: k for k, row in enumerate(rows)}
    known = {**dict.fromkeys(parameters, _PARAMETER), **number}
    table = _Table(rows, known)
    found: list[Rounds] = []
    waiting = [(0, len(rows))]
    while waiting:
        low, high = waiting.pop()
        made = _longest(table, low, high)
        if made is not None:
            found.append(made)
            waiting += [(low, made.start), (made.end, high)]
    return sorted(found, key=lambda r: r.start)


class _Table:
    """Of every row its kind, as a number, and the numbers of the rows it reads."""

    def __init__(self, rows: Sequence[Row], known: dict[Row, int]):
        self.rows = rows
        kinds: dict[Any, int] = {}
        codes, links = [], []
        for row in rows:
            parents = row.parents
            if row.primitive.is_plain and len(parents) <= _MOST_READ:
                codes.append(kinds.setdefault((row.primitive, row.shape), len(kinds)))
                read = [known.get(p, _NOTHING) if p.__class__ is Row else _NOTHING for p in parents]
                links.append(read + _PADDING[len(parents)])
            else:
                codes.append(-len(codes) - 1)  # like no other
                links.append(_PADDING[0])
        self.codes, self.links = np.array(codes), np.array(links)


_PADDING = [[_NOTHING] * (_MOST_READ - k) for k in range(_MOST_READ + 1)]


def _longest(table: _Table, low: int, high: int) -> Rounds | None:
    """Of the stretches that repeat, the one with most rows; of as many, in the smallest rounds."""
    codes = table.codes[low:high]
    n = len(codes)
    most, best = 0, None
    for period in range(1, min(n // FEWEST, _LONGEST) + 1):
        breaks = np.flatnonzero(codes[period:] != codes[:-period])
        edges = np.concatenate([[-1], breaks, [n - period]])
        runs = np.diff(edges) - 1
        k = int(runs.argmax())
        length = int(runs[k]) + period
        if length < FEWEST * period or length <= 1.1 * most:
            continue
        start = low + int(edges[k]) + 1
        made = _rounds(table, start, length, period)
        if made is not None and made.count * made.period > 1.1 * most:
            most, best = made.count * made.period, made
            if most > 0.9 * n:
                break
    return best


def _rounds(table: _Table, start: int, length: int, period: int) -> Rounds | None:
    """By rounds of the period, or of a few of them if rows read further back."""
    for times in range(1, _DELAYS + 1):
        p = period * times
        if length < FEWEST * p:
            break
        at = _neck(table, start, length, p)
        for first in (at, at + p):  # what the first round starts from may be a case of its own
            count = (start + length - first) // p
            if count >= FEWEST:
                made = _classified(table, first, p, count)
                if made is not None:
                    return made
    return None


def _neck(table: _Table, start: int, length: int, period: int) -> int:
    """Where fewest numbers cross, within the first period: as it is in the last but one of all rounds."""
    last = start + length
    begin = last - 3 * period
    furthest: dict[int, int] = {}  # who reads a row last
    for k in range(begin, last):
        for q in table.links[k].tolist():
            if q >= start:
                furthest[q] = k
    crossing = np.zeros(3 * period + 1, np.int64)  # by place: the numbers that are read across it
    for q, k in furthest.items():
        crossing[max(q + 1 - begin, 0) : k + 1 - begin] += max(table.rows[q].size, 1)
    phases = (begin + np.arange(period) - start) % period
    return start + int(min(zip(crossing[period : 2 * period], phases, strict=True))[1])


def _classified(table: _Table, start: int, period: int, count: int) -> Rounds | None:
    end = start + period * count
    links = table.links[start:end].reshape(count, period, -1)
    numbers = np.arange(start, end).reshape(count, period)
    alike = [table.rows[start + i : end : period] for i in range(period)]
    if not all(map(_are_of_one_type, alike)):
        return None
    apart = {i for i in range(period) if _differs(alike[i])}
    reads: list[tuple[Read | None, ...]] = []
    begun: dict[int, Any] = {}
    for i in range(period):
        line: list[Read | None] = []
        for s in range(len(table.rows[start + i].parents)):
            read = _read(links[:, i, s], numbers[:, i], start, period)
            if read is None:
                return None
            if read.where == "before":
                first = table.rows[start + i].parents[s]
                if begun.setdefault(read.position, first) is not first:
                    return None
            line.append(read if read.where else None)
        reads.append(tuple(line))
    whole = [
        tuple(
            [Read("outside") if r and r.where == "own" and r.position in apart else r for r in line]
        )
        for line in reads
    ]
    if any(r and r.where != "outside" for i in apart for r in whole[i]):
        return None
    if any(r and r.where == "before" and r.position in apart for line in whole for r in line):
        return None
    return Rounds(start, period, count, tuple(whole), frozenset(apart))


def _read(
    read: npt.NDArray[Any], numbers: npt.NDArray[Any], start: int, period: int
) -> Read | None:
    """Of one input in all rounds; Read("") if it is constant, None if rounds do not agree."""
    if (read == _NOTHING).all():
        return Read("")
    if (read < start).all() and (read != _NOTHING).all():
        return Read("outside")
    back = numbers - read
    distance, i = int(back[-1]), int(numbers[0]) - start
    if read[-1] < start or (back[1:] != distance).any() or distance > i + period:
        return None
    if distance <= i:
        return Read("own", i - distance) if back[0] == distance else None
    return Read("before", i - distance + period) if _NOTHING != read[0] < start else None


def _are_of_one_type(rows: Sequence[Row]) -> bool:
    """Whether their results are, and all that their blocks captured."""
    first = rows[0]
    if any(row.dtype is not first.dtype and row.dtype != first.dtype for row in rows):
        return False
    count = len(first.parents)
    if any(len(row.parents) != count or len(row.saved) != len(first.saved) for row in rows):
        return False
    for k, v in enumerate(first.saved[: count + 1]):
        values = [row.saved[k] for row in rows]
        shape, dtype = getattr(v, "shape", None), getattr(v, "dtype", None)
        if shape is None:
            same = all(w.__class__ is v.__class__ for w in values)
        else:
            same = all(
                hasattr(w, "shape") and w.shape == shape and w.dtype == dtype for w in values
            )
        if not same:
            return False
    return True


def _differs(rows: Sequence[Row]) -> bool:
    first = rows[0].params
    return any(not _same(row.params, first) for row in rows[1:])


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    try:
        return bool(a == b)
    except ValueError:  # arrays inside
        return False
