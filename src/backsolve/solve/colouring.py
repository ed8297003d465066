"""Colouring: which columns, or rows, of a Jacobian one solve may find together, when the pattern is known.

Columns that meet in no row share a seed: with S the matrix that adds up the columns of each colour, every entry
stands alone in its row of J S. Rows likewise in Wᵀ J. Kinds:

    column    J S alone: no row has two entries of one colour
    row       Wᵀ J alone
    both      full rows by Wᵀ J, all other rows by J S: an arrow needs three seeds and not n
    star      symmetric: of H_ij and H_ji one stands alone in H S (no path of four vertices has two colours)
    acyclic   symmetric: two colours span a forest, and entries are found from its leaves by substitution

All are greedy (greedy.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import StructureError
from ..operators.entries.terms import Index
from .greedy import Near, acyclic, first_free, star, turned_order

_THRESHOLDS = 16  # how many ways to part full rows from others are compared


@dataclass(frozen=True, eq=False)
class Pattern:
    """The places of the entries, by row and then column, none twice."""

    shape: tuple[int, int]
    rows: Index
    cols: Index

    @property
    def T(self) -> Pattern:
        order = turned_order(self.rows, self.cols, self.shape)
        return Pattern(self.shape[::-1], self.cols[order], self.rows[order])

    def neighbours(self) -> Near:
        """For each row its columns."""
        return Near.of(self.rows, self.cols, self.shape[0])


@dataclass(frozen=True, eq=False)
class Colouring:
    """Colours of the columns and of the rows (-1: none), and where in the compressed solves each entry stands.

    `source[k]` is the place of entry k among the numbers of J S, one colour after the other, followed by those
    of Wᵀ J. By "acyclic" it is the place of a sum, from which `tied` entries, found before, are taken away.
    """

    kind: str
    columns: Index
    rows: Index
    source: Index
    tied: Any = (
        None  # a unit triangular matrix of scipy.sparse, factorised; and its order of entries
    )

    @property
    def counts(self) -> tuple[int, int]:
        """How many seeds ahead (of columns), and back (of rows)."""
        return int(self.columns.max(initial=-1)) + 1, int(self.rows.max(initial=-1)) + 1

    @property
    def count(self) -> int:
        return sum(self.counts)

    def __repr__(self) -> str:
        ahead, back = self.counts
        return f"<Colouring by {self.kind}: {ahead} of columns, {back} of rows>"


def coloured(pattern: Pattern, kind: str = "auto") -> Colouring:
    """A colouring; "auto" is the one of column, row and both that needs the fewest seeds."""
    if kind == "auto":
        return _fewest(pattern)
    if kind not in KINDS:
        names = ", ".join(f'"{k}"' for k in ("auto", *KINDS))
        raise ValueError(f"a colouring is one of {names}; got {kind!r}")
    return KINDS[kind](pattern)


def _fewest(pattern: Pattern) -> Colouring:
    """The kind of the least bound first; another only if its bound is below what was found."""
    in_row, in_column = (
        int(np.bincount(x, minlength=1).max(initial=0)) for x in (pattern.rows, pattern.cols)
    )
    bounds = {"column": in_row, "row": in_column, "both": _parted(pattern)[1]}
    best: Colouring | None = None
    for kind in sorted(bounds, key=lambda k: bounds[k]):
        if best is None or bounds[kind] < best.count:
            found = KINDS[kind](pattern)
            best = found if best is None or found.count < best.count else best
    return best or by_columns(pattern)


# ---- of columns and rows


def distinct(pattern: Pattern) -> Index:
    """Colours of the columns so that no row has two of one: natural order, or fullest first if fewer."""
    readers = pattern.T.neighbours()
    best = first_free(readers, pattern.shape[0])
    least = int(np.bincount(pattern.rows, minlength=1).max(initial=0))
    if best.max(initial=-1) + 1 > least:
        order = np.argsort(-readers.counts, kind="stable")
        other = first_free(readers, pattern.shape[0], order)
        best = other if other.max(initial=-1) < best.max(initial=-1) else best
    return best


def by_columns(pattern: Pattern) -> Colouring:
    columns, rows = distinct(pattern), np.full(pattern.shape[0], -1)
    return Colouring(
        "column", columns, rows, columns[pattern.cols] * pattern.shape[0] + pattern.rows
    )


def by_rows(pattern: Pattern) -> Colouring:
    rows, columns = distinct(pattern.T), np.full(pattern.shape[1], -1)
    return Colouring("row", columns, rows, rows[pattern.rows] * pattern.shape[1] + pattern.cols)


def _parted(pattern: Pattern) -> tuple[Any, int]:
    """Which rows are full, so that the bound is least: entries of another row, and of a column in full rows."""
    full = np.bincount(pattern.rows, minlength=pattern.shape[0])
    levels = np.unique(full)[::-1]
    if levels.size > _THRESHOLDS:
        levels = levels[np.linspace(0, levels.size - 1, _THRESHOLDS).astype(int)]
    best, least = full < 0, int(full.max(initial=0))
    for level in levels.tolist():
        above = full > level
        meeting = np.bincount(pattern.cols[above[pattern.rows]], minlength=1)
        bound = int(meeting.max(initial=0)) + int(full[~above].max(initial=0))
        if bound < least:
            best, least = above, bound
    return best, least


def by_both(pattern: Pattern) -> Colouring:
    height, width = pattern.shape
    back, _ = _parted(pattern)
    mine = back[pattern.rows]
    # Of full rows all entries meet in Wᵀ J; in J S only those of the others are read.
    rows = np.full(height, -1)
    rows[back] = distinct(Pattern(pattern.shape, pattern.rows[mine], pattern.cols[mine]).T)[back]
    columns = distinct(Pattern(pattern.shape, pattern.rows[~mine], pattern.cols[~mine]))
    ahead = np.where(mine, 0, columns[pattern.cols] * height + pattern.rows)
    count = int(columns.max(initial=-1)) + 1
    behind = count * height + rows[pattern.rows] * width + pattern.cols
    return Colouring("both", columns, rows, np.where(mine, behind, ahead))


# ---- of symmetric matrices


def _check_symmetric(pattern: Pattern) -> None:
    turned = pattern.T
    if pattern.shape[0] != pattern.shape[1] or not (
        np.array_equal(pattern.rows, turned.rows) and np.array_equal(pattern.cols, turned.cols)
    ):
        raise StructureError(
            "star and acyclic colourings are of symmetric patterns (Hessians); this one, "
            f'{pattern.shape[0]} × {pattern.shape[1]}, is not: use "column", "row" or "both"'
        )


def by_star(pattern: Pattern) -> Colouring:
    _check_symmetric(pattern)
    n = pattern.shape[0]
    colours = star(_without_diagonal(pattern))
    # H_ij stands alone in row i of H S if no other column of that row has the colour of j; if not, H_ji does.
    ahead = pattern.rows * (int(colours.max(initial=-1)) + 1) + colours[pattern.cols]
    alone = np.bincount(ahead, minlength=1)[ahead] == 1
    read, seeded = (
        np.where(alone, x, y)
        for x, y in [(pattern.rows, pattern.cols), (pattern.cols, pattern.rows)]
    )
    return Colouring("star", colours, np.full(n, -1), colours[seeded] * n + read)


def _without_diagonal(pattern: Pattern) -> Near:
    off = pattern.rows != pattern.cols
    return Pattern(pattern.shape, pattern.rows[off], pattern.cols[off]).neighbours()


def by_acyclic(pattern: Pattern) -> Colouring:
    _check_symmetric(pattern)
    n = pattern.shape[0]
    colours = acyclic(_without_diagonal(pattern))
    source, tied = _substitution(pattern, colours)
    return Colouring("acyclic", colours, np.full(n, -1), source, tied)


def _substitution(pattern: Pattern, colours: Index) -> tuple[Index, Any]:
    """Where the sum stands that entry k is found from, and the entries that it holds besides.

    The sum of v in colour c is a node (v, c), an entry H_vw an edge between (v, colour of w) and
    (w, colour of v): a forest, as no two colours span a cycle. Each edge is found from its end away from the
    root, whose sum holds besides only edges that are farther away.
    """
    import scipy.sparse as sp
    from scipy.sparse.csgraph import breadth_first_order, connected_components
    from scipy.sparse.linalg import splu

    n, shades = pattern.shape[0], int(colours.max(initial=-1)) + 1
    source = colours[pattern.cols] * n + pattern.rows
    off = np.flatnonzero(pattern.rows != pattern.cols)
    if not off.size:
        return source, None
    rows, cols = pattern.rows[off], pattern.cols[off]
    turned = turned_order(rows, cols, pattern.shape)  # which entry is the transpose of entry k
    sums, node = np.unique(rows * shades + colours[cols], return_inverse=True)
    upper = np.flatnonzero(rows < cols)
    near, far = node[upper], node[turned[upper]]
    count, root = upper.size, sums.size

    def joined(i: Any, j: Any) -> Any:
        return sp.csr_array((np.ones(i.size), (i, j)), shape=(root + 1, root + 1))

    _, label = connected_components(joined(near, far)[:root, :root], directed=False)
    trees = np.unique(label, return_index=True)[1]
    assert count == root - trees.size, "two colours span a cycle"
    up = np.concatenate([near, far, np.full(trees.size, root)])
    down = np.concatenate([far, near, trees])
    order, before = breadth_first_order(joined(up, down), root)
    swap = before[near] == far
    near, far = np.where(swap, far, near), np.where(swap, near, far)
    depth = np.empty(root + 1, np.intp)
    depth[order] = np.arange(root + 1)
    number = np.empty(count, np.intp)  # of each edge: the farthest is the first
    number[np.argsort(-depth[far])] = np.arange(count)
    ending = np.full(root, -1, np.intp)
    ending[far] = number
    behind = np.flatnonzero(ending[near] >= 0)
    i = np.concatenate([np.arange(count), ending[near[behind]]])
    j = np.concatenate([np.arange(count), number[behind]])
    matrix = sp.csc_array((np.ones(i.size), (i, j)), shape=(count, count))
    factor = splu(matrix, permc_spec="NATURAL", diag_pivot_thresh=0.0)
    edge = np.empty(off.size, np.intp)
    edge[upper] = edge[turned[upper]] = number
    read = np.empty(count, np.intp)
    read[number] = sums[far] % shades * n + sums[far] // shades
    source[off] = read[edge]
    first = np.empty(count, np.intp)
    first[edge] = off
    return source, (factor, first, off, edge)


KINDS: dict[str, Callable[[Pattern], Colouring]] = {
    "column": by_columns,
    "row": by_rows,
    "both": by_both,
    "star": by_star,
    "acyclic": by_acyclic,
}
