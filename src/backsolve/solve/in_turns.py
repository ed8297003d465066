"""How long calls take, beside each other: each in turn, so that what disturbs the machine disturbs all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

_TURNS = (2, 15)  # at least, and at most
_LONG_ENOUGH = 2e-4  # seconds of a turn: a call that takes less is repeated in it
_ALL = 0.25  # seconds, after which no further turn begins
_ENOUGH = 0.5  # seconds of a first call, beside which what comes with it is little: it counts


def seconds_in_turns(
    calls: Sequence[Callable[[], Any]], clock: Callable[[], float] | None = None
) -> list[float]:
    """Of each call, in its best turn; what comes with a first call does not count, unless all are long."""
    clock = clock or time.perf_counter
    best = [_seconds(call, 1, clock) for call in calls]
    if min(best) > _ENOUGH:
        return best
    best = [_seconds(call, 1, clock) for call in calls]
    repeats = [max(int(_LONG_ENOUGH / max(s, 1e-9)), 1) for s in best]
    began = time.perf_counter()
    least, most = _TURNS
    for turn in range(1, most):
        if turn >= least and time.perf_counter() - began > _ALL:
            break
        for k, call in enumerate(calls):
            best[k] = min(best[k], _seconds(call, repeats[k], clock))
    return best


def _seconds(call: Callable[[], Any], repeats: int, clock: Callable[[], float]) -> float:
    began = clock()
    for _ in range(repeats):
        call()
    return (clock() - began) / repeats
