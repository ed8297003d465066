"""A pull as a row of its own, whose derivatives are solves with tangents beside the values.

Let y = f(x), and (x, ẋ) ↦ (y, ẏ) with ẏ = J ẋ the same with tangents. All that a derivative of x̄ = Jᵀ c
asks for is a solve of the latter:

    varied along (dx, dc)     the adjoint of x for ẋ = dx and the adjoints (dc, c) of (y, ẏ)
    its adjoint along m       the adjoint of x for ẋ = m and (0, c); and, toward c, ẏ

so whatever keeps the pairs to a budget keeps the second derivative to it, and so on for every order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..joint import record_joint
from ..operators import Custom
from ..primitive import P, wrap
from ..row import Row, next_index
from ..tensor import Staged, leaf_row
from .reversal import raw, row_of
from .reverse import back_substitute

# (inputs, tangents of the inputs and of what is closed over) -> (outputs, their tangents)
Pairs = Callable[[list[Any], Sequence[Any]], tuple[Sequence[Any], Sequence[Any]]]


def reversed_row(
    name: str,
    values: Sequence[Any],
    free: Sequence[Row],
    cts: Sequence[Any],
    found: Sequence[Any],
    pairs: Pairs,
) -> tuple[Any, ...]:
    """The adjoints `found` (raw) of the inputs and of what is closed over, as what one joint row makes of both
    the inputs `values` and the adjoints `cts` of the outputs."""
    if not free and all(row_of(x) is None for x in [*values, *cts]):
        return tuple([None if g is None else wrap(g, None) for g in found])
    made = Reversal(len(values), free, cts, found, pairs)
    results = record_joint(
        name,
        made.operator_of,
        [*[raw(v) for v in values], *[None] * len(free), *[raw(cts[k]) for k in made.entering]],
        [*[row_of(v) for v in values], *free, *[row_of(cts[k]) for k in made.entering]],
        [found[k] for k in made.present],
    )
    return tuple(spread(results, made.present, len(found)))


class Reversal:
    """The derivative of a pull, at any values of its inputs and of the adjoints that entered."""

    def __init__(
        self,
        count: int,
        free: Sequence[Row],
        cts: Sequence[Any],
        found: Sequence[Any],
        pairs: Pairs,
    ):
        self.count, self.free, self.outputs, self.pairs = count, free, len(cts), pairs
        self.present = [k for k, g in enumerate(found) if g is not None]
        self.entering = [k for k, c in enumerate(cts) if c is not None]

    def operator_of(self, inner: Sequence[Any], record: bool) -> Custom:
        n = self.count + len(self.free)
        adjoints = spread(inner[n:], self.entering, self.outputs)

        def solved(tangents: Sequence[Any], of_outputs: Sequence[Any]) -> tuple[Any, Any]:
            """Adjoints toward all that enters, of the tangents by `adjoints`; and the tangents."""
            begin = next_index()
            fresh = [own_row(v) for v in inner[: self.count]]
            ys, dys = self.pairs(fresh, tangents)
            outs = [*zip(ys, of_outputs, strict=True), *zip(dys, adjoints, strict=True)]
            seeds = [
                (row, c)
                for row, c in [(row_of(y), c) for y, c in outs]
                if row is not None and c is not None
            ]
            sources: list[Any] = [*[row_of(x) for x in fresh], *self.free]
            is_staged = any(isinstance(x, Staged) for x in [*tangents, *of_outputs, *adjoints])
            back = back_substitute(seeds, sources, oldest=begin, record=record or is_staged)
            return (back, dys) if record else ([*map(bare, back)], [*map(bare, dys)])

        def push(ts: Sequence[Any]) -> tuple[Any, ...]:
            back, _ = solved(ts[:n], spread(ts[n:], self.entering, self.outputs))
            return tuple(back[k] for k in self.present)

        def pull(ms: Sequence[Any]) -> tuple[Any, ...]:
            back, images = solved(spread(ms, self.present, n), [None] * self.outputs)
            return (*back, *[images[k] for k in self.entering])

        return Custom(push, pull, name="Reversed")


def own_row(x: Any) -> Any:
    return P.alias(x) if row_of(x) is not None else wrap(raw(x), leaf_row(raw(x)))


def bare(x: Any) -> Any:
    return wrap(x._v, None) if isinstance(x, Staged) else raw(x)


def spread(items: Sequence[Any], keys: Sequence[int], size: int) -> list[Any]:
    found = dict(zip(keys, items, strict=False))
    return [found.get(k) for k in range(size)]
