"""A pull in a Program that is derived later: a call that remembers how it is differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..joint import are_older
from ..primitive import wrap
from ..solve.packing import plain
from ..solve.reversal import row_of
from ..solve.reversed_row import Pairs, Reversal, reversed_row, spread
from .calls import call_with_rule


def reversed_call(
    name: str, values: Sequence[Any], cts: Sequence[Any], found: Sequence[Any], pairs: Pairs
) -> tuple[Any, ...]:
    """The adjoints `found` (raw) of `values`, as one row; or as one equation, where something varies outside of
    what is being recorded (a solve for a stack of seeds)."""
    if not are_older([row_of(x) for x in (*values, *cts)], found):
        return reversed_row(name, values, (), cts, found, pairs)
    made = Reversal(len(values), (), cts, found, pairs)
    entering = [cts[k] for k in made.entering]
    results = [plain(wrap(found[k], None)) for k in made.present]
    n, m = len(values) + len(entering), len(results)

    def rule(inputs: Sequence[Any], places: Sequence[int]) -> Any:
        record = any(row_of(x) is not None for x in inputs)
        operator = made.operator_of(inputs[:n], record)
        push = lambda ts: operator.apply(tuple(spread(ts, places, n)))
        pull = lambda gs: tuple([operator.T.apply(tuple(gs))[k] for k in places])
        return push, pull

    called = call_with_rule(name, lambda *v: list(v[-m:]), [*values, *entering, *results], rule)
    return tuple(spread(called, made.present, len(found)))
