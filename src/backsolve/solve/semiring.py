"""The same substitution over other semirings: what travels along the paths of a system need not be numbers.

    x_i = own_i ⊕ (w(L_i1) ⊗ x_1) ⊕ (w(L_i2) ⊗ x_2) ⊕ …

With ⊕ = +, ⊗ = · and the blocks themselves this is forward mode. With other ⊕ and ⊗ it counts paths, finds the
strongest or the longest ones, their entropy, the pattern of the Jacobian, a bound of rounding errors
(rounding.py). A semiring is five things; everything else is the one function `substitute`.

Paths lead from a parameter to an output, from row to row. A block's strength is its gain (absolute.py), one
number also where rows are arrays.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, log
from typing import Any, NamedTuple

import numpy as np

from ..operators import Operator
from ..operators.entries import places_of
from ..row import Row
from ..system import System, way
from .absolute import gain


@dataclass(frozen=True)
class Semiring:
    """`weight` makes a factor of a block, or of what else is read (and of the row that it belongs to)."""

    plus: Callable[[Any, Any], Any]
    times: Callable[[Any, Any], Any]
    zero: Any
    one: Any
    weight: Callable[[Any, Row], Any]


Own = Callable[[Row], Any]
Edges = Callable[[Row], list[tuple[Row, Any]]]  # what a row reads, and by what


def gains_of(system: System) -> Edges:
    """The same edges with the gains of the blocks, each measured once."""
    found = {row: [(p, gain(block)) for p, block in system.edges(row)] for row in system.rows}
    return found.__getitem__


def substitute(
    system: System, ring: Semiring, own: Own | None = None, edges: Edges | None = None
) -> dict[Row, Any]:
    """x of every parameter and row, from the first to the last.

    `own` is what a row has by itself; without it, parameters have one and other rows zero. `edges` are those of
    the system, if none are given.
    """
    edges = edges or system.edges
    found = {p: ring.one if own is None else own(p) for p in system.parameters}
    for row in system.rows:
        total = ring.zero if own is None else own(row)
        for parent, block in edges(row):
            total = ring.plus(total, ring.times(ring.weight(block, row), found[parent]))
        found[row] = total
    return found


def at_outputs(system: System, ring: Semiring, edges: Edges | None = None) -> Any:
    """⊕ over the outputs; one that is given twice counts once."""
    return _at_outputs(system, ring, substitute(system, ring, edges=edges))


def _at_outputs(system: System, ring: Semiring, found: dict[Row, Any]) -> Any:
    total = ring.zero
    for y in dict.fromkeys(y for y in system.outputs if y is not None):
        total = ring.plus(total, found[y])
    return total


# ---- the semirings

COUNT = Semiring(
    plus=lambda a, b: a + b, times=lambda w, a: w * a, zero=0, one=1, weight=lambda block, row: 1
)


def _mix(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    """Two sets of paths, each by the logarithm of its total strength and the mean logarithm of a path's."""
    if -inf in (a[0], b[0]):
        return max(a, b)
    total = float(np.logaddexp(a[0], b[0]))
    return total, exp(a[0] - total) * a[1] + exp(b[0] - total) * b[1]


# In logarithms, for the strengths of long paths are no floats; over gains.
ENTROPY = Semiring(
    plus=_mix,
    times=lambda w, a: (w + a[0], w + a[1]) if w > -inf else (-inf, 0.0),
    zero=(-inf, 0.0),
    one=(0.0, 0.0),
    weight=lambda gain, row: _log(gain),
)


def best(k: int, length: Callable[[Any], float]) -> Semiring:
    """The k longest paths, longest first: (length, rows from the last to the first as nested pairs)."""
    Paths = tuple[Any, ...]

    def plus(a: Paths, b: Paths) -> Paths:
        if not a or not b:
            return a or b
        return tuple(heapq.nlargest(k, (*a, *b), key=lambda path: path[0]))

    def times(w: tuple[float, Row], a: Paths) -> Paths:
        size, row = w
        return tuple([(size + n, (row, before)) for n, before in a]) if size > -inf else ()

    return Semiring(plus, times, (), ((0.0, None),), lambda block, row: (length(block), row))


def _log(x: float) -> float:
    if x != x:
        return inf  # a block that is not a number must be seen
    return log(x) if x > 0 else -inf


def reaching(system: System) -> dict[Row, Any]:
    """For every row the pattern of its Jacobian: which of its entries depend on which of all parameters'."""
    sizes = [p.size for p in system.parameters]
    width, starts = sum(sizes), np.cumsum([0, *sizes])
    first = dict(zip(system.parameters, starts, strict=False))

    def own(row: Row) -> Any:
        pattern = np.zeros((row.size, width), bool)
        if row in first:
            pattern[np.arange(row.size), first[row] + np.arange(row.size)] = True
        return pattern

    def weight(block: Operator, row: Row) -> tuple[list[Any], int]:
        return [t.listed() for t in places_of(block).terms], row.size

    def times(w: tuple[list[Any], int], below: Any) -> Any:
        places, size = w
        found = np.zeros((size, width), bool)
        for t in places:
            np.logical_or.at(found, t.rows, below[t.cols])
        return found

    return substitute(system, Semiring(np.logical_or, times, False, True, weight), own)


# ---- asked of a System


class Path(NamedTuple):
    """One path: what it is worth, the parameter where it begins (its number), the numbers of its rows."""

    strength: float
    parameter: int
    rows: tuple[int, ...]


@way("paths")
def paths(system: System, edges: Edges | None = None) -> int:
    return int(at_outputs(system, COUNT, edges))


@way("strongest paths")
def strongest_paths(system: System, k: int, gains: Edges | None = None) -> list[Path]:
    check_count(k)
    found = _best_paths(system, k, _log, gains or gains_of(system))
    return [p._replace(strength=exp(p.strength) if p.strength < 709 else inf) for p in found]


@way("longest chain")
def longest_chain(system: System) -> list[int]:
    found = _best_paths(system, 1, lambda block: 1.0, system.edges)
    return list(found[0].rows) if found else []


def check_count(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"the number of paths must be a whole number of at least 1, got {k!r}")


def _best_paths(system: System, k: int, length: Callable[[Any], float], edges: Edges) -> list[Path]:
    ring = best(k, length)
    begins = {p: ((0.0, (p, None)),) for p in system.parameters}
    found = substitute(system, ring, lambda row: begins.get(row, ()), edges)
    made = []
    for size, chain in _at_outputs(system, ring, found):
        rows: list[Row] = []
        while chain is not None:
            row, chain = chain
            rows.append(row)
        numbers = tuple([system.number[r] for r in rows[-2::-1]])
        made.append(Path(size, system.parameters.index(rows[-1]) + 1, numbers))
    return made


@way("path entropy")
def path_entropy(system: System, gains: Edges | None = None) -> float:
    total, mean = at_outputs(system, ENTROPY, gains or gains_of(system))
    return max(0.0, total - mean) if total > -inf else 0.0


@way("pattern")
def pattern(system: System) -> list[list[Any]]:
    """[output][parameter] -> a matrix of booleans."""
    found, ends = reaching(system), np.cumsum([p.size for p in system.parameters])[:-1]
    return [
        [np.zeros((np.size(v), p.size), bool) for p in system.parameters]
        if y is None
        else np.split(found[y], ends, axis=1)
        for y, v in zip(system.outputs, system._raw_outputs, strict=True)
    ]
