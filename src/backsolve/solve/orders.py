"""Orders in which the rows of a system are eliminated.

Each is a function from the graph to the rows' numbers (from 0; printed and given by users, from 1), found
before anything is multiplied. Enter another with `@order("name")`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .annealing import anneal
from .chains import bracketed, by_products, stretch_of
from .eliminate import SIMPLE, Graph
from .prices import Priced, cost, form
from .skeleton import Skeleton, bits

Order = Callable[[Graph], list[int]]
ORDERS: dict[str, Order] = {}


def order(name: str) -> Callable[[Order], Order]:
    """Enter an order of elimination."""

    def enter(f: Order) -> Order:
        ORDERS[name] = f
        return f

    return enter


def planned(graph: Graph, how: str | Sequence[int]) -> list[int]:
    """The rows' numbers from 0, by the name of an order or by the numbers from 1 that a user gives."""
    if not isinstance(how, str):
        return _given(how, len(graph.rows))
    if how not in ORDERS:
        names = ", ".join(f'"{name}"' for name in ORDERS)
        raise ValueError(f"order must be one of {names}, or the rows' numbers; got {how!r}")
    if how not in _SLOW:
        return ORDERS[how](graph)
    # A system of the same form is planned once, not at every point.
    key = how, graph.skeleton().key
    if key not in _plans:
        while len(_plans) >= _MANY_PLANS:
            _plans.pop(next(iter(_plans)), None)
        _plans[key] = ORDERS[how](graph)
    return _plans[key]


_SLOW = ("greedy", "chain", "search")
_MANY_PLANS = 64
_plans: dict[Any, list[int]] = {}


def _given(numbers: Sequence[int], n: int) -> list[int]:
    try:
        found = [int(np.asarray(k)[()].__index__()) for k in numbers]
    except (TypeError, AttributeError):
        raise ValueError(f"an order is a list of the rows' numbers, got {numbers!r}") from None
    repeated = sorted({k for k in found if found.count(k) > 1})
    missing = sorted(set(range(1, n + 1)) - set(found))
    unknown = sorted(set(found) - set(range(1, n + 1)))
    for what, which in (("repeats", repeated), ("misses", missing), ("has unknown", unknown)):
        if which:
            shown = ", ".join(map(str, which[:8])) + (", …" if len(which) > 8 else "")
            raise ValueError(
                f"an order names each of the {n} rows once, 1 … {n} as print(system) shows them; "
                f"this one {what} {shown}"
            )
    return [k - 1 for k in found]


@order("forward")
def forward(graph: Graph) -> list[int]:
    return list(range(len(graph.rows)))


@order("reverse")
def reverse(graph: Graph) -> list[int]:
    return list(reversed(range(len(graph.rows))))


@order("markowitz")
def markowitz(graph: Graph) -> list[int]:
    """Whatever takes fewest products now; of several the last row."""
    left = graph.skeleton()
    waiting = list(range(left.rows))
    found = []
    while waiting:
        best = min(reversed(waiting), key=left.pairs)
        waiting.remove(best)
        left.eliminate(best)
        found.append(best)
    return found


@order("greedy")
def greedy(graph: Graph) -> list[int]:
    """Whatever multiplies fewest numbers now, by what the operators themselves would do.

    Much is free (signs, slices); of that, what leaves fewest edges, since all that is left is multiplied later.
    """
    priced = Priced(graph)
    number = {row: k for k, row in enumerate(graph.rows)}
    prices = {k: priced.price(row) for row, k in number.items()}
    found = []
    while prices:
        best = min(reversed(prices), key=prices.__getitem__)
        near = priced.neighbours(graph.rows[best])
        priced.eliminate(graph.rows[best])
        del prices[best]
        found.append(best)
        for v in near:
            if v in number:
                prices[number[v]] = priced.price(v)
    return found


@order("chain")
def chain(graph: Graph) -> list[int]:
    """Stretches in which each row reads one and is read by one as products of matrices, in the bracketing that
    multiplies fewest numbers, by what the operators would do; what is no chain greedily, by sizes."""
    left = graph.skeleton()
    waiting = dict.fromkeys(range(left.rows))
    found: list[int] = []
    operators = _Stretches(graph)
    while waiting:
        stretch = next((s for v in waiting if (s := stretch_of(left, v))), None)
        if stretch is None:
            key = lambda v: (left.multiplications(v), left.growth(v))
            stretch = [min(reversed(waiting), key=key)]
        for v in operators.bracketed(left, stretch, found) or bracketed(left, stretch):
            left.eliminate(v)
            del waiting[v]
            found.append(v)
    return found


class _Stretches:
    """The operators of a graph, of which rows are taken out as they are planned."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._priced: Priced | None = None
        self._gone = 0

    def bracketed(self, left: Skeleton, stretch: list[int], gone: list[int]) -> list[int] | None:
        """By products of the operators as they are when rows are `gone`; None, if sizes tell as much."""
        if len(stretch) < 2 or len(stretch) > _LONG_STRETCH:
            return None
        ends = left.reads[stretch[0]], left.read_by[stretch[-1]]
        first, last = (next(bits(x)) for x in ends)
        vertices = self._graph.vertices
        path = [vertices[k] for k in (first, *stretch, last)]
        priced = self._priced = self._priced or Priced(self._graph)
        for k in gone[self._gone :]:
            priced.eliminate(self._graph.rows[k])
        self._gone = len(gone)
        factors = [priced.graph.reads[i][j] for j, i in pairwise(path)]
        if all(isinstance(a, SIMPLE) for a in factors):
            return None
        order = by_products(factors, priced.product, form)
        return None if order is None else [stretch[k - 1] for k in order]


_LONG_STRETCH = 60  # rows, above which brackets of operators take too long to compare


@order("search")
def search(
    graph: Graph,
    *,
    rule: str = "multiplications",
    steps: int = 10_000,
    seconds: float | None = None,
    seed: int = 0,
) -> list[int]:
    """The cheapest order that annealing finds, from the best of the others.

    By `rule` "multiplications" or "pairs" on the bare skeleton; at the end operators themselves are asked, so
    that by "multiplications" it is never worse than another order.
    """
    skeleton = graph.skeleton()
    others = [f(graph) for name, f in ORDERS.items() if name != "search"]
    start = min(others, key=lambda o: skeleton.cost(o, rule))
    found = anneal(skeleton, start, rule, steps=steps, seconds=seconds, seed=seed)
    if rule == "pairs":
        return found
    return min([found, *others], key=lambda o: cost(graph, o))
