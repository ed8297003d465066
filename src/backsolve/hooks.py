"""What the layers above hang into the lowest one: the Tensor class, the stager, observers.

A primitive is called long before these exist, and must not import them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .primitive import Primitive
    from .row import Row


class OfThreads:
    """What threads set for themselves while they do something: None where one does not.

    Most readers ask whether any thread does (`is_set`), and look no further.
    """

    is_set = False

    def __init__(self) -> None:
        self._own = threading.local()
        self._lock = threading.Lock()
        self._count = 0

    @property
    def value(self) -> Any:
        return getattr(self._own, "value", None) if self.is_set else None

    def set(self, value: Any) -> Any:
        """For this thread; what it was before."""
        before = self.value
        self._own.value = value
        with self._lock:
            self._count += (value is not None) - (before is not None)
            self.is_set = self._count > 0
        return before

    @contextmanager
    def holding(self, value: Any) -> Iterator[None]:
        before = self.set(value)
        try:
            yield
        finally:
            self.set(before)


class _Hooks:
    """What the layers above hang in: the Tensor class, the stager, and observers while there are any."""

    Tensor: Any = object
    stage: Callable[..., Any]
    wrap_var: Callable[..., Any]
    # (name, dtype) -> a compiled loop over contiguous arrays, or None
    kernel: Callable[[str, Any], Callable[..., Any] | None] | None = None
    # np.where, by a compiled loop where that pays (primitives/large.py)
    where: Callable[[Any, Any, Any], Any] = staticmethod(np.where)
    # Told of every call (debug_nans, linearize), and of every block applied by a solve.
    observe: Callable[[Primitive, Row | None, Any, Sequence[Any]], None] | None = None
    observe_block: Callable[[Row, Any, Any], None] | None = None
    # Called with every Tensor that no derivative goes through from there on (rounding).
    stopped = OfThreads()
    # Whether compiled functions run as they are written, for an observer that wants to see every call.
    as_written = OfThreads()
    # What is called in place of `stage` (bs.source).
    tracer = OfThreads()
    # What to call for a user's function (inside `jit` its control flow is rewritten), and why it was not.
    users: Callable[[Callable[..., Any]], Callable[..., Any]] = staticmethod(lambda f: f)
    why: Callable[[], str] = staticmethod(lambda: "")
    # The same for a function that becomes a region; and for one that is staged whether in `jit` or not.
    body: Callable[[Callable[..., Any]], Callable[..., Any]] = staticmethod(lambda f: f)
    rewritten: Callable[[Callable[..., Any]], Callable[..., Any]] = staticmethod(lambda f: f)
    # Told before a module's attribute is set.
    note_attribute: Callable[[Any, str], None] = staticmethod(lambda owner, name: None)
    # Told before t[key] gets new numbers in place; of what t[key] gave; and of results that may be views.
    note_write: Callable[[Any, Any], None] = staticmethod(lambda t, key: None)
    note_view: Callable[[Any, Any, Any], None] = staticmethod(lambda view, whole, key: None)
    viewing: Callable[[Any, Any], Any] = staticmethod(lambda result, whole: result)
    # Gives the truth of a staged value, where who stages has numbers to follow one path by; None: not known.
    truth = OfThreads()
    # `state = init; while goes_on(state): state = body(state)`, staged where the state is (control/).
    while_loop: Callable[..., Any]
    # A function with a rule of its own, inside a region being recorded (control/calls.py).
    call_closed: Callable[..., Any]
    # A function that staged code runs in several places, recorded once if it is long (control/once.py).
    once: Callable[..., Any]
    # The columns of an operator's matrix, batched (solve/many.py).
    images_of_basis: Callable[[Any], Any]
    # Loops over arrays, written in Python, as native code; once `jit` is imported (compiled/).
    compiled: Callable[[Any], Callable[..., Any]] | None = None
    # About how many seconds a Program takes as native code; None if it has no such form (compiled/).
    seconds_of: Callable[[Any], float | None] = staticmethod(lambda program: None)
    # The seconds of several, as they are timed; None if one cannot be (compiled/timed.py).
    timed: Callable[[Sequence[Any]], list[float] | None] = staticmethod(lambda programs: None)
    # What notebooks show of an object, as "html" or "latex"; None: its text (show/notebooks.py).
    notebook: Callable[[str, Any], str | None] = staticmethod(lambda form, x: None)
    # Whether a user ever made a leaf: before, no result without a row can rest on one (`remember`).
    has_leaves: bool = False
    # Whether anything was ever declared on a manifold (declared.py).
    has_points: bool = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watchers: list[Watcher] = []

    def add(self, watcher: Watcher) -> None:
        with self._lock:
            self._watchers = [*self._watchers, watcher]
            self._refresh()

    def remove(self, watcher: Watcher) -> None:
        with self._lock:
            self._watchers = [w for w in self._watchers if w is not watcher]
            self._refresh()

    def _refresh(self) -> None:
        watchers = self._watchers

        def call(prim: Primitive, row: Row | None, y: Any, inputs: Sequence[Any]) -> None:
            for w in watchers:
                if w.thread == threading.get_ident():
                    w.on_call(prim, row, y, inputs)

        def block(row: Row, image: Any, seed: Any) -> None:
            for w in watchers:
                if w.thread == threading.get_ident():
                    w.on_block(row, image, seed)

        self.observe = call if watchers else None
        self.observe_block = block if watchers else None


class Watcher:
    """Told of what the thread that made it computes. Subclasses fill in one of the two."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def on_call(self, prim: Primitive, row: Row | None, y: Any, inputs: Sequence[Any]) -> None:
        """A primitive was called."""

    def on_block(self, row: Row, image: Any, seed: Any) -> None:
        """A solve applied a block of `row`."""


hooks = _Hooks()


class _Undisturbed(threading.local):
    """Whether this thread runs a function that writes into no array (quiet.py), or differentiates it."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *error: Any) -> None:
        self.depth -= 1


undisturbed = _Undisturbed()
