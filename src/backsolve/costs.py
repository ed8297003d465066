"""`bs.explain_cost`: what each way to a Jacobian costs, and which one `method="auto"` takes (solve/auto.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from .api import linearize
from .hooks import hooks
from .results import check_numbers
from .solve.auto import Prices, choose, is_opaque, reason, sizes
from .solve.eliminate import Graph, why_not
from .solve.tariff import (
    CHEAP,
    Price,
    colour_price,
    elimination_bounds,
)
from .system import System
from .vary import ArgNums
from .working import Working

_SMALL = 40  # entries, up to which multiplications of solves are counted one by one
# Rows, above which the other orders of elimination take too long to plan: by entries, and by outlines.
_LONG, _VERY_LONG = 400, 2_000
_PLAIN = ("forward", "reverse")
_UNKNOWN = "what a checkpointed, compiled or hand-written call takes is not known"


@dataclass(frozen=True)
class Costs:
    """One Price for each way; `chosen` is the one that `jacobian` takes by itself."""

    prices: tuple[Price, ...]
    chosen: str
    why: str

    def cells(self) -> list[tuple[str, str, str, str, str]]:
        """The table that is printed, its head first."""
        lines = [("way", "multiplications", "bytes", "passes", "chosen")]
        for k, p in enumerate(self.prices):
            name = p.way if p.order is None else f"{p.way}, {p.order}"
            note = f"✓ {self.why}" if k == 0 else p.note
            times = f"≤ {p.multiplications:,}" if p.is_bound else _text(p.multiplications)
            counts = times, _text(p.bytes), _text(p.passes)
            lines.append((name, *counts, note))
        return lines

    def __str__(self) -> str:
        lines = self.cells()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            f"{way:<{widths[0]}}  {m:>{widths[1]}}  {b:>{widths[2]}}  {p:>{widths[3]}}  {c}".rstrip()
            for way, m, b, p, c in lines
        )

    __repr__ = __str__

    def _repr_html_(self) -> str | None:
        return hooks.notebook("html", self)


def _text(n: int | None) -> str:
    return "–" if n is None else f"{n:,}"


def explain_cost(f: Callable[..., Any], *args: Any, argnums: ArgNums | None = None) -> Costs:
    """What the Jacobian of `f` costs by each way, and which is chosen and why: that one first, then by price.

    Ways that do not apply stand last, with the reason. Multiplications of solves of large systems count every
    row for every seed; bytes are those that are written in all. After ≤ stand bounds: where listing the entries
    of blocks would take long, these follow from how many there are in all, in a row and in a column.

    >>> import numpy as np
    >>> explain_cost(lambda x: np.cumsum(np.sin(x)), np.ones(20))
    way                 multiplications   bytes  passes  chosen
    forward                         400   6,400      20  ✓ its blocks are no dearer ahead than back
    reverse                         400  12,800      20
    eliminate, forward                0   4,880       –
    eliminate, reverse                0   4,880       –
    colour                            –       –       –  52% of the entries can differ from zero
    scan                              –       –       –  no recurrence and no loop here
    """
    with Working("pricing"):
        system = linearize(f, argnums, merge=False)(*args)  # as jacobian sees it
        check_numbers("explain_cost", system._raw_outputs)
        return costs_of(system)


def costs_of(system: System) -> Costs:
    outputs = [y for y in system.outputs if y is not None]
    n_in, n_out = sizes(system.parameters, outputs)
    prices = Prices(system.rows, system.parameters, outputs)
    best = choose(
        system.rows,
        system.parameters,
        outputs,
        record=system.record,
        is_staged=False,
        system=lambda: system,
        prices=prices,
    )
    found = _all_prices(system, prices, n_in, n_out)
    if all((p.way, p.order) != (best.way, best.order) for p in found):
        found.append(best)
    found.sort(key=lambda p: ((p.way, p.order) != (best.way, best.order), p.seconds))
    return Costs(tuple(found), best.way, reason(best, n_in, n_out))


def _all_prices(system: System, prices: Prices, n_in: int, n_out: int) -> list[Price]:
    if is_opaque(system.rows):
        plain = (Price("reverse", passes=n_out), Price("forward", passes=n_in))
        return [replace(p, note=_UNKNOWN) for p in plain] + _refused(system)
    found = list(prices.plain)
    if n_in <= _SMALL and n_out <= _SMALL:
        found = [replace(p, multiplications=system.cost(p.way, "solves")) for p in found]
    scan = _scan(system, prices)
    if why_not(system):
        return [*found, *_refused(system)[:-1], scan]
    graph = prices.graph(system)
    orders = prices.eliminations(system, CHEAP if len(graph.rows) <= _LONG else _PLAIN)
    pattern = min(p.seconds for p in orders)
    colour = colour_price(graph, prices.plain, found=pattern)
    return [*found, *_or_bounds(graph, orders), colour, scan]


def _or_bounds(graph: Graph, orders: Sequence[Price]) -> list[Price]:
    """Where an order is not priced, what it takes at most."""
    priced = [p for p in orders if p.seconds < inf]
    if len(priced) == len(orders):
        return priced
    known = {p.order for p in priced}
    names = CHEAP if len(graph.rows) <= _VERY_LONG else _PLAIN
    rest = elimination_bounds(graph, [name for name in names if name not in known])
    plans = {p.plan for p in priced}
    return [*priced, *[p for p in rest if p.plan not in plans]]


def _refused(system: System) -> list[Price]:
    eliminated = Price("eliminate", note=why_not(system, "matrix") or _UNKNOWN)
    return [eliminated, Price("colour", note=why_not(system)), _scan(system)]


def _scan(system: System, prices: Prices | None = None) -> Price:
    """Rows of a recurrence solve themselves so, in every other way."""
    names = {row.primitive.name for row in system.rows}
    if prices is not None and prices.scan.seconds < inf:
        return prices.scan
    if names & {"recurrence", "block_recurrence"}:
        return Price("scan", note="inside of the ways above: a recurrence is one row")
    return Price("scan", note="no recurrence and no loop here")
