"""The product of two lists of entries: full blocks are multiplied as matrices, all else one by one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...errors import UnsupportedError
from ...primitive import P
from .limit import about_to_list
from .terms import Index, Listed, Part, Steps, compact, scaled, shape_of, shaped, take

_FEW = 1 << 12  # products, up to which it does not matter how they are made
_MOST = 1 << 25  # that are made one by one


def join(a: Listed, b: Listed, middle: int) -> Part | None:
    """A @ B, with so many places between them; None if no entries meet."""
    if a.size * b.size > _FEW * middle:
        x, y = _full_blocks(a, b)
        if x is not None and y is not None:
            return _matrix_product(x, y)
    found = _one_by_one(a, b, middle)
    return found if found.size else None


def _one_by_one(a: Listed, b: Listed, middle: int) -> Listed:
    """Every entry of A with every entry in that row of B that its column names."""
    at_b = _only(b.rows, middle)
    if at_b is not None:
        about_to_list(a.size)
        ib = at_b[a.cols]
        ia = np.flatnonzero(ib >= 0)
        ib = ib[ia]
        return _paired(a, ia, b, ib)
    at_a = _only(a.cols, middle)
    if at_a is not None:
        about_to_list(b.size)
        ia = at_a[b.rows]
        ib = np.flatnonzero(ia >= 0)
        return _paired(a, ia[ib], b, ib)
    order = np.argsort(b.rows, kind="stable")
    starts = np.searchsorted(b.rows[order], np.arange(middle + 1))
    counts = np.diff(starts)[a.cols]
    if (total := int(counts.sum())) > _MOST:
        raise UnsupportedError(
            f"elimination would multiply {total:,} pairs of single entries here, and list them all"
        )
    about_to_list(total)
    ia = np.repeat(np.arange(a.size), counts)
    first = np.repeat(starts[:-1][a.cols] - np.cumsum(counts) + counts, counts)
    return _paired(a, ia, b, order[first + np.arange(ia.size)])


def _paired(a: Listed, ia: Index, b: Listed, ib: Index) -> Listed:
    return Listed(a.rows[ia], b.cols[ib], scaled(take(a.values, ia), take(b.values, ib)))


def _only(index: Index, size: int) -> Index | None:
    """Where each number stands in `index` (-1: nowhere), if none stands there twice."""
    places = np.full(size, -1, np.intp)
    counting = np.arange(index.size)
    places[index] = counting
    return places if np.array_equal(places[index], counting) else None


# ---- full blocks


class _Full(NamedTuple):
    """A value for each of some rows and each of some columns."""

    rows: Index
    cols: Index
    values: Any  # a matrix


def _full_blocks(a: Listed, b: Listed) -> tuple[_Full | None, _Full | None]:
    sides_a, sides_b = _sides(a), _sides(b)
    if sides_a is None or sides_b is None:
        return None, None
    return _full(a, sides_a), _full(b, sides_b)


class _Side(NamedTuple):
    distinct: Index  # places, rising
    numbers: Index  # of each entry's place among them

    @classmethod
    def of(cls, index: Index) -> _Side:
        found = np.zeros(int(index.max(initial=-1)) + 1, bool)
        found[index] = True
        return cls(np.flatnonzero(found), (np.cumsum(found) - 1)[index])


def _sides(a: Listed) -> tuple[_Side, _Side] | None:
    """Rows and columns, if they may be those of a full block."""
    rows, cols = _Side.of(a.rows), _Side.of(a.cols)
    is_block = shape_of(a.values) and rows.distinct.size * cols.distinct.size == a.size
    return (rows, cols) if is_block else None


def _full(a: Listed, sides: tuple[_Side, _Side]) -> _Full | None:
    """The entries as a full block, if they are one: no place comes twice."""
    rows, cols = sides
    n = cols.distinct.size
    places = _only(rows.numbers * n + cols.numbers, a.size)
    if places is None:
        return None
    values = shaped(take(a.values, places), (rows.distinct.size, n))
    return _Full(rows.distinct, cols.distinct, values)


def _matrix_product(a: _Full, b: _Full) -> Part | None:
    shared, ia, ib = np.intersect1d(a.cols, b.rows, assume_unique=True, return_indices=True)
    if not shared.size:
        return None
    x = a.values if shared.size == a.cols.size else a.values[:, ia]
    y = b.values if shared.size == b.rows.size else b.values[ib]
    z = P.contract(x, y, subscripts="ij,jk->ik", sizes=())
    down, right = _even(a.rows), _even(b.cols)
    if down and right:
        rows, cols = Steps(down[0], (down[1], 0)), Steps(right[0], (0, right[1]))
        return compact((a.rows.size, b.cols.size), rows, cols, z)
    about_to_list(a.rows.size * b.cols.size)
    places = np.repeat(a.rows, b.cols.size), np.tile(b.cols, a.rows.size)
    return Listed(*places, shaped(z, (places[0].size,)))


def _even(index: Index) -> tuple[int, int] | None:
    """Where rising numbers begin and their step, if it is one and the same."""
    step = int(index[1] - index[0]) if index.size > 1 else 1
    return (int(index[0]), step) if np.all(np.diff(index) == step) else None
