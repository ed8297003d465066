"""A scan over rows that are no `bs.recurrence`: loops that Python ran are found again and solved at once.

The rows of a system are stretches of single rows, loops (necks.py), and rows that join what loops made
(`np.stack(states)`); each is substituted through as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..primitive import P
from ..row import Row
from . import masked
from .feeds import Differentials, Feed, Place, key_of
from .forward import forward_substitute
from .masked import Masked
from .necks import Loop
from .reverse import back_substitute
from .rounds import FEWEST, find_rounds

MOST_ENTRIES = 1 << 24  # of all blocks from neck to neck

NO_CHAIN = (
    f'method="scan" is for chains: {FEWEST} or more rounds of the same rows, each reading what the one before '
    "made; there is none in these rows"
)

NOT_COMPILED = (
    'method="scan" is for rows that have numbers; compiled code (jit, vmap) takes the steps of a chain in '
    'order: leave out the method there, or write the chain as bs.recurrence(…, method="scan")'
)


class Singles:
    """A stretch of rows that is no loop."""

    def __init__(self, rows: list[Row], record: bool, oldest: int):
        self.rows, self.record, self.oldest = rows, record, oldest

    def keep(self, needed: set[Any], scan: Scan) -> None:
        kept = []
        for row in reversed(self.rows):
            if row in needed:
                kept.append(row)
                needed.update(key_of(p, scan.places) for p in scan.read(row))
        self.rows = kept[::-1]
        mine = set(self.rows)
        self.reads = list(dict.fromkeys(p for r in kept for p in scan.read(r) if p not in mine))

    def ahead(self, at: Differentials) -> None:
        seeds = [(p, t) for p in self.reads if (t := at.get(p)) is not None]
        found = forward_substitute(self.rows, seeds, self.rows, record=self.record)
        at.of_rows.update((r, t) for r, t in zip(self.rows, found, strict=True) if t is not None)

    def back(self, at: Differentials) -> None:
        seeds = [(r, at.of_rows.pop(r)) for r in self.rows if r in at.of_rows]
        found = back_substitute(
            seeds,
            self.reads,
            oldest=self.oldest,
            record=self.record,
            reached={*self.rows, *self.reads},
        )
        for p, g in zip(self.reads, found, strict=True):
            if g is not None:
                at.add(p, g)


class Join:
    """A `concatenate` of rows that are there as stacks."""

    def __init__(self, row: Row, feed: Feed):
        self.row, self.feed = row, feed
        self.axis: int = (row.params or {})["axis"] % row.ndim

    def keep(self, needed: set[Any], scan: Scan) -> None:
        if self.row in needed:
            needed.update(self.feed.needs(scan.places))

    def ahead(self, at: Differentials) -> None:
        t = self.feed.ahead(at)
        if t is not None:
            t = np.broadcast_to(t, (self.feed.count, *self.feed.shape))
            at.of_rows[self.row] = np.reshape(np.moveaxis(t, 0, self.axis), self.row.shape)

    def back(self, at: Differentials) -> None:
        g = at.of_rows.pop(self.row, None)
        if g is not None:
            shape = self.feed.shape
            parts = (*shape[: self.axis], self.feed.count, *shape[self.axis :])
            self.feed.back(at, np.moveaxis(np.reshape(g, parts), self.axis, 0))


class Scan:
    """Both substitutions through a system whose loops are solved at once."""

    one_by_one = False

    def __init__(
        self,
        rows: Sequence[Row],
        parameters: Sequence[Row],
        outputs: Iterable[Row | None],
        record: bool,
    ):
        found = find_rounds(rows, parameters)
        if not any(r.carried for r in found):
            raise UnsupportedError(NO_CHAIN)
        self.rows, self.parameters, self.record = rows, parameters, record
        self.known = {*rows, *parameters}
        self.oldest = min((p.index for p in parameters), default=-1)
        self.places: dict[Row, Place] = {}
        self.units: list[Singles | Join | Loop] = []
        self.loops: list[Loop] = []
        single: list[Row] = []

        def close() -> None:
            if single:
                self.units.append(Singles(single[:], record, self.oldest))
                single.clear()

        k = 0
        waiting = {r.start: r for r in found}
        while k < len(rows):
            if k in waiting:
                rounds = waiting[k]
                single += [
                    row
                    for j, row in enumerate(rows[k : rounds.end])
                    if j % rounds.period in rounds.apart
                ]
                close()
                loop = Loop(rows, rounds, record, self.places)
                self.units.append(loop)
                self.loops.append(loop)
                for i in loop.inside:
                    for t, row in enumerate(loop.by_position[i]):
                        self.places[row] = loop, i, t
                k = rounds.end
                continue
            join = self._joining(rows[k])
            if join is None:
                single.append(rows[k])
            else:
                close()
                self.units.append(join)
            k += 1
        close()
        self._check_widths()
        needed: set[Any] = {key_of(y, self.places) for y in outputs if y is not None}
        for unit in reversed(self.units):
            if isinstance(unit, Loop):
                self._keep_loop(unit, needed)
            else:
                unit.keep(needed, self)

    def read(self, row: Row) -> list[Row]:
        return [p for p in row.parents if p.__class__ is Row and p in self.known]

    def _joining(self, row: Row) -> Join | None:
        parents = [p if p.__class__ is Row and p in self.known else None for p in row.parents]
        if row.primitive is not P.concatenate or len(parents) < FEWEST:
            return None
        like = [p for p in parents if p is not None]
        starts = np.diff((row.params or {})["starts"])
        is_even = len({p.shape for p in like}) == 1 and (starts == starts[0]).all()
        if not is_even or any(p.dtype != row.dtype for p in like):
            return None
        feed = Feed(parents, self.places)
        return Join(row, feed) if len(feed.runs) < len(parents) // 2 else None

    def _check_widths(self) -> None:
        for loop in self.loops:
            for c in loop.components:
                if loop.count * c.lanes * c.width**2 > MOST_ENTRIES:
                    raise UnsupportedError(
                        f'method="scan" multiplies the blocks of {loop.count} rounds, here of {c.width} × '
                        f"{c.width} numbers each, which is more than {MOST_ENTRIES:,} in all; take "
                        '"forward" or "reverse"'
                    )

    def _keep_loop(self, loop: Loop, needed: set[Any]) -> None:
        loop.wanted = [i for i in loop.inside if (loop, i) in needed]
        if loop.wanted:
            needed.update(key_of(p, self.places) for p in loop.first.values())
            for _, feed in loop.feeds.values():
                needed.update(feed.needs(self.places))

    def is_entrywise(self, parameter: Row) -> bool:
        """Whether all that depends on it does so entry by entry: then one right-hand side serves for all."""
        reached = {parameter}
        for row in self.rows:
            if any(p in reached for p in row.parents if p.__class__ is Row):
                if not row.primitive.elementwise or row.shape != parameter.shape:
                    return False
                reached.add(row)
        return parameter.size > 1 and parameter.dtype.kind != "c"

    # ---- in place of forward and back substitution

    def ahead(
        self, seeds: Iterable[tuple[Row, Any]], outputs: Sequence[Row | None], masks: bool = True
    ) -> list[Any]:
        pairs = list(seeds)
        if _are_masked(pairs):
            return forward_substitute(self.rows, pairs, outputs, record=self.record)
        at = Differentials(self.places, dict(pairs))
        with np.errstate(all="ignore"):
            for unit in self.units:
                unit.ahead(at)
            return [None if y is None else at.get(y) for y in outputs]

    def back(
        self, seeds: Iterable[tuple[Row, Any]], wanted: Sequence[Row], masks: bool = True
    ) -> list[Any]:
        pairs = list(seeds)
        if _are_masked(pairs):
            found: list[Any] = back_substitute(
                pairs, wanted, oldest=self.oldest, record=self.record
            )
            return found
        at = Differentials(self.places)
        with np.errstate(all="ignore"):
            for row, seed in pairs:
                at.add(row, masked.plain(seed))
            for unit in reversed(self.units):
                unit.back(at)
            return [at.of_rows.get(p) for p in wanted]

    def singles(self) -> list[Row]:
        """The rows that are substituted through one by one."""
        return [row for unit in self.units if isinstance(unit, Singles) for row in unit.rows]

    @property
    def widest(self) -> int:
        """Entries that are held at once for one right-hand side."""
        single = max((row.size for row in self.rows), default=1)
        reached = [(loop.count, [r.size for r in loop.reach]) for loop in self.loops]
        of_loops = [count * max(sizes, default=0) for count, sizes in reached]
        return max([single, *of_loops])


def _are_masked(pairs: Sequence[tuple[Row, Any]]) -> bool:
    """Whether zeros beside infinities were met: single rows know which zeros are structural."""
    return any(isinstance(s, Masked) for _, s in pairs)
