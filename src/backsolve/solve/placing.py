"""Where the entries of terms stand in a compressed sparse matrix: row by row, in each by columns.

Terms mostly stand side by side: in every row that two of them share, the entries of one come before those of
the other. Then a row is a queue. Terms are let in from left to right, and each takes the next places of all its
rows at once; rows in even steps are a view, of which no index is made. Whether columns ascend is seen in the
end; if they do not, or a place comes twice, all places are sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..operators.entries.entries import numbered
from ..operators.entries.limit import about_to_list
from ..operators.entries.terms import Index, Listed, Part, Term, are_apart


@dataclass(frozen=True, eq=False)
class Placed:
    """The places of a matrix, and at which of them the entries of each term stand."""

    indptr: Any
    indices: Any
    at: list[Index]
    once: bool  # no place comes twice


def placed(terms: Sequence[Part], height: int, width: int) -> Placed:
    size = sum(t.size for t in terms)
    small = np.dtype(np.int32 if max(size, width) < 2**31 else np.int64)
    return _queued(terms, height, width, small) or _sorted(terms, height, small)


def _queued(terms: Sequence[Part], height: int, width: int, small: Any) -> Placed | None:
    """None where terms overlap or cross each other."""
    if not all(_has_distinct_rows(t) for t in terms):
        return None
    about_to_list(sum(t.size for t in terms if isinstance(t, Term)))
    indptr = np.zeros(height + 1, np.intp)
    for t in terms:
        if isinstance(t, Listed):
            indptr[1:][t.rows] += 1
        else:
            _rows_of(t, indptr[1:])[...] += _along_row(t)
    np.cumsum(indptr, out=indptr)
    free = indptr[:-1].copy()
    indices = np.empty(int(indptr[-1]), small)
    at: list[Index] = [free[:0]] * len(terms)
    slope = width / max(height, 1)
    for k in sorted(range(len(terms)), key=lambda k: _lead(terms[k], slope)):
        t = terms[k]
        if isinstance(t, Listed):
            at[k] = free[t.rows]
            free[t.rows] += 1
            indices[at[k]] = t.cols
        else:
            rows = _rows_of(t, free)
            at[k] = _after(rows, t.counts)
            rows[...] += _along_row(t)
            indices[at[k]] = t.cols.listed(t.counts)
    if not _ascend(indptr, indices):
        return None
    return Placed(indptr.astype(small), indices, at, True)


def _has_distinct_rows(t: Part) -> bool:
    """Whether no row comes twice, but for the axes along which a term stays in its rows."""
    if isinstance(t, Listed):
        return bool((t.rows[1:] > t.rows[:-1]).all())
    return are_apart([(s, n) for s, n in zip(t.rows.strides, t.counts, strict=True) if s])


def _along_row(t: Term) -> int:
    """How many entries it has in each of its rows."""
    return prod(n for s, n in zip(t.rows.strides, t.counts, strict=True) if not s)


def _rows_of(t: Term, numbers: Index) -> Any:
    """A view of one number for each row: of length 1 along the axes on which the term stays in its rows."""
    counts = [n if s else 1 for s, n in zip(t.rows.strides, t.counts, strict=True)]
    strides = [s * numbers.itemsize for s in t.rows.strides]
    return np.lib.stride_tricks.as_strided(numbers[t.rows.offset :], counts, strides)


def _after(rows: Any, counts: tuple[int, ...]) -> Index:
    """The next places of all rows, flat; as many of each as the entries along the other axes."""
    along = [n if m == 1 else 1 for m, n in zip(rows.shape, counts, strict=True)]
    if prod(along) == 1:
        return rows.flatten()
    return (rows + np.arange(prod(along)).reshape(along)).reshape(-1)


def _lead(t: Part, slope: float) -> float:
    """How far right of the diagonal of the whole matrix it begins."""
    if isinstance(t, Listed):
        return float(t.cols[0] - slope * t.rows[0]) if t.size else 0.0
    return t.cols.offset - slope * t.rows.offset


def _ascend(indptr: Index, indices: Any) -> bool:
    """Whether columns ascend in every row."""
    rises = indices[1:] > indices[:-1]
    starts = indptr[1:-1]
    rises[starts[(starts > 0) & (starts < indices.size)] - 1] = True
    return bool(rises.all())


def _sorted(terms: Sequence[Part], height: int, small: Any) -> Placed:
    parts = [t.listed() for t in terms]
    none = np.zeros(0, np.intp)
    rows = np.concatenate([none, *[p.rows for p in parts]])
    cols = np.concatenate([none, *[p.cols for p in parts]])
    first, place, count = numbered(rows, cols)
    once = count == rows.size
    indptr = np.zeros(height + 1, small)
    np.cumsum(np.bincount(rows if once else rows[first], minlength=height), out=indptr[1:])
    at = np.split(place, np.cumsum([p.size for p in parts])[:-1]) if parts else []
    return Placed(indptr, cols[first].astype(small), at, once)
