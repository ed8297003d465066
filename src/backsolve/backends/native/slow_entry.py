"""The entry through ctypes, for interpreters whose objects we do not know."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir import Type
from .entry import Frame, aligned, new_arena


def slow_entry(address: int, frame: Frame, keep: list[Any]) -> Callable[..., Any]:
    """`call(*arrays)` around `run(table, arena)`; it owns `keep`."""
    # PYFUNCTYPE keeps the GIL, CFUNCTYPE releases it.
    prototype = ctypes.CFUNCTYPE if frame.releases_gil else ctypes.PYFUNCTYPE
    run = prototype(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(address)
    arena_is_taken = threading.Lock()

    def call(*args: Any) -> Any:
        if len(args) != len(frame.inputs) or not all(map(_fits, args, frame.inputs)):
            return NotImplemented
        arrays = [np.asarray(a, t.dtype) for a, t in zip(args, frame.inputs, strict=True)]
        for i in frame.donors.values():
            others = arrays[:i] + arrays[i + 1 :]
            shared = any(np.may_share_memory(arrays[i], x) for x in others)
            if shared or not arrays[i].flags.writeable:
                return NotImplemented
        results = [
            arrays[frame.donors[k]] if k in frame.donors else np.empty(t.shape, t.dtype)
            for k, t in enumerate(frame.outputs)
        ]
        pointers = [a.ctypes.data for a in (*arrays, *results, *frame.constants)]
        table = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
        if arena_is_taken.acquire(blocking=False):
            try:
                code = run(ctypes.addressof(table), frame.arena)
            finally:
                arena_is_taken.release()
        else:
            memory = new_arena(frame.arena_bytes)
            code = run(ctypes.addressof(table), aligned(memory))
        if code:
            raise frame.failures.exception(code)
        del keep[len(keep) :]  # refers to `keep`: the code lives as long as this function
        pairs = zip(results, frame.outputs, strict=True)
        boxed = [r if t.shape else r.item() if t.weak else r[()] for r, t in pairs]
        return boxed[0] if len(boxed) == 1 else tuple(boxed)

    return call


_PYTHONS = {"b": bool, "i": int, "f": float, "c": complex}


def _fits(a: Any, t: Type) -> bool:
    """Whether an argument is exactly what was compiled for."""
    if t.weak:
        is_long = type(a) is int and not -(2**63) <= a < 2**63
        return type(a) is _PYTHONS[t.dtype.kind] and not is_long
    if type(a) is not np.ndarray or a.shape != t.shape or a.dtype != t.dtype:
        return False
    return a.flags.c_contiguous and a.flags.aligned
