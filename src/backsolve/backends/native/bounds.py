"""Bounds of integers: what makes a check of an index unnecessary, and Python's integers safe in 64 bits.

Python's integers (the number of a round, a counter) have no bounds. In compiled code they have 64 bits, and a
sum or a product that would outgrow them fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...ir import Equation, type_of
from .registers.ranges import ANY, RULES, Interval

if TYPE_CHECKING:
    from .schedule import Schedule

# What is done with Python's integers in compiled code.
EXACT = ("floor_divide", "remainder", "maximum", "minimum", "where", "sign", "positive", "alias")


def bounds_after(schedule: Schedule, e: Equation) -> Interval:
    """Of the result of an element-wise equation of integers, as far as they are known."""
    rule, out = RULES.get(e.primitive.name), e.outputs[0]
    if rule is None or out.dtype.kind not in "iu":
        return ANY
    if any(type_of(a).dtype.kind == "c" for a in e.inputs):
        return ANY
    low, high = rule(*[schedule.range_of(a) for a in e.inputs])
    limits = np.iinfo(out.dtype)
    return (low, high) if limits.min <= low <= high <= limits.max else ANY
