"""Element-wise functions of large arrays: NumPy's loop, or our own where it is the faster one.

A compiled loop (backends/native/mathematics) is within 2 ulp and often faster than NumPy's, but not on
every processor, and it must be compiled first. So a function that has met a few million entries has
both timed once, on the array at hand, and stays with the winner.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..primitive import hooks

LARGE = 1 << 15  # entries from which on the call of a compiled loop does not show
ENOUGH = 1 << 22  # entries seen before compiling pays

_lock = threading.Lock()


def large(ufunc: Callable[..., Any], name: str) -> Callable[[Any], Any]:
    """`ufunc` (NumPy's or SciPy's) for all there is, with a second choice for large arrays."""
    seen: dict[Any, int] = {}
    chosen: dict[Any, Callable[[Any], Any]] = {}

    def call(a: Any) -> Any:
        if a.__class__ is np.ndarray and a.size >= LARGE:
            found = chosen.get(a.dtype)
            return found(a) if found is not None else consider(a)
        return ufunc(a)

    def consider(a: Any) -> Any:
        if a.dtype.char not in "fd" or not a.flags.c_contiguous or hooks.kernel is None:
            return ufunc(a)
        with _lock:
            seen[a.dtype] = seen.get(a.dtype, 0) + a.size
            if seen[a.dtype] >= ENOUGH and a.dtype not in chosen:
                kernel = hooks.kernel(name, a.dtype)
                faster = kernel is not None and _time(kernel, a) < 0.9 * _time(ufunc, a)
                chosen[a.dtype] = _guarded(kernel, ufunc) if faster else ufunc
        return ufunc(a)

    call.__name__ = name
    return call


def _guarded(kernel: Any, ufunc: Any) -> Callable[[Any], Any]:
    return lambda a: kernel(a) if a.flags.c_contiguous else ufunc(a)


def _time(run: Callable[[Any], Any], a: Any) -> float:
    best = float("inf")
    with np.errstate(all="ignore"):
        for _ in range(3):
            start = time.perf_counter()
            run(a)
            best = min(best, time.perf_counter() - start)
    return best
