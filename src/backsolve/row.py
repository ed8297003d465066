"""Row: one row of `(I − L) dx = D dp`, recorded while a program runs.

A row knows its type, the primitive that made it, the earlier rows it reads (`parents`) and what its
blocks captured (`saved`) — and nothing else: values that no block asks for are free to go. An eager
tape is nothing but these rows, linked backwards; Python's reference counting is its memory manager.

Reading order: `Row`, then `Primitive.__call__` in primitive.py, which makes them, then
solve/reverse.py, which walks them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import FreedGraphError
from .ir import Shape

if TYPE_CHECKING:
    from .primitive import Primitive

next_index = itertools.count().__next__

NOTHING: tuple[Any, ...] = ()  # saved by a row whose blocks capture nothing
FINISHED: tuple[Any, ...] = (None, None)  # saved by a leaf whose differentiation is over
OVER = FINISHED  # of a row that rests on nothing else
FREED: tuple[Any, ...] = (None,)  # saved by a row whose captures were given back


class Row:
    __slots__ = (
        "__weakref__",
        "dtype",
        "index",
        "known_live",
        "owner",
        "params",
        "parents",
        "primitive",
        "saved",
        "shape",
    )

    known_live: Any  # once `is_over` has looked: a leaf under it that was not finished, or OVER

    def __init__(
        self,
        primitive: Primitive,
        parents: tuple[Any, ...],
        saved: tuple[Any, ...],
        params: dict[str, Any] | None,
        shape: Shape,
        dtype: np.dtype[Any],
        owner: Any,
    ):
        self.primitive = primitive
        self.parents = parents  # a Row, or (for y.forward()) a constant, or None, per input
        self.saved = saved  # raw values (output, *inputs); None where no block asks
        self.params = params
        self.shape = shape
        self.dtype = dtype
        # A weak reference to the Tensor, if the row hangs on a leaf that a user made: y.forward()
        # then refreshes the values that the user holds. None below grad, jvp and the like.
        self.owner = owner
        self.index = next_index()  # increases in the order of execution: a topological order

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def is_leaf(self) -> bool:
        return self.primitive.is_leaf

    def __repr__(self) -> str:
        return f"<Row {self.index}: {self.primitive.name} {self.dtype.name}{list(self.shape)}>"


class Replayed:
    """A constant input of a row that y.forward() must compute again: `floor(x)` in `x * floor(x)`.

    No derivative passes through it, so it is no parent, but its value rests on a leaf.
    """

    __slots__ = ("row",)

    def __init__(self, row: Row):
        self.row = row


def ancestors(outputs: Iterable[Row], oldest: int = -1) -> tuple[list[Row], bool]:
    """The rows that `outputs` rest on, no older than index `oldest`, in order of execution.

    Also tells whether older rows were met that are not over: then somebody outside differentiates too.
    """
    given = set(outputs)
    seen = {row for row in given if row.index >= oldest}
    stack = list(seen)
    older = any(not is_over(row) for row in given - seen)
    while stack:
        row = stack.pop()
        if row.saved is FREED:
            raise FreedGraphError(
                "the rows of this result were freed; call backward(retain_graph=True)"
            )
        for parent in row.parents:
            if parent.__class__ is Row and parent not in seen:
                if parent.index >= oldest:
                    seen.add(parent)
                    stack.append(parent)
                else:
                    older = older or not is_over(parent)
    return sorted(seen, key=_index), older


def is_over(row: Row) -> bool:
    """Whether it rests only on leaves whose differentiation is over: nobody can ask for its derivative.

    Every row that is looked at keeps what was found, so that a value carried from one differentiation to the
    next is not followed through all of them each time.
    """
    path = [(row, iter(row.parents))]
    while path:
        now, parents = path[-1]
        known = _live(now)
        if known is None:
            parent = next((p for p in parents if p.__class__ is Row and _live(p) is not OVER), None)
            if parent is None:
                now.known_live = OVER
            else:
                path.append((parent, iter(parent.parents)))
                continue
        elif known is not OVER:
            for above, _ in path:
                if above is not known:
                    above.known_live = known
            return False
        path.pop()
    return True


def _live(row: Row) -> Any:
    """A leaf that a row rests on and that is not finished; OVER if there is none; None if that is not known."""
    if not row.parents:
        return OVER if row.saved is FINISHED else row
    known = getattr(row, "known_live", None)
    return None if known is None or (known is not OVER and known.saved is FINISHED) else known


def descendants(rows: Iterable[Row], sources: Iterable[Row]) -> list[Row]:
    """Those of `rows` (in order of execution) that depend on one of `sources`."""
    reached = set(sources)
    kept = []
    for row in rows:
        if row in reached or any(p.__class__ is Row and p in reached for p in row.parents):
            reached.add(row)
            kept.append(row)
    return kept


def _index(row: Row) -> int:
    return row.index
