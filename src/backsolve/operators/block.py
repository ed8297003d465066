"""Block: a matrix whose entries are operators; triangular ones are solved by substitution.

    (I − L) dx = D dp

is a Block equation. Entries may be given as numbers, matrices or operators; 0 and None are zero.
Vectors that a Block takes and gives are tuples, one entry per block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ShapeError, StructureError
from .base import Between, Cost, Operator, as_operator
from .identity import Identity
from .scale import Scale
from .zero import Zero


def _is_zero(a: Operator) -> bool:
    return isinstance(a, Zero) or (isinstance(a, Scale) and a.is_exactly(0))


class Block(Between):
    """Rows of operators: `Block([[A, 0], [B, C]])`.

    >>> L = Block([[0, 0], [3.0, 0]])
    >>> from backsolve.operators import I
    >>> (I - L).solve((1.0, 1.0))
    (1.0, 4.0)
    """

    __slots__ = ("entries", "height", "width")

    entries: Mapping[tuple[int, int], Operator]

    def __init__(
        self,
        rows: Any,
        shape: tuple[int, int] | None = None,
        types: tuple[tuple[Any, ...], tuple[Any, ...]] | None = None,  # of what goes in, comes out
    ):
        if isinstance(rows, Mapping):
            if shape is None:
                raise ShapeError("a Block from a mapping needs shape=(rows, columns)")
            self.height, self.width = shape
        else:
            if callable(rows):
                raise StructureError(
                    f"a Block is given by its rows, got the function {rows!r:.60}: "
                    "bs.linear_solve(A, b) solves with a function v ↦ A v"
                )
            rows = [list(row) for row in rows]
            widths = {len(row) for row in rows}
            if len(widths) != 1:
                raise ShapeError(
                    f"the rows of a Block must have equal length, got {sorted(widths)}"
                )
            self.height, self.width = len(rows), widths.pop()
            rows = {(i, j): a for i, row in enumerate(rows) for j, a in enumerate(row)}
        given = {k: as_operator(a) for k, a in rows.items() if a is not None}
        self.entries = {k: a for k, a in given.items() if not _is_zero(a)}
        sources: list[Any] = list(types[0]) if types else [None] * self.width
        targets: list[Any] = list(types[1]) if types else [None] * self.height
        for (i, j), a in given.items():
            sources[j], targets[i] = sources[j] or a.in_type, targets[i] or a.out_type
        self._in, self._out = tuple(sources), tuple(targets)

    def __getitem__(self, place: tuple[int, int]) -> Operator:
        return self.entries.get(place, Zero())

    def apply(self, t: Any) -> Any:
        if len(t) != self.width:
            raise ShapeError(
                f"a Block of {self.width} columns takes {self.width} parts, got {len(t)}"
            )
        out: list[Any] = [None] * self.height
        for (i, j), a in self.entries.items():
            if t[j] is not None:
                image = a.apply(t[j])
                out[i] = image if out[i] is None else _plus(out[i], image)
        return tuple(
            x if x is not None else np.zeros(t.shape, t.dtype) if t is not None else 0.0
            for x, t in zip(out, self.out_type, strict=True)
        )

    @property
    def T(self) -> Block:
        entries = {(j, i): a.T for (i, j), a in self.entries.items()}
        return Block(entries, (self.width, self.height), (self.out_type, self.in_type))

    def __call__(self, t: Any) -> Any:
        return self.apply(t)

    # ---- algebra

    def plus(self, other: Operator) -> Block:
        """The sum with another Block of its size, or with a multiple of I."""
        entries: dict[tuple[int, int], Operator] = dict(self.entries)
        if isinstance(other, Block):
            if (other.height, other.width) != (self.height, self.width):
                raise ShapeError(f"cannot add {self!r} and {other!r}")
            more: Mapping[tuple[int, int], Operator] = other.entries
        elif isinstance(other, Identity | Scale):  # c I on the block diagonal
            one = Identity() if isinstance(other, Identity) else Scale(other.factor)
            more = {(k, k): one for k in range(self.height)}
        else:
            raise ShapeError(f"cannot add {other!r} to a Block; wrap it in one")
        for place, a in more.items():
            entries[place] = entries[place] + a if place in entries else a
        return Block(entries, (self.height, self.width), (self.in_type, self.out_type))

    def scaled(self, factor: Any) -> Block:
        """Every entry times a number."""
        entries = {k: Scale(factor, a.out_type) @ a for k, a in self.entries.items()}
        return Block(entries, (self.height, self.width), (self.in_type, self.out_type))

    def times(self, other: Block) -> Block:
        """The product with another Block, entry by entry."""
        if self.width != other.height:
            raise ShapeError(f"cannot multiply {self!r} and {other!r}")
        entries: dict[tuple[int, int], Operator] = {}
        for (i, k), a in self.entries.items():
            for (m, j), b in other.entries.items():
                if k == m:
                    ab = a @ b
                    entries[i, j] = entries[i, j] + ab if (i, j) in entries else ab
        return Block(entries, (self.height, other.width), (other.in_type, self.out_type))

    # ---- solving

    @property
    def is_lower(self) -> bool:
        """Whether nothing stands above the diagonal."""
        return all(j <= i for i, j in self.entries)

    @property
    def is_upper(self) -> bool:
        """Whether nothing stands below the diagonal."""
        return all(j >= i for i, j in self.entries)

    def solve(
        self, rhs: Sequence[Any], entry: Callable[[Operator, Any], Any] | None = None
    ) -> tuple[Any, ...]:
        """By substitution: each row after those that it reads, from the top if lower triangular.

        `entry` solves with what stands on the diagonal; by default the structure of that says how.
        """
        if self.height != self.width or len(rhs) != self.height:
            raise ShapeError(f"{self!r} cannot be solved for {len(rhs)} parts: it must be square")
        order = self.order()
        if order is None:
            raise ShapeError(
                f"{self!r} is cyclic: its rows read each other, so that substitution cannot begin. Solve it by "
                "iteration, bs.backslash(A, b, method='gmres'), or as a matrix, method='direct'"
            )
        rows: list[list[tuple[int, Operator]]] = [[] for _ in range(self.height)]
        for (i, j), a in self.entries.items():
            if i != j:
                rows[i].append((j, a))
        x: list[Any] = list(rhs)
        for i in order:
            for j, a in rows[i]:
                x[i] = _minus(x[i], a.apply(x[j]))
            x[i] = (entry or _solve_entry)(self[i, i], x[i])
        return tuple(x)

    def order(self) -> list[int] | None:
        """The rows in an order in which each reads, off the diagonal, earlier ones; None if there is none."""
        if self.is_lower or self.is_upper:
            return list(range(self.height)) if self.is_lower else list(range(self.height))[::-1]
        reads = {i: {j for k, j in self.entries if k == i != j} for i in range(self.height)}
        order: list[int] = []
        while reads:
            ready = [i for i, needed in reads.items() if not needed & reads.keys()]
            if not ready:
                return None
            order += ready
            for i in ready:
                del reads[i]
        return order

    @property
    def structure(self) -> frozenset[str]:
        return frozenset(
            name for name, holds in (("lower", self.is_lower), ("upper", self.is_upper)) if holds
        )

    @property
    def cost(self) -> Cost:
        return sum((a.cost for a in self.entries.values()), Cost())

    def dense(self) -> Any:
        """Entries side by side; every entry must know its type (numbers count as 1 × 1)."""
        heights = [_count(t) for t in self.out_type]
        widths = [_count(t) for t in self.in_type]
        entries = {k: _dense_entry(a, heights[k[0]]) for k, a in self.entries.items()}
        return np.block(
            [
                [entries.get((i, j), np.zeros((heights[i], widths[j]))) for j in range(self.width)]
                for i in range(self.height)
            ]
        )

    def __repr__(self) -> str:
        if self.height * self.width > 36:
            return f"Block({self.height} × {self.width}, {len(self.entries)} entries)"
        cells = [
            ["0" if isinstance(self[i, j], Zero) else repr(self[i, j]) for j in range(self.width)]
            for i in range(self.height)
        ]
        widths = [max(len(row[j]) for row in cells) for j in range(self.width)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
        return "Block[" + "\n      ".join(line.rstrip() for line in lines) + "]"


def _plus(a: Any, b: Any) -> Any:
    """Of parts that may be tuples: what an entry that is a Block takes and gives."""
    if isinstance(a, tuple):
        return tuple(_plus(x, y) for x, y in zip(a, b, strict=True))
    return a + b


def _minus(a: Any, b: Any) -> Any:
    if isinstance(a, tuple):
        return tuple(_minus(x, y) for x, y in zip(a, b, strict=True))
    return a - b


def _count(t: Any) -> int:
    """The numbers of a part, which may have parts; of unknown type: one."""
    if isinstance(t, tuple):
        return sum(_count(x) for x in t)
    return 1 if t is None else int(t.size)


def _dense_entry(a: Operator, size: int) -> Any:
    if a.in_type is not None or isinstance(a, Block):
        return a.dense()
    if isinstance(a, Identity):
        return np.eye(size)
    assert isinstance(a, Scale)
    return np.eye(size) * a.factor


def _solve_entry(a: Operator, b: Any) -> Any:
    from .inverse import Inverse

    return b if isinstance(a, Identity) else Inverse(a).apply(b)
