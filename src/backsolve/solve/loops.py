"""What a way takes as compiled code: loops, and the arrays that they read and write.

A way is recorded as it would be compiled, aside, and its equations are counted by what the compiler makes of
them: what goes entry by entry is fused into one loop with all that reads it so, a view costs nothing, and an
array is written where something else reads it. Constants are folded by then, and what no result needs is out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..hooks import hooks
from ..ir import Equation, Program, Var
from ..trace import Recorder, stage_call, stage_region
from .work import multiplications

_VIEWS = ("reshape", "slice", "broadcast_to")
_PLACED = ("concatenate", "unslice", "slice_update")  # parts that are copied into an array
_SLOW = 4  # as many as this takes an operation entry by entry that is not + − × or a choice
_QUICK = frozenset(
    ("add", "subtract", "multiply", "negative", "where", "maximum", "minimum", "absolute", "square")
)
_LANES = 5  # numbers of an axis, from which on a loop along it is one of vectors
_NEAR = 1 << 16  # numbers of an array, up to which it stays in the cache


class Loops(NamedTuple):
    """Counts of numbers, but for the first two."""

    started: float = 0  # loops
    products: float = 0  # contractions
    operations: float = 0  # entry by entry
    read: float = 0
    written: float = 0
    far: float = 0  # of these two, by loops over arrays that no near cache holds
    turned: float = 0  # by permutations of axes
    turned_far: float = 0
    gathered: float = 0
    scattered: float = 0
    summed: float = 0  # read by sums and the like
    inner: float = 0  # multiplications in contractions
    narrow: float = 0  # of these, where the last axis is shorter than a vector register
    others: float = 0  # read or written by anything else, in order

    @property
    def seconds(self) -> float:
        return sum(n * rate for n, rate in zip(self, _RATES, strict=True))


# Seconds for each. Ratios decide: a number that is turned takes some that are written, one that is scattered
# more; gathers are priced without vector instructions for them.
_RATES = Loops(
    started=5e-9,
    products=6e-8,
    operations=2e-11,
    read=4e-11,
    written=2e-10,
    far=5e-11,
    turned=4e-10,
    turned_far=1.2e-9,
    gathered=3e-10,
    scattered=1e-9,
    summed=1.4e-10,
    inner=3.6e-11,
    narrow=1.7e-10,
    others=9e-10,
)


def recorded_loops(way: Callable[[], Sequence[Any]], recorder: Recorder) -> Loops | None:
    """Of a way, with nothing added to what is being recorded; None if regions hide what it does.

    Or where somebody else writes down what is recorded (bs.source), and would take this for a part of it.
    """
    if hooks.stage is not stage_call:
        return None
    program = stage_region(way, [], recorder)
    if any(e.primitive.holds_regions for e in program.equations):
        return None
    return loops_of(program)


def loops_of(program: Program) -> Loops:
    equations = _needed(program)
    made = {e.outputs[0]: e for e in equations}
    alias: dict[Any, Any] = {}
    for e in equations:
        if e.primitive.name in _VIEWS:
            alias[e.outputs[0]] = alias.get(e.inputs[0], e.inputs[0])
    written = {alias.get(y, y) for y in program.outputs}
    for e in equations:
        if e.primitive.name in _VIEWS:
            if e.primitive.name == "slice":
                written.add(alias[e.outputs[0]])
            continue
        size = e.outputs[0].type.size
        for a in e.inputs:
            if type(a) is Var:
                a = alias.get(a, a)
                if not e.primitive.elementwise or a.type.size != size:
                    written.add(a)
    total = Loops()
    for e in equations:
        if e.primitive.name not in _VIEWS:
            total = _sum(total, _loops(e, alias, made, written))
    return total


def _loops(e: Equation, alias: Any, made: Any, written: Any) -> Loops:
    name, y = e.primitive.name, e.outputs[0]
    size = sum(v.type.size for v in e.outputs)
    read = [a.type.size for a in e.inputs if type(a) is Var]
    if e.primitive.elementwise:
        stored = size if y in written else 0
        sources = {alias.get(a, a) for a in e.inputs if type(a) is Var}
        loaded = size * sum(
            (a not in made or a in written) and a.type.size * 2 > size for a in sources
        )
        far = loaded + stored if size > _NEAR else 0
        return Loops(
            started=bool(stored),
            operations=size * (1 if name in _QUICK else _SLOW),
            read=loaded,
            written=stored,
            far=far,
        )
    far = size if size > _NEAR else 0
    if name == "permute":
        return Loops(started=1, turned=size - far, turned_far=far)
    if name in _PLACED:
        return Loops(started=len(read) + (name == "unslice"), written=size, far=far)
    if name == "gather":
        return Loops(started=1, gathered=size, far=far)
    if name == "scatter_add":
        return Loops(started=2, scattered=read[0], written=size, far=far)
    if name == "contract":
        inner = multiplications(e)
        is_narrow = y.type.shape[-1:] > (1,) and y.type.shape[-1] < _LANES
        return Loops(
            products=1, inner=inner, narrow=inner if is_narrow else 0, written=size, far=far
        )
    if name in ("sum", "max", "min", "prod"):
        return Loops(started=1, summed=sum(read))
    return Loops(started=1, others=max(size, *read, 0))


def _sum(a: Loops, b: Loops) -> Loops:
    return Loops(*[x + y for x, y in zip(a, b, strict=True)])


def _needed(program: Program) -> list[Equation]:
    needed = {a for a in program.outputs if type(a) is Var}
    kept = []
    for e in reversed(program.equations):
        if any(v in needed for v in e.outputs):
            kept.append(e)
            needed.update(a for a in e.inputs if type(a) is Var)
    return kept[::-1]
