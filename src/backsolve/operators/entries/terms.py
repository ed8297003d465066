"""Term: entries of a matrix that stand in even steps, as a loop nest.

    for i in counts:   M[rows₀ + rows·i, cols₀ + cols·i] += values[i]

The places are affine in the counters, so that a stencil of a million points is a few numbers; `values` repeats
along an axis where it has length 1 (then M has Kronecker's structure). Entries that stand nowhere regular are
`Listed`: two index arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ...primitive import P
from .limit import about_to_list

Index = npt.NDArray[np.intp]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """offset + strides · i."""

    offset: int
    strides: Shape

    def listed(self, counts: Shape) -> Index:
        if not counts:
            return np.array([self.offset], np.intp)
        if len(counts) == 1 and self.strides[0]:
            step = self.strides[0]
            return np.arange(self.offset, self.offset + step * counts[0], step, dtype=np.intp)
        at = np.full((1,) * len(counts), self.offset, np.intp)
        for k, (n, s) in enumerate(zip(counts, self.strides, strict=True)):
            shape = [1] * len(counts)
            shape[k] = n
            at = at + (s * np.arange(n)).reshape(shape)
        return np.broadcast_to(at, counts).reshape(-1)


@dataclass(frozen=True, slots=True)
class Term:
    counts: Shape
    rows: Steps
    cols: Steps
    values: Any  # a number, or an array of as many axes, of length 1 where it repeats

    @property
    def size(self) -> int:
        return prod(self.counts)

    @property
    def T(self) -> Term:
        return replace(self, rows=self.cols, cols=self.rows)

    @property
    def place(self) -> Any:
        """What two terms must have in common to be added value by value."""
        rows, cols = self.rows, self.cols
        return self.counts, rows.offset, rows.strides, cols.offset, cols.strides

    def strides_in(self, width: int) -> Shape:
        """The steps through the memory of the matrix, if it has so many columns."""
        both = zip(self.rows.strides, self.cols.strides, strict=True)
        return tuple([r * width + c for r, c in both])

    def is_distinct(self, width: int) -> bool:
        """Whether the strides show that no place comes twice: each one reaches beyond the smaller ones."""
        return are_apart(list(zip(self.strides_in(width), self.counts, strict=True)))

    @property
    def flat(self) -> Any:
        """The values in order, or a number that stands for all."""
        return (
            shaped(spread(self.values, self.counts), (self.size,))
            if shape_of(self.values)
            else self.values
        )

    def listed(self) -> Listed:
        about_to_list(self.size)
        return Listed(self.rows.listed(self.counts), self.cols.listed(self.counts), self.flat)


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """values[k] at (rows[k], cols[k])."""

    rows: Index
    cols: Index
    values: Any  # a number, or an array of one axis

    @property
    def size(self) -> int:
        return int(self.rows.size)

    @property
    def T(self) -> Listed:
        return Listed(self.cols, self.rows, self.values)

    @property
    def place(self) -> Any:
        return self.rows.tobytes(), self.cols.tobytes()

    @property
    def flat(self) -> Any:
        return self.values

    def listed(self) -> Listed:
        return self


Part = Term | Listed


def are_apart(walks: list[tuple[int, int]]) -> bool:
    """Whether (step, count) show that no place comes twice: each step reaches beyond the smaller ones."""
    reach = 0
    for s, n in sorted((abs(s), n) for s, n in walks):
        if n > 1 and s <= reach:
            return False
        reach += s * (n - 1)
    return True


def compact(counts: Shape, rows: Steps, cols: Steps, values: Any) -> Term:
    """A term without axes of length 1, and with axes as one where they follow each other evenly."""
    if len(counts) == 1 != counts[0]:
        return Term(counts, rows, cols, values)
    keep = [k for k, n in enumerate(counts) if n != 1]
    lengths = shape_of(values)
    if lengths:
        lengths = tuple([lengths[k] for k in keep])
        values = shaped(values, lengths)
    counts = tuple([counts[k] for k in keep])
    r, c = ([s.strides[k] for k in keep] for s in (rows, cols))
    groups: list[list[int]] = []
    for k in range(len(counts)):
        if groups:
            j = groups[-1][-1]
            even = r[j] == r[k] * counts[k] and c[j] == c[k] * counts[k]
            if even and (not lengths or (lengths[j] == 1) == (lengths[k] == 1)):
                groups[-1].append(k)
                continue
        groups.append([k])
    if lengths and len(groups) < len(counts):
        values = np.reshape(values, tuple([prod(lengths[k] for k in g) for g in groups]))
    return Term(
        tuple([prod(counts[k] for k in g) for g in groups]),
        Steps(rows.offset, tuple([r[g[-1]] for g in groups])),
        Steps(cols.offset, tuple([c[g[-1]] for g in groups])),
        values,
    )


def shape_of(values: Any) -> Shape:
    """np.shape, without asking a Tensor what this function means for it."""
    return getattr(values, "shape", ())


def shaped(values: Any, shape: Shape) -> Any:
    """np.reshape, of which nothing is recorded where it changes nothing."""
    return values if shape_of(values) == shape else np.reshape(values, shape)


def spread(values: Any, shape: Shape) -> Any:
    """np.broadcast_to, likewise."""
    return values if shape_of(values) == shape else np.broadcast_to(values, shape)


def take(values: Any, index: Index) -> Any:
    """values[index] of a flat array; a number stands for all."""
    if not shape_of(values):
        return values
    if index.size == values.shape[0] and np.array_equal(index, np.arange(index.size)):
        return values
    return values[index] if type(values) is np.ndarray else P.gather(values, index)


def scaled(x: Any, y: Any) -> Any:
    """x · y, where a bare 1 costs nothing."""
    if type(x) is float and x == 1.0:
        return y
    if type(y) is float and y == 1.0:
        return x
    return x * y


def is_known(values: Any) -> bool:
    """Whether values are numbers now, and not traced."""
    return isinstance(values, float | int | complex | np.generic | np.ndarray)
