"""Failures of runs that have not ended yet: looked at when they have, so that a device's queue never waits.

The results of such a run are handed out at once. If it failed all of them are NaN, and the exception is raised
by the first call of a compiled function that finds the run ended, by `settle`, or at Python's exit.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

_MOST = 64  # runs that may be under way; then the oldest is waited for
_runs: deque[tuple[Any, Callable[[int], Exception]]] = deque()
_lock = threading.Lock()


def look_later(number: Any, error: Callable[[int], Exception]) -> None:
    """`number`, on its device, is not 0 if the run failed, and then `error(number)` says why."""
    number.copy_to_host_async()
    _runs.append((number, error))
    if len(_runs) > _MOST:
        _raise_first(wait=True)


def look() -> None:
    """Raise what runs that have ended failed with."""
    while _runs and _raise_first(wait=False):
        pass


def settle() -> None:
    """Wait for all runs, and raise what they failed with."""
    while _runs:
        _raise_first(wait=True)


def _raise_first(wait: bool) -> bool:
    """Whether the oldest run has ended, or was waited for."""
    with _lock:
        if not _runs or not (wait or _runs[0][0].is_ready()):
            return False
        number, error = _runs.popleft()
    if found := int(number):
        exception = error(found)
        exception.add_note(
            "in an earlier call on a device, whose results are NaN; `bs.settle()` waits for them"
        )
        raise exception
    return True


atexit.register(settle)  # JAX is imported, so this runs before it lets go of its devices
