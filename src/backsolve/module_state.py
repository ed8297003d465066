"""State among the attributes that a function changes: what modules that it closes over move at each call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import tree
from .changes import Changes
from .errors import TracedValueError
from .tensor import Staged, Tensor
from .trace import Recorder

Cells = Sequence[tuple[Any, str]]  # modules, each with the name of an attribute


def state_in(changes: Changes, recorders: Sequence[Recorder] = (), given: Any = ()) -> Cells:
    """What held an array before, or holds something traced now.

    Not what these recorders traced before, or what was given: that is in an argument's copy.
    """
    known = {id(x) for x in given}
    found = []
    for owner, name, before, now in changes.made():
        old, new = tree.flatten(before)[0], tree.flatten(now)[0]
        traced = [x for x in old if isinstance(x, Staged)]
        if any(x._v.recorder in recorders for x in traced) or any(id(x) in known for x in old):
            continue
        arrays = any(isinstance(x, np.ndarray | np.generic | Tensor) for x in old)
        if arrays or any(isinstance(x, Staged) for x in new):
            found.append((owner, name))
    return found


def refuse(cells: Cells, where: str, instead: str = "") -> None:
    """Where state cannot be taken out, if there is any."""
    if not cells:
        return
    names = ", ".join(f"{type(owner).__name__}.{name}" for owner, name in cells)
    raise TracedValueError(
        f"this function changes {names} of a module that it closes over, which cannot be put back {where}. "
        f"{instead}Take the module as an argument and return it: `def f(model, x): …; return y, model`, and "
        "call `y, model = f(model, x)`"
    )
