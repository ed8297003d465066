"""`bs.explain_cost`: what each way to a Jacobian costs, and which one `method="auto"` takes (solve/auto.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .api import linearize
from .errors import UnsupportedError
from .solve.auto import Price, choice, is_opaque, plain_is_forward, prices, reason, sizes
from .system import System
from .vary import ArgNums

_SMALL = 40  # entries, up to which multiplications are counted one by one


@dataclass(frozen=True)
class Costs:
    """One Price for each way; `chosen` is the one that `jacobian` takes by itself."""

    prices: tuple[Price, ...]
    chosen: str
    why: str

    def __str__(self) -> str:
        head = ("way", "multiplications", "bytes", "passes", "chosen")
        lines = [head]
        for p in self.prices:
            passes = "–" if p.passes is None else f"{p.passes:,}"
            mark = f"✓ {self.why}" if p.way == self.chosen else ""
            lines.append((p.way, f"{p.multiplications:,}", f"{p.bytes:,}", passes, mark))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            f"{way:<{widths[0]}}  {m:>{widths[1]}}  {b:>{widths[2]}}  {p:>{widths[3]}}  {c}".rstrip()
            for way, m, b, p, c in lines
        )

    __repr__ = __str__


def explain_cost(f: Callable[..., Any], *args: Any, argnums: ArgNums | None = None) -> Costs:
    """What the Jacobian of `f` costs by each way, the cheapest first, and which is chosen and why.

    Multiplications of large systems are estimates from sizes; bytes are those that are written in all.

    >>> import numpy as np
    >>> explain_cost(lambda x: np.log(x[0]) + x[0] * x[1] - np.sin(x[1]), np.array([2.0, 5.0]))
    way        multiplications  bytes  passes  chosen
    reverse                  4     56       1  ✓ one output: back substitution is optimal
    forward                  4    112       2
    eliminate                0    176       –
    """
    system = linearize(f, argnums)(*args)
    if is_opaque(system):
        raise UnsupportedError(
            "the cost of a checkpointed, compiled or hand-written call inside a system is not known"
        )
    n_in, n_out = sizes(system)
    best = choice(system)
    way = (
        best.way if best is not None else "forward" if plain_is_forward(n_in, n_out) else "reverse"
    )
    found = prices(system)
    if n_in <= _SMALL and n_out <= _SMALL:
        found = [replace(p, multiplications=_counted(system, p)) for p in found]
    found.sort(key=lambda p: (p.way != way, p.seconds))
    return Costs(tuple(found), way, reason(way, n_in, n_out))


def _counted(system: System, price: Price) -> int:
    return system.cost(price.way if price.order is None else price.order, _rule(price))


def _rule(price: Price) -> str:
    return "solves" if price.order is None else "operators"
