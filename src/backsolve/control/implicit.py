"""An implicit function inside a region that is being recorded (a loop's body, a branch).

It is differentiated later, from what was recorded: so its equations become a Program, and what they close over
becomes parameters like the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..hooks import hooks
from ..ir import type_of
from ..regions import ImplicitEquations
from ..tensor import Staged, Tensor
from ..trace import evaluate, innermost_region
from .calls import call_with_rule
from .regions import Region, type_of_leaf


def call_closed(
    F: Callable[..., Sequence[Any]],
    x: Sequence[Any],
    p: Sequence[Any],
    rule: Callable[..., Any],
) -> list[Any]:
    """x, as a call with the derivative `rule(F, x, p, which of p vary, whether it is recorded)`, where F closes
    over nothing."""
    n = len(x)
    places = [k for k, v in enumerate(p) if isinstance(v, Tensor)]

    def flat(*values: Any) -> list[Any]:
        full = list(p)
        for k, v in zip(places, values[n:], strict=True):
            full[k] = v
        return list(F(values[:n], full))

    given = [*x, *[p[k] for k in places]]
    region = Region(flat, [type_of_leaf(v) for v in given], innermost_region())
    whole = region.with_inputs(region.variables)
    values_of = len(whole.outputs) - bool(region.messages)  # what failed inside of F is no equation
    program = replace(whole, outputs=whole.outputs[:values_of])

    def closed(x: Sequence[Any], p: Sequence[Any]) -> list[Any]:
        return region.results(evaluate(whole, [*x, *p]))

    def own_rule(inputs: Sequence[Any], places: Sequence[int]) -> Any:
        record = any(map(_is_recorded, inputs))
        return rule(closed, list(inputs[:n]), list(inputs[n:]), [k - n for k in places], record)

    def correction(x: Sequence[Any], p: Sequence[Any], rest: Sequence[Any]) -> list[Any]:
        """By F(x, p) + s = 0, whose solution moves by −F_x⁻¹ ds."""
        m = len(p)
        zeros = [np.zeros(t.shape, t.dtype) for t in map(type_of, program.outputs)]

        def moved(x: Sequence[Any], p: Sequence[Any]) -> list[Any]:
            return [y + s for y, s in zip(closed(x, p[:m]), p[m:], strict=True)]

        outer = [k for k, v in enumerate(p) if isinstance(v, Tensor) and v.row is not None]
        varying = [*outer, *range(m, m + len(zeros))]
        record = any(map(_is_recorded, (*x, *p, *rest)))
        push, _ = rule(moved, x, [*p, *zeros], varying, record)
        return list(push([*[None] * len(outer), *rest]))

    values = [*given, *region.captured]
    equations = ImplicitEquations(program, correction)
    return call_with_rule("implicit", lambda *v: list(v[:n]), values, own_rule, equations)


def _is_recorded(v: Any) -> bool:
    return isinstance(v, Staged) or (isinstance(v, Tensor) and v.row is not None)


hooks.call_closed = call_closed
