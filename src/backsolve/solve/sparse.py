"""Entries of a Jacobian in the order of a compressed sparse matrix.

The places of all terms are known before any value is: they are numbered once, row by row. What is constant is
added into a template then; what varies is computed by a Program and put among it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..operators.entries import Entries
from ..operators.entries.entries import numbered
from ..operators.entries.terms import Index, is_known, spread
from ..primitive import P


@dataclass(frozen=True, eq=False)
class Layout:
    """A compressed sparse matrix without what varies: `places[k]` is where the values of term k are added."""

    shape: tuple[int, int]
    indptr: Any
    indices: Any
    template: Any
    places: tuple[Index, ...]

    @property
    def nnz(self) -> int:
        return int(self.indices.size)

    def same_pattern(self, other: Layout) -> bool:
        return (
            self.shape == other.shape
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.indices, other.indices)
        )

    def filled(self, values: list[Any]) -> Any:
        """The numbers of the matrix, given those of the terms that vary."""
        if not values:
            return np.array(self.template)
        whole = values[0] if len(values) == 1 else np.concatenate(values)
        at = self.places[0] if len(values) == 1 else np.concatenate(self.places)
        put = P.scatter_add(whole, at, shape=(self.nnz,))
        put = put + self.template if self.template.any() else put
        return put if put.dtype == self.template.dtype else put.astype(self.template.dtype)


def laid_out(e: Entries) -> tuple[Layout, list[Any]]:
    """The layout of a map given by its entries, and the values of the terms that vary, flat."""
    parts = [t.listed() for t in e.terms]
    height, width = e.out_type.size, e.in_type.size
    none = np.zeros(0, np.intp)
    rows = np.concatenate([none, *[p.rows for p in parts]])
    cols = np.concatenate([none, *[p.cols for p in parts]])
    first, place, count = numbered(rows, cols)
    template = np.zeros(count, e.in_type.dtype)  # as a gradient has the dtype of its argument
    places, values, at = [], [], 0
    for part in parts:
        here = place[at : at + part.size]
        at += part.size
        if is_known(part.values):
            np.add.at(template, here, part.values)
        else:
            places.append(here)
            values.append(spread(part.values, (part.size,)))
    small = np.int32 if max(count, width) < 2**31 else np.int64
    indptr = np.zeros(height + 1, small)
    np.cumsum(np.bincount(rows[first], minlength=height), out=indptr[1:])
    indices = cols[first].astype(small)
    for shared in (indptr, indices):  # all matrices of this layout have them in common
        shared.flags.writeable = False
    return Layout((height, width), indptr, indices, template, tuple(places)), values
