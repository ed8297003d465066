"""What varies when a program is shown: all that is a real or complex number and no state.

A gradient has the form of what it is the gradient of, so there an integer is an error. A picture has no such
form to keep: labels, counters, keys of random numbers and running means are shown as constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import tree
from ..nn.module import states
from ..vary import ArgNums, numbers_of


def varying(args: Sequence[Any], argnums: ArgNums | None) -> tuple[ArgNums, list[bool]]:
    """Which arguments vary, those that can if none are named; and which of their leaves do not."""
    if argnums is None:
        able = [n for n, x in enumerate(args) if not all(_fixed(x, tree.flatten(x)[0]))]
        argnums = tuple(able or range(len(args))) if len(args) != 1 else 0
    chosen = [args[n] for n in numbers_of(argnums)[1] if -len(args) <= n < len(args)]
    fixed = []
    for x in chosen:
        leaves = tree.flatten(x)[0]
        is_bare = len(leaves) == 1 and leaves[0] is x  # an integer there is the user's mistake
        fixed += [False] if is_bare else _fixed(x, leaves)
    return argnums, fixed


def _fixed(x: Any, leaves: Sequence[Any]) -> list[bool]:
    state = {id(a) for a in states(x)}
    return [id(leaf) in state or not _is_smooth(leaf) for leaf in leaves]


def _is_smooth(leaf: Any) -> bool:
    if isinstance(leaf, bool | int) or tree.is_immutable(leaf):
        return False
    kind = getattr(leaf, "dtype", None)
    return kind is None or np.dtype(kind).kind in "fc"
