"""Differentials of all rounds of a loop side by side, and what the rounds read from outside.

What is read is a list of rows, one for each round. Most lists are runs of something that is there as a stack
already: a row of another loop in consecutive rounds, or x[t] for t in even steps, which is one slice of x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..primitive import P
from ..row import Row

Place = tuple[Any, int, int]  # a loop, the position in its rounds, the round
Key = tuple[Any, int]  # a loop and a position


class Differentials:
    """Of single rows, and of rows of loops as stacks over the rounds. Ahead they are got, back added."""

    def __init__(self, places: dict[Row, Place], of_rows: dict[Row, Any] | None = None):
        self.places, self.of_rows = places, of_rows if of_rows is not None else {}
        self.stacks: dict[Key, Any] = {}

    def get(self, row: Any) -> Any:
        place = self.places.get(row)
        if place is None:
            return self.of_rows.get(row)
        stack = self.stacks.get(place[:2])
        return None if stack is None else stack[place[2]]

    def add(self, row: Any, g: Any) -> None:
        place = self.places.get(row)
        if place is not None:
            self.add_rounds(place[:2], place[2], g[None])
        elif row is not None:
            old = self.of_rows.get(row)
            self.of_rows[row] = g if old is None else old + g

    def add_rounds(self, key: Key, first: int, part: Any) -> None:
        after = key[0].count - first - part.shape[0]
        part = joined([_zeros(first, part), part, _zeros(after, part)])
        old = self.stacks.get(key)
        self.stacks[key] = part if old is None else old + part


def _zeros(count: int, like: Any) -> Any:
    return np.zeros((count, *like.shape[1:]), like.dtype)


def joined(parts: Sequence[Any]) -> Any:
    """Stacks one after the other."""
    parts = [x for x in parts if x.shape[0]]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


# ---- runs of a list of rows


@dataclass(frozen=True)
class Single:
    """One row, or nothing that varies."""

    row: Row | None
    count = 1

    def ahead(self, at: Differentials) -> Any:
        t = None if self.row is None else at.get(self.row)
        return None if t is None else t[None]

    def back(self, at: Differentials, g: Any) -> None:
        at.add(self.row, g[0])


@dataclass(frozen=True)
class OfRounds:
    """A row of a loop in consecutive rounds."""

    key: Key
    first: int
    count: int

    def ahead(self, at: Differentials) -> Any:
        stack = at.stacks.get(self.key)
        return None if stack is None else stack[self.first : self.first + self.count]

    def back(self, at: Differentials, g: Any) -> None:
        at.add_rounds(self.key, self.first, g)


@dataclass(frozen=True)
class OfSlices:
    """x[…, t, …] for t in even steps."""

    parent: Row
    spec: tuple[Any, ...]
    axis: int  # of the slice, along which t goes
    count: int
    goes_down: bool

    def ahead(self, at: Differentials) -> Any:
        t = at.get(self.parent)
        if t is None:
            return None
        stack = np.moveaxis(P.slice(t, spec=self.spec), self.axis, 0)
        return stack[::-1] if self.goes_down else stack

    def back(self, at: Differentials, g: Any) -> None:
        whole = np.moveaxis(g[::-1] if self.goes_down else g, 0, self.axis)
        at.add(self.parent, P.unslice(whole, spec=self.spec, shape=self.parent.shape))


Run = Single | OfRounds | OfSlices


class Feed:
    """A list of rows of one type, as runs."""

    def __init__(self, rows: Sequence[Row | None], places: dict[Row, Place]):
        like = next(row for row in rows if row is not None)
        self.shape, self.dtype, self.count = like.shape, like.dtype, len(rows)
        self.is_shared = len(rows) > 1 and all(row is like for row in rows)
        self.runs: list[Run] = [Single(like)] if self.is_shared else list(_runs(rows, places))

    def ahead(self, at: Differentials) -> Any:
        """The stack, of shared rows the one differential; None if nothing varies."""
        parts = [run.ahead(at) for run in self.runs]
        if all(t is None for t in parts):
            return None
        if self.is_shared:
            return parts[0][0]
        return joined(
            [
                np.zeros((run.count, *self.shape), self.dtype) if t is None else t
                for run, t in zip(self.runs, parts, strict=True)
            ]
        )

    def back(self, at: Differentials, g: Any) -> None:
        if self.is_shared:
            self.runs[0].back(at, np.sum(g, axis=0)[None])
            return
        first = 0
        for run in self.runs:
            part = g if run.count == self.count else g[first : first + run.count]
            run.back(at, part)
            first += run.count

    def needs(self, places: dict[Row, Place]) -> list[Row | Key]:
        """The rows that must be known alone, and the keys of those that must be known in all rounds."""
        found: list[Row | Key] = []
        for run in self.runs:
            if isinstance(run, OfRounds):
                found.append(run.key)
            elif (row := run.row if isinstance(run, Single) else run.parent) is not None:
                found.append(key_of(row, places))
        return found


def key_of(row: Row, places: dict[Row, Place]) -> Row | Key:
    return places[row][:2] if row in places else row


def _runs(rows: Sequence[Row | None], places: dict[Row, Place]) -> Any:
    k = 0
    while k < len(rows):
        run = _of_rounds(rows, k, places) or _of_slices(rows, k) or Single(rows[k])
        yield run
        k += run.count


def _of_rounds(rows: Sequence[Row | None], k: int, places: dict[Row, Place]) -> Run | None:
    row = rows[k]
    place = None if row is None else places.get(row)
    if place is None:
        return None
    loop, position, first = place
    count = 0
    for mine, theirs in zip(rows[k:], loop.by_position[position][first:], strict=False):
        if mine is not theirs:
            break
        count += 1
    return OfRounds((loop, position), first, count) if count > 1 else None


def _of_slices(rows: Sequence[Row | None], k: int) -> Run | None:
    """Slices of one array that differ in one index, which goes in even steps."""
    start = rows[k]
    specs: list[tuple[Any, ...]] = []
    for row in rows[k:]:
        spec = _spec(row, start)
        if spec is None or (len(specs) > 1 and not _goes_on(specs, spec)):
            break
        specs.append(spec)
        if len(specs) == 2 and _place(*specs) is None:
            return None
    place = _place(*specs[:2]) if len(specs) > 1 else None
    if place is None or start is None:
        return None
    first, step = specs[0], specs[1][place] - specs[0][place]
    low, high = sorted([first[place], specs[-1][place]])
    axis = sum(type(s) is not int for s in first[:place])
    whole = (*first[:place], (low, high + 1, abs(step)), *first[place + 1 :])
    return OfSlices(start.parents[0], whole, axis, len(specs), step < 0)


def _spec(row: Row | None, first: Row | None) -> tuple[Any, ...] | None:
    """Of a slice of the array that `first` reads."""
    if row is None or first is None or row.primitive is not P.slice:
        return None
    spec: tuple[Any, ...] = (row.params or {})["spec"]
    is_plain = all(type(s) in (int, tuple) for s in spec)
    return spec if is_plain and row.parents[0] is first.parents[0] else None


def _place(a: tuple[Any, ...], b: tuple[Any, ...]) -> int | None:
    """Where b has another index than a, all else being the same."""
    if len(a) != len(b):
        return None
    places = [k for k, (s, t) in enumerate(zip(a, b, strict=True)) if s != t]
    if len(places) != 1 or type(a[places[0]]) is not int or type(b[places[0]]) is not int:
        return None
    return places[0] if min(a[places[0]], b[places[0]]) >= 0 else None


def _goes_on(specs: Sequence[tuple[Any, ...]], spec: tuple[Any, ...]) -> bool:
    place = _place(specs[-1], spec)
    return (
        place == _place(*specs[:2])
        and place is not None
        and (spec[place] - specs[-1][place] == specs[1][place] - specs[0][place])
    )
