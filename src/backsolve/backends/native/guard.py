"""Rounds that add nothing but zeros are skipped.

The derivative of a minimum, a maximum or a choice goes to few entries: a sum of where(condition, x, 0) with a
condition that does not change along the innermost loop is a branch around that loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...ir import Var
from .views import View

if TYPE_CHECKING:
    from .kernel import Kernel

WORTH_A_BRANCH = 8  # rounds of the innermost loop


def condition_of_sums(kernel: Kernel, rounds: int, step: Callable[[View], int]) -> View | None:
    """Where to read whether the innermost loop adds anything, if one condition tells.

    `step` gives a view's stride along that loop.
    """
    if rounds < WORTH_A_BRANCH or not kernel.reductions:
        return None
    if kernel.stores or kernel.writes or kernel.can_fail:
        return None
    choices = {e.outputs[0]: e for e in kernel.statements if e.primitive.name == "where"}
    conditions = set()
    for how, a, _ in kernel.reductions:
        e = choices.get(a)
        if how != "add" or e is None or type(e.inputs[2]) is Var or e.inputs[2] != 0:
            return None
        conditions.add(e.inputs[0])
    view = kernel.loads.get(conditions.pop())
    if conditions or view is None or step(view) != 0:
        return None
    return view
