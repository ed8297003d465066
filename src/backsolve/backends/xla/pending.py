"""Failures of runs that have not ended yet: looked at when they have, so that a device's queue never waits.

The results of such a run are handed out at once. If it failed all of them are NaN, and the exception is raised
by a call of a compiled function that finds the run ended, by `settle`, or at Python's exit. A run is given the
number of the first failure before it and gives it on: one number, asked for now and then, tells of many runs.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Any

_BETWEEN = 0.01  # seconds after which a trail's number is asked for again
_LONGEST = 64  # runs after which it is in any case
_MOST = 64  # numbers that may be on their way; then the oldest is waited for


class Trail:
    """Runs of one piece of code, one after the other: the number of the first failure, on the device, or 0."""

    def __init__(self, zero: Any, error: Callable[[int], Exception], is_one: bool) -> None:
        self._zero, self._error = zero, error
        self._is_one = is_one  # all runs are on one device
        self._ends: list[Any] = []  # several where threads ran at once
        self._length, self._asked = 0, -inf

    def before(self) -> Any:
        """The number to give to the next run."""
        ends = self._ends  # a list that is never changed, only replaced
        return ends[-1] if ends and self._is_one else self._zero

    def after(self, before: Any, number: Any) -> None:
        """A run was given `before` and gives `number`."""
        with _lock:
            self._ends = [*[n for n in self._ends if n is not before], number]
            self._length += 1
            _trails[self] = None
            is_due = self._length >= _LONGEST or not self._is_one
            self._ask(inf if is_due else monotonic())
            full = len(_coming) > _MOST
        if full:
            _raise_first(wait=True)

    def _ask(self, now: float) -> None:
        """For its numbers, unless that was just done."""
        if now - self._asked < _BETWEEN:
            return
        for number in self._ends:
            number.copy_to_host_async()
            _coming.append((number, self._error))
        self._ends, self._length, self._asked = [], 0, min(now, monotonic())
        _trails.pop(self, None)


_trails: dict[Trail, None] = {}  # that have numbers nobody asked for
_coming: deque[tuple[Any, Callable[[int], Exception]]] = deque()
_lock = threading.Lock()


def look() -> None:
    """Raise what runs that have ended failed with."""
    if _trails:
        _ask_all(monotonic())
    while _coming and _raise_first(wait=False):
        pass


def settle() -> None:
    """Wait for all runs, and raise what they failed with."""
    _ask_all(inf)
    while _coming:
        _raise_first(wait=True)


def _ask_all(now: float) -> None:
    with _lock:
        for trail in list(_trails):
            trail._ask(now)


def _raise_first(wait: bool) -> bool:
    """Whether the oldest number has come, or was waited for."""
    with _lock:
        if not _coming or not (wait or _coming[0][0].is_ready()):
            return False
        number, error = _coming.popleft()
    if found := int(number):
        exception = error(found)
        exception.add_note(
            "in an earlier call on a device, whose results are NaN; `bs.settle()` waits for them"
        )
        raise exception
    return True


atexit.register(settle)  # JAX is imported, so this runs before it lets go of its devices
