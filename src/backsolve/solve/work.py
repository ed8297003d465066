"""What the blocks of a row take to be applied, ahead and back: by running their formulas on types alone.

A row's formulas are recorded once for each kind of row (its primitive and the shapes around it) and the
equations are counted; whatever values stand in a block, it takes the same. So the price of a solve is a sum
over rows that are known already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..ir import Equation, Type
from ..operators.nests import label_sizes, split_subscripts
from ..primitive import row_values
from ..row import Row
from ..trace import stage
from .fit import fit_ahead, fit_back


class Work(NamedTuple):
    calls: float = 0  # of primitives, each as many as of a product entry by entry
    handled: float = 0  # numbers that these read and write, counted in the same way
    numbers: int = 0  # written
    moved: int = 0  # of these, by what is not entry by entry: compiled code fuses all else
    multiplications: int = 0
    inner: int = 0  # of these, inside of contractions

    def plus(self, other: Work) -> Work:
        return Work._make([a + b for a, b in zip(self, other, strict=True)])

    def times(self, seeds: int) -> Work:
        """For so many right-hand sides in one batch: the calls stay."""
        return Work._make([self.calls, *[seeds * n for n in self[1:]]])


class Effort(NamedTuple):
    """Of a primitive that is called eagerly, beside a product entry by entry. Fitted to 240 Jacobians."""

    call: float = 1  # staging it and running it on a stack
    written: float = 1  # of each number
    read: float = 0


EFFORTS = {
    "add": Effort(0.6, 0.1),
    "broadcast_to": Effort(1.35, 0.05),
    "contract": Effort(2.1, 2.3),
    "convolve": Effort(1.5, 40),
    "cumsum": Effort(1.35, 2),
    "gather": Effort(1.65, 0, 1.1),
    "permute": Effort(1, 0.1),
    "reshape": Effort(0.9, 0),
    "scatter_add": Effort(1.9, 4, 6),
    "slice": Effort(0.9, 0.4),
    "sum": Effort(1.75, 65, 0.28),  # a row of a sum takes long to begin
    "unslice": Effort(0.9, 0.45),
    "where": Effort(1.5, 2),
}
FEW = 3  # so many right-hand sides are solved for one by one
MADE, ALONE = 0.1, 0.16  # what a block takes then, once, and a call for each of them


def calls_for(seeds: int) -> float:
    """Of each primitive, on a stack of so many right-hand sides."""
    return 1.0 if seeds > FEW else MADE + ALONE * seeds if seeds else 0.0


_USUAL = Effort()
_OUTER, _DIAGONAL = (
    Effort(1.7, 2.3),
    Effort(1.5, 0.9),
)  # contractions that sum nothing, or read one array


def added(additions: float, numbers: int) -> Work:
    """Of images of blocks that lead to the same row."""
    effort = EFFORTS["add"]
    return Work(additions * effort.call, numbers * effort.written, numbers)


def work_of(equations: Iterable[Equation]) -> Work:
    total = Work()
    for e in equations:
        size = sum(y.type.size for y in e.outputs)
        m = multiplications(e)
        moved = 0 if e.primitive.elementwise or e.primitive.name == "reshape" else size
        effort = _effort(e)
        read = sum(prod(np.shape(a)) for a in e.inputs) if effort.read else 0
        handled = effort.written * size + effort.read * read
        inner = m if e.primitive.name == "contract" else 0
        total = total.plus(Work(effort.call, handled, size, moved, m, inner))
    return total


def _effort(e: Equation) -> Effort:
    if e.primitive.name == "contract":
        inputs, output = split_subscripts(e.params["subscripts"])
        if len(inputs) == 1:
            return _DIAGONAL
        if set("".join(inputs)) == set(output):
            return _OUTER
    return EFFORTS.get(e.primitive.name, _USUAL)


def multiplications(e: Equation) -> int:
    """Of one equation, by what it is; a sign costs nothing."""
    if e.primitive.name == "multiply":
        is_sign = any(type(a) in (int, float) and abs(a) == 1 for a in e.inputs)
        return 0 if is_sign else e.outputs[0].type.size
    if e.primitive.name == "contract":
        shapes = [np.shape(a) for a in e.inputs]
        return prod(label_sizes(e.params["subscripts"], shapes, e.params["sizes"]).values())
    return 0


def row_work(row: Row) -> tuple[Work, Work]:
    """Of all blocks of a row, for one right-hand side: ahead, and back."""
    ahead = back = Work()
    for there, again in block_works(row):
        ahead, back = ahead.plus(there), back.plus(again)
    return ahead, back


def block_works(row: Row, record: bool = False) -> list[tuple[Work, Work]]:
    """The same of each block, in the order of the rows that it reads."""
    key = _kind(row)
    found = _known.get(key)
    if found is None:
        while len(_known) >= _MANY:
            _known.pop(next(iter(_known)), None)
        found = _known[key] = _recorded(row, record)
    return found


_MANY = 4096
_known: dict[Any, list[tuple[Work, Work]]] = {}
_TOLD = (str, int, bool)  # parameters that change what is done; where a slice begins does not


def _kind(row: Row) -> Any:
    params = row.params
    return (
        row.primitive.name,
        row.shape,
        row.dtype,
        tuple([p.shape if p.__class__ is Row else None for p in row.parents]),
        tuple([getattr(v, "shape", None) for v in row.saved]),
        tuple([v for v in params.values() if v.__class__ in _TOLD]) if params else None,
    )


def _recorded(row: Row, record: bool) -> list[tuple[Work, Work]]:
    saved = row_values(row) if record else row.saved
    target = Type(row.shape, row.dtype)
    found = []
    for i, parent in enumerate(row.parents):
        if parent.__class__ is not Row:
            continue
        source = Type(parent.shape, parent.dtype)
        with np.errstate(all="ignore"):
            block = row.primitive.block(row, i, saved)
            there = _counted(block.apply, partial(fit_ahead, row=row), source)
            again = _counted(block.pull, partial(fit_back, row=parent), target)
        found.append((there, again))
    return found


def _counted(apply: Callable[[Any], Any], fit: Callable[[Any], Any], of: Type) -> Work:
    program, _ = stage(lambda t: [fit(apply(t))], [of])
    return work_of(program.equations)
