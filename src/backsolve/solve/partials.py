"""Partials: the derivatives of one row along n directions, in as few numbers as its structure allows.

Dense, they are a stack of n arrays of the row's shape. As long as every entry of a row depends on few of the
inputs (all rows before the first one that mixes entries), they are a stack of m ≪ n arrays beside the numbers
of the inputs, `columns`, that entry by entry they belong to: a diagonal is m = 1. Columns are known when a
program is planned; only values are traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..at_once import run_at_once
from ..batch import evaluate_batched
from ..ir import Type
from ..primitive import P
from ..trace import stage

Columns = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Partials:
    count: int  # of the directions
    values: Any  # (m, *shape)
    columns: Columns | None = None  # (m, *shape), each different along m; None: all, in order

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape[1:])

    def dense(self) -> Any:
        """(count, *shape)."""
        if self.columns is None:
            return self.values
        size = int(np.prod(self.shape))
        places = self.columns.reshape(len(self.columns), size) * size + np.arange(size)
        flat = P.scatter_add(
            np.reshape(self.values, (-1,)), places.reshape(-1), shape=(self.count * size,)
        )
        return np.reshape(flat, (self.count, *self.shape))

    def total(self) -> Any:
        """Summed over the directions."""
        return self.values[0] if self.values.shape[0] == 1 else np.sum(self.values, axis=0)

    def weighed(self, factor: Any) -> Partials:
        """Times an array of the row's shape, or a number."""
        return Partials(self.count, self.values * factor, self.columns)

    def plus(self, other: Partials) -> Partials:
        if _same(self.columns, other.columns):
            return Partials(self.count, self.values + other.values, self.columns)
        return Partials(self.count, self.dense() + other.dense())

    def times(self, other: Partials) -> Partials:
        """Entry by entry, direction by direction."""
        a, b = self, other
        if _same(a.columns, b.columns):
            return Partials(a.count, a.values * b.values, a.columns)
        if a.columns is None:
            a, b = b, a
        if a.columns is not None and b.columns is None:  # of a dense one, only what meets the other
            return Partials(a.count, a.values * _read(b.values, a.columns), a.columns)
        return Partials(a.count, a.dense() * b.dense())

    def spread(self, shape: tuple[int, ...]) -> Partials:
        """Broadcast to a larger shape."""
        if self.shape == shape:
            return self
        m = self.values.shape[0]
        padded = (m, *[1] * (len(shape) - len(self.shape)), *self.shape)
        columns = self.columns
        if columns is not None:
            columns = np.broadcast_to(columns.reshape(padded), (m, *shape))
        values = np.broadcast_to(np.reshape(self.values, padded), (m, *shape))
        return Partials(self.count, values, columns)

    def mapped(self, f: Callable[[Any], Any], columns: Columns | None) -> Partials:
        """f, which is linear, applied to each of the arrays at once."""
        image = over_stack(f, [self.values])
        return Partials(self.count, image, columns)

    def summed(self, weights: Any) -> Partials:
        """Σ over all entries, with weights: one number a direction."""
        flat = np.reshape(self.values * weights, (-1,))
        if self.columns is None:
            return Partials(self.count, np.sum(np.reshape(flat, (self.count, -1)), axis=1))
        return Partials(
            self.count, P.scatter_add(flat, self.columns.reshape(-1), shape=(self.count,))
        )


def seeds(shapes: Sequence[tuple[int, ...]], dtypes: Sequence[Any]) -> list[Partials]:
    """The partials of the inputs themselves: each entry along its own direction."""
    sizes = [int(np.prod(s)) for s in shapes]
    starts = np.cumsum([0, *sizes]).tolist()
    return [
        Partials(
            starts[-1],
            np.ones((1, *shape), dtype),
            np.arange(start, start + size).reshape(1, *shape),
        )
        for shape, dtype, size, start in zip(shapes, dtypes, sizes, starts, strict=False)
    ]


def over_stack(f: Callable[..., Any], stacks: Sequence[Any]) -> Any:
    """f on each of the arrays of one or several stacks, staged once and run batched."""
    return all_over_stack(f, stacks)[0]


def all_over_stack(f: Callable[..., Any], stacks: Sequence[Any]) -> list[Any]:
    """The same of an f of several results."""
    count = stacks[0].shape[0]
    found = run_at_once(f, stacks, count)
    if found is None:
        types = [Type(tuple(s.shape[1:]), s.dtype) for s in stacks]
        program, _ = stage(f, types, lasting=True)
        found = evaluate_batched(program, stacks, [True] * len(stacks), count)
    return found


def _same(a: Columns | None, b: Columns | None) -> bool:
    if a is None or b is None:
        return a is b
    return a is b or (a.shape == b.shape and np.array_equal(a, b))


def _read(dense: Any, columns: Columns) -> Any:
    """dense[columns[j, e], e] for every entry e."""
    size = int(np.prod(columns.shape[1:]))
    places = columns.reshape(columns.shape[0], size) * size + np.arange(size)
    return P.gather(np.reshape(dense, (-1,)), places.reshape(columns.shape))
