"""The threads that compiled code shares, from Python: built once, paused, started anew after a fork."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import binding

from .build import load_part
from .pool_code import FROM_PYTHON, PREFIX, RUN, Word, Words, emit_pool

SPIN_SECONDS = 50e-6  # awake after a job, before sleeping


class Pool:
    """The compiled pool; it is never freed, as its workers may wake at any time."""

    def __init__(self, threads: int) -> None:
        for name in FROM_PYTHON:
            binding.add_symbol(PREFIX + name, address_of(name))
        engine = load_part("pool", lambda: str(emit_pool()))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))  # it outlives the interpreter
        for name in (*RUN, "backsolve_workers"):
            binding.add_symbol(name, engine.get_function_address(name))
        self.words = Words.from_address(engine.get_global_value_address("words"))
        self.words[Word.THREADS] = threads
        spin = ctypes.CFUNCTYPE(None, ctypes.c_int64)(engine.get_function_address("spin"))
        self.spin_turns = _turns(spin, SPIN_SECONDS)
        self._try_lock = ctypes.CFUNCTYPE(ctypes.c_bool)(engine.get_function_address("try_lock"))
        self.restart()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.restart)

    def set_threads(self, n: int, spin: bool, blas: tuple[Any, Any] | None) -> None:
        """Use n threads, awake for a while between jobs or not, and keep a BLAS to one in each."""
        self.words[Word.THREADS] = n
        self.words[Word.SPIN] = self.spin_turns if spin else 0
        if blas is not None:
            for word, function in zip((Word.BLAS_GET, Word.BLAS_SET), blas, strict=True):
                self.words[word] = ctypes.cast(function, ctypes.c_void_p).value or 0

    def restart(self) -> None:
        """As if no worker had ever been started: in a forked child there is none."""
        words = self.words
        if words[Word.BLAS_THREADS]:  # forked in the middle of a job
            ctypes.CFUNCTYPE(None, ctypes.c_int)(words[Word.BLAS_SET])(words[Word.BLAS_THREADS])
            words[Word.BLAS_THREADS] = 0
        words[Word.STARTED] = 0
        words[Word.CALLER] = _closed_lock()
        words[Word.BUSY] = 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While no job runs."""
        while not self._try_lock():
            time.sleep(SPIN_SECONDS)
        try:
            yield
        finally:
            self.words[Word.BUSY] = 0


def _turns(spin: Callable[[int], None], seconds: float) -> int:
    """How many turns take so long: a pause takes 1 to 140 cycles, by the processor."""
    trial, best = 1000, float("inf")
    for _ in range(5):
        started = time.perf_counter()
        spin(trial)
        best = min(best, time.perf_counter() - started)
    return max(int(trial * seconds / best), 1)


def address_of(name: str) -> int:
    found = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert found is not None
    return found


def _closed_lock() -> int:
    allocate = ctypes.CFUNCTYPE(ctypes.c_void_p)(address_of("PyThread_allocate_lock"))
    acquire = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
    lock = allocate()
    if not lock:
        raise MemoryError("no memory for a lock")
    acquire(address_of("PyThread_acquire_lock"))(lock, 1)
    return int(lock)
