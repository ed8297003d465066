"""What the first of two passes keeps for the second: the fewest bytes that the rest follows from for little.

What goes entry by entry, moves entries or adds them up is computed again: fused with what reads it, that costs
less than to write it down. Products, sorts, loops and solutions are kept, or what follows from them where that
is smaller: a minimal cut. A stack cannot leave the program that makes it, so the loop around it runs again.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Sequence
from math import inf
from typing import Any

from ..control.linear import LIGHT
from ..ir import Equation, Var

_AGAIN = LIGHT | {"sum", "prod", "max", "min", "any", "all", "concatenate", "unslice"}
_START = "what is not made again"


def least(
    crossing: Sequence[Var], first: Sequence[Equation], free: set[Var]
) -> tuple[list[Var], list[Equation]]:
    """What to keep so that `crossing` can be had again, and the equations of `first` that then make it.

    `free` values are there in both passes.
    """
    makers = {v: e for e in first for v in e.outputs}
    wanted = [v for v in crossing if v not in free]
    reached = _ancestors(wanted, makers, free)
    kept = _cut(wanted, reached)
    return kept, _between(wanted, kept, first, free)


def _ancestors(
    wanted: Sequence[Var], makers: dict[Var, Equation], free: set[Var]
) -> dict[Var, list[Var] | None]:
    """All that computing again could read, with what each is made from; None if it is not to be made again."""
    found: dict[Var, list[Var] | None] = {}
    rest = list(wanted)
    while rest:
        v = rest.pop()
        if v in found:
            continue
        e = makers.get(v)
        if e is None or not _is_light(e):
            found[v] = None
            continue
        read = [a for a in e.inputs if type(a) is Var and a not in free]
        found[v] = read
        rest.extend(read)
    return found


def _is_light(e: Equation) -> bool:
    if any(v.type.is_stack for v in e.outputs):
        return True
    name = e.primitive.name
    return not e.primitive.has_effect and (e.primitive.elementwise or name in _AGAIN)


def _cut(wanted: Sequence[Var], reached: dict[Var, list[Var] | None]) -> list[Var]:
    """The values of fewest bytes, the latest of them, that part the `wanted` from what is not to be made again.

    A flow enters a value at (v, 0), with its bytes for a capacity, and leaves it at (v, 1).
    """
    room: defaultdict[Any, dict[Any, float]] = defaultdict(dict)

    def connect(a: Any, b: Any, capacity: float) -> None:
        room[a][b] = capacity
        room[b].setdefault(a, 0)

    for v, read in reached.items():
        connect((v, 0), (v, 1), inf if v.type.is_stack else v.type.nbytes)
        if read is None:
            connect(_START, (v, 0), inf)
        for a in read or ():
            connect((a, 1), (v, 0), inf)
    behind: set[Any] = set()  # what no more can flow to
    for v in wanted:
        while path := _path((v, 1), room, behind):
            flow = min([room[a][b] for a, b in path])
            for a, b in path:
                room[a][b] -= flow
                room[b][a] += flow
    return [v for v in reached if (v, 1) in behind and (v, 0) not in behind]


def _path(end: Any, room: dict[Any, dict[Any, float]], behind: set[Any]) -> list[tuple[Any, Any]]:
    """The steps of a shortest way on which more can flow. If there is none, what it could lead over is behind.

    A way that is found later cannot enter what is behind, so that is not looked at again.
    """
    found = {end: end}
    rest = deque([] if end in behind else [end])
    while rest:
        b = rest.popleft()
        for a in room[b]:
            if room[a][b] <= 0 or a in found or a in behind:
                continue
            found[a] = b
            if a == _START:
                way = [a]
                while way[-1] != end:
                    way.append(found[way[-1]])
                return list(itertools.pairwise(way))
            rest.append(a)
    behind.update(found)
    return []


def _between(
    wanted: Sequence[Var], kept: Sequence[Var], first: Sequence[Equation], free: set[Var]
) -> list[Equation]:
    """The equations that make what is `wanted` of what is kept and free."""
    there = free.union(kept)
    needed = {v for v in wanted if v not in there}
    found = []
    for e in reversed(first):
        if not needed.isdisjoint(e.outputs):
            found.append(e)
            needed.update([a for a in e.inputs if type(a) is Var and a not in there])
    return found[::-1]
