"""Branches so light that in a batch all examples compute them, and `where` picks.

A branch of a batch could be guarded: run only if some example takes it. But whether one does is known only when
all have been looked at, and then everything before and behind the branch goes through memory. A few operations
on each example cost less than that; and without a region around them, differentials that are zero because an
example took another branch stay zero by structure.
"""

from __future__ import annotations

from math import prod

from ..ir import Equation, Program, type_of
from ..operators.nests import split_subscripts
from ..rewrite.cost import is_cheap

MOST_WORK = 1024  # operations on one example
FUNCTION = 16  # operations that a function such as exp counts for
_MOVED = {"reshape", "broadcast_to", "permute", "slice", "unslice", "slice_update", "concatenate"}
_MOVED |= {"sum", "prod", "max", "min", "any", "all"}


def is_light(program: Program) -> bool:
    return sum(map(_work, program.equations)) <= MOST_WORK


def _work(e: Equation) -> float:
    """Operations; without end for all that could fail, and for what takes many on each entry."""
    if e.primitive.holds_regions:
        return float("inf")
    out, name = e.outputs[0].type, e.primitive.name
    if e.primitive.elementwise and is_cheap(e):
        return out.size
    if e.primitive.elementwise and out.dtype.kind in "fc":
        return FUNCTION * out.size
    if name in _MOVED:
        return max([out.size, *[type_of(a).size for a in e.inputs]])
    if name == "contract":
        labels, _ = split_subscripts(e.params["subscripts"])
        shapes = [type_of(a).shape for a in e.inputs]
        axes = [zip(x, shape, strict=True) for x, shape in zip(labels, shapes, strict=True)]
        return prod(dict(pair for line in axes for pair in line).values())
    return float("inf")
