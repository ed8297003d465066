"""bs.debug_nans: stop at the first operation that makes a NaN, forward or backward."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from .errors import NaNError, location
from .hooks import Watcher, hooks
from .primitive import Primitive
from .row import Row


class debug_nans:  # noqa: N801 - used like a function
    """Switch the watch on (from here, or within a `with`), or off with `debug_nans(False)`.

    While it is on, jitted functions run as they are written, operation by operation.

    >>> import numpy as np, backsolve as bs
    >>> with bs.debug_nans(), np.errstate(all="ignore"):
    ...     bs.grad(lambda x: np.sqrt(x) * 0)(-1.0)
    Traceback (most recent call last):
    backsolve.errors.NaNError: `sqrt` made a NaN
        in the argument `x` of sqrt(x=float64[])
        at ...
    """

    def __init__(self, enabled: bool = True):
        self._before = _active.watcher
        _switch(_NaNWatcher() if enabled else None)

    def __enter__(self) -> debug_nans:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _switch(self._before)


class _Active(threading.local):
    watcher: _NaNWatcher | None = None


_active = _Active()


def _switch(to: _NaNWatcher | None) -> None:
    if _active.watcher is not None:
        hooks.remove(_active.watcher)
    if to is not None:
        hooks.add(to)
    _active.watcher = to
    hooks.as_written.set(None if to is None else True)


class _NaNWatcher(Watcher):
    def __init__(self) -> None:
        super().__init__()
        self._lines: WeakKeyDictionary[Row, str] = WeakKeyDictionary()

    def on_call(self, prim: Primitive, row: Row | None, y: Any, inputs: Sequence[Any]) -> None:
        if row is not None:
            self._lines[row] = location(4)
        if _has_nan(y) and not any(_has_nan(a) for a in inputs):
            name = row.params.get("name", prim.name) if row and row.params else prim.name
            raise NaNError(f"`{name}` made a NaN", at=location(4))

    def on_block(self, row: Row, image: Any, seed: Any) -> None:
        if _has_nan(image) and not _has_nan(seed):
            at = self._lines.get(row, "a line that ran before debug_nans() was switched on")
            raise NaNError(f"the derivative of `{row.primitive.name}` made a NaN", at=at)


def _has_nan(x: Any) -> bool:
    v = (
        x._v if hasattr(x, "_v") else getattr(x, "value", x)
    )  # of a Tensor, or a masked differential
    return isinstance(v, float | complex | np.ndarray | np.generic) and bool(np.any(np.isnan(v)))
