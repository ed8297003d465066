"""The paths that carry most of a gradient, by best-first search with a bound that is proven.

What a path carries is known once its blocks are applied, from the output back. A path that has come as far as
row r with c carries at most |c|₁ times the largest product of gains from a parameter to r, and one
substitution finds these for all rows. So the path with the largest bound is followed first; where it ends,
nothing that is left can carry more. Of numbers the bound is exact, and nothing else is followed.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from ..row import Row
from ..system import System
from .semiring import Edges, Path, Semiring, _log, strongest_paths, substitute

_STEPS, _ENTRIES = (
    5_000,
    20_000_000,
)  # blocks that are applied, and entries that they read and write


@dataclass(frozen=True)
class Carried:
    """A path and its part of the gradient of its parameter."""

    parameter: int
    rows: tuple[int, ...]
    gradient: Any

    @property
    def size(self) -> float:
        return float(np.abs(self.gradient).sum())


def carrying_most(system: System, k: int, gains: Edges) -> tuple[list[Carried], bool]:
    """The k paths that carry most, most first, and whether that is proven; else it is by their gains."""
    found, is_proven = _searched(system, k, gains)
    if not is_proven:
        known = {(p.parameter, p.rows) for p in found}
        strongest = strongest_paths(system, k, gains)
        others = [p for p in strongest if (p.parameter, p.rows) not in known]
        found += _followed(system, others)
        found.sort(key=lambda p: -p.size)
    return found[:k], is_proven


def _searched(system: System, k: int, gains: Edges) -> tuple[list[Carried], bool]:
    largest = Semiring(
        plus=max,
        times=lambda w, a: w + a if w > -inf and a > -inf else -inf,
        zero=-inf,
        one=0.0,
        weight=lambda gain, row: _log(gain),
    )
    (output,) = system.outputs
    if output is None:
        return [], True
    ahead = substitute(system, largest, edges=gains)
    counter = itertools.count()
    first = np.ones(output.shape, output.dtype)
    left: list[tuple[float, int, Row, Any, tuple[Row, ...]]] = []
    heapq.heappush(left, (-ahead[output], next(counter), output, first, (output,)))
    found: list[Carried] = []
    steps = entries = 0
    with np.errstate(all="ignore"):
        while left and len(found) < k:
            _, _, row, carried, path = heapq.heappop(left)
            if row in system.parameters:
                numbers = tuple([system.number[r] for r in reversed(path[:-1])])
                found.append(Carried(system.parameters.index(row) + 1, numbers, carried))
                continue
            for parent, block in system.edges(row):
                steps, entries = steps + 1, entries + row.size + parent.size
                if steps > _STEPS or entries > _ENTRIES:
                    return found, False
                part = np.asarray(block.pull(carried))
                bound = _log(float(np.abs(part).sum()))
                if bound > -inf and ahead[parent] > -inf:
                    reach = bound + ahead[parent]
                    heapq.heappush(left, (-reach, next(counter), parent, part, (*path, parent)))
    return found, True


def _followed(system: System, paths: Sequence[Path]) -> list[Carried]:
    """What each path carries: its blocks alone, from the output back. What paths share is applied once."""
    rows, parameters = system.rows, system.parameters
    ways = {
        p: [*[rows[n - 1] for n in reversed(p.rows)], parameters[p.parameter - 1]] for p in paths
    }
    found: dict[Path, Carried] = {}
    (output,) = system.outputs
    assert output is not None, "nothing leads to a constant"
    waiting = [(0, list(paths), np.ones(output.shape, output.dtype))]
    with np.errstate(all="ignore"):
        while waiting:
            at, together, carried = waiting.pop()
            onward: dict[Row, list[Path]] = {}
            for p in together:
                if at + 1 < len(ways[p]):
                    onward.setdefault(ways[p][at + 1], []).append(p)
                else:
                    found[p] = Carried(p.parameter, p.rows, np.asarray(carried))
            blocks = dict(system.edges(ways[together[0]][at])) if onward else {}
            waiting += [(at + 1, g, blocks[row].pull(carried)) for row, g in onward.items()]
    return [found[p] for p in paths]
