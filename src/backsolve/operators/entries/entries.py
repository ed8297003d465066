"""Entries: an operator given by its non-zero entries, in terms; products and sums stay in this form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir import Type
from ...primitive import P
from ..base import Between, Cost, Operator
from ..structure import facts
from .limit import about_to_list, about_to_multiply
from .meet import meet
from .terms import Index, Listed, Part, Steps, Term, is_known, scaled, spread, take

_MANY = 48  # terms, from which on they are listed and become one
_FEW = 64  # entries, up to which traced ones are added one by one: in registers, where a scatter is not
_SMALL = 256  # places of a matrix, up to which each is read: in registers, too
_SPARSE = 0.2  # of the places, up to which entries are put on zeros instead of read for every place
_OFTEN = 4  # entries for each place, from which on a list is added up


class Entries(Between):
    __slots__ = ("terms",)

    def __init__(self, in_type: Type, out_type: Type, terms: Sequence[Part]):
        self._in, self._out = in_type, out_type
        self.terms = tuple(terms)

    @property
    def T(self) -> Operator:
        return Entries(self._out, self._in, [t.T for t in self.terms])

    def apply(self, t: Any) -> Any:
        flat = np.reshape(t, (self._in.size,))
        out: Any = np.zeros(self._out.size, self._out.dtype)
        for term in self.terms:
            part = term.listed()
            image = take(flat, part.cols) * part.values
            out = out + P.scatter_add(image, part.rows, shape=(self._out.size,))
        return np.reshape(out, self._out.shape)

    def times(self, other: Entries) -> Entries:
        """self @ other, by the entries that meet."""
        about_to_multiply(len(self.terms) * len(other.terms))
        pairs = [meet(a, b, self._in.shape) for a in self.terms for b in other.terms]
        most = _FEW + _OFTEN * self._out.size * other._in.size
        found = [
            merged([t]) if isinstance(t, Listed) and t.size > most else t
            for t in pairs
            if t is not None
        ]
        return Entries(other._in, self._out, tidied(found))

    def scaled(self, factor: Any) -> Entries:
        return Entries(
            self._in, self._out, [_with(t, scaled(t.values, factor)) for t in self.terms]
        )

    def mapped(self, f: Callable[[Any], Any]) -> Entries:
        """The same places, with f of the values: of numbers that are real and bare, themselves."""
        return Entries(self._in, self._out, [_with(t, _image(f, t.values)) for t in self.terms])

    def between(self, in_type: Type, out_type: Type) -> Entries:
        """The same entries, of arrays of other shapes."""
        return Entries(in_type, out_type, self.terms)

    def plus(self, *others: Entries) -> Entries:
        return Entries(self._in, self._out, tidied([t for e in (self, *others) for t in e.terms]))

    @property
    def nnz(self) -> int:
        """Entries; one that several terms have counts several times."""
        return sum(t.size for t in self.terms)

    @property
    def structure(self) -> frozenset[str]:
        return facts("sparse") if self.nnz <= self._out.size + self._in.size else frozenset()

    @property
    def cost(self) -> Cost:
        n = self.nnz
        return Cost(n, n, n * (self._out.dtype.itemsize + 8))

    def dense(self) -> Any:
        """The matrix; of traced values, traced."""
        m, n = self._out.size, self._in.size
        if not self.terms or not m * n:
            return np.zeros((m, n), self._out.dtype)
        if all(is_known(t.values) for t in self.terms):
            return _put(self.terms, m, n, self._out.dtype)
        parts = [t.listed() for t in self.terms]
        place = np.concatenate([p.rows * n + p.cols for p in parts])
        pieces = [_in_full(p, self._out.dtype) for p in parts]
        values = np.concatenate(pieces) if len(pieces) > 1 else pieces[0]
        is_met = np.zeros(m * n, bool)
        is_met[place] = True
        is_distinct = np.count_nonzero(is_met) == place.size
        if not is_distinct and place.size <= _FEW:
            return np.reshape(_added_up(pieces, place, m * n), (m, n))
        if not is_distinct or (m * n > _SMALL and place.size <= _SPARSE * m * n):
            return np.reshape(P.scatter_add(values, place, shape=(m * n,)), (m, n))
        # Each place once: read where it comes from; the others are one zero at the end.
        source = np.full(m * n, place.size)
        source[place] = np.arange(place.size)
        if place.size < m * n:
            values = np.concatenate([values, np.zeros(1, self._out.dtype)])
        return np.reshape(take(values, source), (m, n))

    def __repr__(self) -> str:
        return f"Entries({self.nnz} of {self._out.size} × {self._in.size})"


def _put(terms: Sequence[Part], m: int, n: int, dtype: Any) -> Any:
    """The matrix of terms that are known: added where they stand, on pages that are zero until touched."""
    kinds = [getattr(t.values, "dtype", dtype) for t in terms]
    found = np.zeros(m * n, np.result_type(*kinds, *[dtype] * (dtype.kind == "c")))
    for t in terms:
        if isinstance(t, Listed) or not t.is_distinct(n):
            t = t.listed()
            np.add.at(found, t.rows * n + t.cols, t.values)
        else:
            strides = [found.itemsize * s for s in t.strides_in(n)]
            first = found[t.rows.offset * n + t.cols.offset :]
            view = np.lib.stride_tricks.as_strided(first, t.counts, strides)
            view += t.values
    return found.reshape(m, n)


def _in_full(p: Listed, dtype: Any) -> Any:
    if not np.ndim(p.values) and is_known(p.values):
        return np.full(p.size, p.values, dtype)
    return spread(p.values, (p.size,))


def _added_up(pieces: Sequence[Any], place: Index, size: int) -> Any:
    """Entries at the same place summed, each by itself."""
    sums: dict[int, Any] = {}
    at = iter(place.tolist())
    for piece in pieces:
        for j in range(piece.shape[0]):
            k = next(at)
            sums[k] = sums[k] + piece[j] if k in sums else piece[j]
    return np.stack([sums.get(k, np.zeros((), pieces[0].dtype)) for k in range(size)])


def tidied(terms: Sequence[Part]) -> list[Part]:
    """Terms at the same places added up; all of them listed as one, if they are too many."""
    if len(terms) == 1:
        return [terms[0]]
    found: dict[Any, Part] = {}
    for t in terms:
        key = t.place
        old = found.get(key)
        found[key] = t if old is None else _with(old, old.values + t.values)
    if len(found) <= _MANY:
        return list(found.values())
    known = [t for t in found.values() if is_known(t.values)]
    traced = [t for t in found.values() if not is_known(t.values)]
    return [merged([t.listed() for t in group]) for group in (known, traced) if group]


def _image(f: Callable[[Any], Any], values: Any) -> Any:
    """f of values; a bare number stays one, so that it has no precision of its own."""
    if type(values) in (int, float):
        return values
    return np.asarray(f(values)).item() if type(values) is complex else f(values)


def _with(t: Part, values: Any) -> Part:
    if isinstance(t, Term):
        return Term(t.counts, t.rows, t.cols, values)
    return Listed(t.rows, t.cols, values)


def merged(parts: Sequence[Listed]) -> Listed:
    """One list, no place twice."""
    about_to_list(sum(p.size for p in parts))
    rows, cols = (np.concatenate([getattr(p, k) for p in parts]) for k in ("rows", "cols"))
    values = np.concatenate([spread(p.values, (p.size,)) for p in parts])
    first, place, count = numbered(rows, cols)
    if count == rows.size:
        return Listed(rows, cols, values)
    return Listed(rows[first], cols[first], P.scatter_add(values, place, shape=(count,)))


def numbered(rows: Index, cols: Index) -> tuple[Index, Index, int]:
    """Distinct places by row and column: where each comes first, which one every entry is, how many."""
    width = int(cols.max(initial=0)) + 1
    key = rows * width + cols
    order = np.argsort(key, kind="stable")  # runs that are sorted already are merged quickly
    key = key[order]
    differs = key[1:] != key[:-1]
    place = np.empty(key.size, np.intp)
    if differs.all():  # each place once
        place[order] = np.arange(key.size)
        return order, place, key.size
    new = np.concatenate([[True], differs])
    place[order] = np.cumsum(new) - 1
    return order[new], place, int(new.sum())


def steps_over(shape: tuple[int, ...], offset: int = 0) -> Steps:
    """Where the entries of an array of this shape stand in its memory."""
    strides, n = [], 1
    for size in reversed(shape):
        strides.append(n)
        n *= size
    return Steps(offset, tuple(reversed(strides)))
