"""Branches that a GPU takes without waiting: all sides are computed, and one is taken.

A conditional asks the host which kernels to start, which takes longer than computing with small arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

from ...ir import Program, Var, type_of
from ...primitives.control import BRANCH
from ...regions import Branches

_MOST = 1 << 14  # numbers that the equations of all sides read and make
_READERS = {"gather", "slice"}  # of parts: what they make counts
# What is quick without being element-wise.
_QUICK = _READERS | {
    *("reshape", "broadcast_to", "permute", "concatenate", "unslice", "slice_update", "check"),
    *("contract", "sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "first_max"),
    *("scatter_add", "scatter_set", "cumsum"),
}


def are_small(region: Branches) -> bool:
    """Whether all sides are soon computed. None has a loop, which might not end where it is not taken."""
    types = region.outputs()
    if any(t.is_stack or t.is_box for t in types):
        return False
    return sum(map(_numbers, region.branches)) + sum(t.size for t in types) <= _MOST


def _numbers(side: Program) -> int:
    found = 0
    for e in side.equations:
        if e.primitive is BRANCH:
            if not are_small(e.params["region"]):
                return _MOST + 1
            found += sum(map(_numbers, e.params["region"].branches))
        elif not (e.primitive.elementwise or e.primitive.name in _QUICK):
            return _MOST + 1
        read = [] if e.primitive.name in _READERS else [a for a in e.inputs if type(a) is Var]
        found += sum(type_of(a).size for a in (*read, *e.outputs))
    return found


def one_of(index: Any, sides: Sequence[Any]) -> Any:
    """Side `index` of trees of arrays that have the same types."""
    return jax.tree.map(lambda *arrays: lax.select_n(index, *arrays), *sides)
