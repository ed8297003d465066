"""Element-wise functions of arrays: NumPy's loop, or our own where it is the faster one.

A compiled loop (backends/native/mathematics) is within 2 ulp and often faster than NumPy's, but not on
every processor, and it must be compiled first. So a function that has met a million entries has
both timed once, on the array at hand, and stays with the winner.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..primitive import hooks

LARGE = 1 << 15  # entries from which on the GIL is released
ENOUGH = 1 << 20  # entries seen before compiling pays
CALL = 50  # entries that take as long as a call of NumPy

_lock = threading.Lock()


def large(ufunc: Callable[..., Any], name: str) -> Callable[[Any], Any]:
    """`ufunc` (NumPy's or SciPy's) for all there is, with a second choice for large arrays."""
    seen: dict[Any, int] = {}
    chosen: dict[Any, Callable[[Any], Any]] = {}

    def call(a: Any) -> Any:
        if a.__class__ is np.ndarray:
            found = chosen.get(a.dtype)
            return found(a) if found is not None else consider(a)
        return ufunc(a)

    def consider(a: Any) -> Any:
        if a.dtype.char not in "fd" or not a.flags.c_contiguous or hooks.kernel is None:
            return ufunc(a)
        with _lock:
            seen[a.dtype] = seen.get(a.dtype, 0) + a.size + CALL
            if seen[a.dtype] >= ENOUGH and a.dtype not in chosen:
                kernel = hooks.kernel(name, a.dtype)
                ours = _guarded(kernel, ufunc) if kernel is not None else ufunc
                chosen[a.dtype] = ours if _time(ours, a) < 0.9 * _time(ufunc, a) else ufunc
        return ufunc(a)

    call.__name__ = name
    return call


def _guarded(kernel: Any, ufunc: Any) -> Callable[[Any], Any]:
    quick = kernel.quick or ufunc

    def call(a: Any) -> Any:
        if a.size < LARGE:
            y = quick(a)
            return y if y is not NotImplemented else ufunc(a)
        return kernel(a) if a.flags.c_contiguous else ufunc(a)

    return call


def _time(run: Callable[[Any], Any], a: Any) -> float:
    best = float("inf")
    with np.errstate(all="ignore"):
        for _ in range(3):
            start = time.perf_counter()
            run(a)
            best = min(best, time.perf_counter() - start)
    return best
