"""An implicit function inside a region that is being recorded (a loop's body, a branch).

It is differentiated later, from what was recorded: so its equations become a Program, and what they close over
becomes parameters like the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..hooks import hooks
from ..tensor import Tensor
from ..trace import evaluate, innermost_region
from .calls import call_with_rule
from .regions import Region, type_of_leaf


def call_closed(
    F: Callable[..., Sequence[Any]],
    x: Sequence[Any],
    p: Sequence[Any],
    rule: Callable[..., Any],
) -> list[Any]:
    """x, as a call with the derivative `rule(F, x, p, which of p vary)`, where F closes over nothing."""
    n = len(x)
    places = [k for k, v in enumerate(p) if isinstance(v, Tensor)]

    def flat(*values: Any) -> list[Any]:
        full = list(p)
        for k, v in zip(places, values[n:], strict=True):
            full[k] = v
        return list(F(values[:n], full))

    given = [*x, *[p[k] for k in places]]
    region = Region(flat, [type_of_leaf(v) for v in given], innermost_region())
    program = region.with_inputs(region.variables)

    def closed(x: Sequence[Any], p: Sequence[Any]) -> list[Any]:
        return evaluate(program, [*x, *p])

    def own_rule(inputs: Sequence[Any], places: Sequence[int]) -> Any:
        return rule(closed, list(inputs[:n]), list(inputs[n:]), [k - n for k in places])

    return call_with_rule(
        "implicit", lambda *values: list(values[:n]), [*given, *region.captured], own_rule
    )


hooks.call_closed = call_closed
