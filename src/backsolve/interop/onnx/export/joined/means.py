"""ReduceMean: a sum over some axes, by the number of entries."""

from __future__ import annotations

from math import prod

from .....ir import Equation, type_of
from ..sizes import Size
from .base import Walk, both_ways, made_by, recogniser


@recogniser("divide", "multiply")
def mean(walk: Walk, e: Equation) -> str | None:
    total = averaged(walk, e)
    if total is None or made_by(walk, total.inputs[0], "windows"):  # see pools.py
        return None
    axes, keep = walk.g.sizes(total.params["axis"]), int(total.params["keepdims"])
    return str(walk.g.ReduceMean(walk.value(total.inputs[0]), axes, keepdims=keep))


def averaged(walk: Walk, e: Equation) -> Equation | None:
    """The sum that a mean is made of, if nothing else reads it."""
    out = e.outputs[0].type
    if out.dtype.kind != "f" or e.primitive.name not in ("divide", "multiply"):
        return None
    for a, b in both_ways(e)[: 1 if e.primitive.name == "divide" else 2]:
        total, number = made_by(walk, a, "sum"), walk.number(b)
        if total is None or number is None or walk.reads(a) != 1 or type_of(a) != out:
            continue
        x = type_of(total.inputs[0])
        count = prod(x.shape[k] for k in total.params["axis"])
        if x.dtype != out.dtype or isinstance(count, Size) or count < 2:
            continue
        share = count if e.primitive.name == "divide" else 1 / count
        if out.dtype.type(number) == out.dtype.type(share):
            return total
    return None
