"""Entries of a Jacobian in the order of a compressed sparse matrix.

The places of all terms are known before any value is: they are numbered once, row by row. What is constant is
added up then; what varies is computed by a Program and brought to its places in one of two ways:

    Put     added into a copy of the constants: where little varies, or in even steps
    Pick    every number of the matrix is read from one array of all that varies and the constants
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from ..operators.entries import Entries
from ..operators.entries.terms import Index, is_known, spread, take
from ..ownership import finished
from ..primitive import P
from .placing import placed

_FEW = 16  # constants that are told apart: more are kept one by one
_LITTLE = 4  # Put, if less than one entry in so many varies


@dataclass(frozen=True, eq=False)
class Put:
    """numbers[at[k]] += values[k]."""

    at: Index

    def numbers(self, values: Sequence[Any], template: Any) -> Any:
        put = P.scatter_add(_joined(values), self.at, shape=template.shape)
        return put + template if template.any() else put


@dataclass(frozen=True, eq=False)
class Pick:
    """numbers = pool[source], then numbers[at] += pool[rest]; the pool is the values, then the constants."""

    source: Any
    constants: Any
    rest: Index
    at: Index

    def numbers(self, values: Sequence[Any], template: Any) -> Any:
        pool = _joined([*values, self.constants] if self.constants.size else values)
        numbers = take(pool, self.source)
        if not self.at.size:
            return numbers
        return numbers + P.scatter_add(take(pool, self.rest), self.at, shape=template.shape)

    @classmethod
    def of(cls, at: Index, template: Any, once: bool = False) -> Pick | None:
        """None if too many places have several numbers that are to be added; `once`: if none has."""
        counting = np.arange(at.size)
        source = np.full(template.size, -1, np.intp)
        source[at] = counting
        more = both = counting[:0]
        if not once:
            more = np.flatnonzero(source[at] != counting)
            both = np.flatnonzero((source >= 0) & (template != 0))
        free = np.flatnonzero(source < 0) if at.size - more.size < template.size else counting[:0]
        if 2 * (more.size + both.size) > at.size:
            return None
        distinct, which = _distinct(template[free])
        source[free] = at.size + which
        constants = np.concatenate([distinct, template[both]])
        last = at.size + distinct.size + np.arange(both.size)
        size = at.size + constants.size
        source = source.astype(np.int32 if size < 2**31 else np.intp)
        rest, places = np.concatenate([more, last]), np.concatenate([at[more], both])
        return cls(*map(finished, (source, constants, rest, places)))


@dataclass(frozen=True, eq=False)
class Layout:
    """A compressed sparse matrix without what varies; `fill` brings that to its places."""

    shape: tuple[int, int]
    indptr: Any
    indices: Any
    template: Any
    fill: Put | Pick | None = None

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
        if self.fill is None:
            return np.array(self.template)
        found = self.fill.numbers(values, self.template)
        return found if found.dtype == self.template.dtype else found.astype(self.template.dtype)


def laid_out(e: Entries) -> tuple[Layout, list[Any]]:
    """The layout of a map given by its entries, and the values of the terms that vary, flat."""
    height, width = e.out_type.size, e.in_type.size
    found = placed(e.terms, height, width)
    template = np.zeros(found.indices.size, number_dtype(e.in_type.dtype, e.out_type.dtype))
    places, values = [], []
    for term, here in zip(e.terms, found.at, strict=True):
        if is_known(term.values):
            if found.once:
                template[here] = term.flat
            else:
                np.add.at(template, here, term.flat)
        else:
            places.append(here)
            values.append(spread(term.flat, (term.size,)))
    for shared in (found.indptr, found.indices):  # all matrices of this layout have them in common
        shared.flags.writeable = False
    fill = _fill(places, finished(template), found.once)
    return Layout((height, width), found.indptr, found.indices, template, fill), values


def number_dtype(argument: Any, result: Any) -> Any:
    """As a gradient has the dtype of its argument; complex, if either is."""
    turns_complex = result.kind == "c" and argument.kind != "c"
    return np.result_type(argument, result) if turns_complex else argument


def _joined(values: Sequence[Any]) -> Any:
    return values[0] if len(values) == 1 else np.concatenate(values)


def _fill(places: Sequence[Index], template: Any, once: bool) -> Put | Pick | None:
    if not places:
        return None
    at = finished(places[0] if len(places) == 1 else np.concatenate(places))
    steps = np.diff(at)
    if _LITTLE * at.size < template.size or not steps.size or np.all(steps == steps[0]):
        return Put(at)
    return Pick.of(at, template, once) or Put(at)


def _distinct(constants: Any) -> tuple[Any, Index]:
    """The distinct ones, by their bits, and which of them each is; all, if they are many."""
    width = min(constants.dtype.itemsize, 8)
    bits = np.ascontiguousarray(constants).view(f"u{width}")
    words = list(bits.reshape(constants.size, constants.dtype.itemsize // width).T)  # complex: two
    which = np.full(constants.size, -1, np.intp)
    left = np.arange(constants.size)
    found: list[int] = []
    while left.size:
        if len(found) == _FEW:
            return constants, np.arange(constants.size)
        found.append(int(left[0]))
        same = reduce(np.logical_and, [w == w[0] for w in words])
        which[left[same]] = len(found) - 1
        others = ~same
        left, words = left[others], [w[others] for w in words]
    return constants[found], which
