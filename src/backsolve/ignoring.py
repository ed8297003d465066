"""Floating-point warnings off, at a fifth of what `np.errstate` takes.

NumPy keeps how it warns in a variable of the context; a solve, which may be of one row, sets it to what
`np.errstate(all="ignore")` would, made once.

    before = ignore_warnings()
    try: …
    finally: warn_again(before)
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any

import numpy as np


def _variable_of_numpy() -> tuple[ContextVar[Any], Any] | None:
    """The variable that `np.errstate` sets, and the value that ignores all; None if it is no longer so."""
    before = copy_context()
    with np.errstate(all="ignore"):
        inside = copy_context()
    changed = [(v, x) for v, x in inside.items() if before.get(v) is not x]
    return changed[0] if len(changed) == 1 else None


def _by_errstate() -> Any:
    state = np.errstate(all="ignore")
    state.__enter__()
    return state


def _leave(state: Any) -> None:
    state.__exit__(None, None, None)


ignore_warnings: Callable[[], Any]
warn_again: Callable[[Any], None]
_found = _variable_of_numpy()
if _found is None:
    ignore_warnings, warn_again = _by_errstate, _leave
else:
    ignore_warnings, warn_again = partial(_found[0].set, _found[1]), _found[0].reset
