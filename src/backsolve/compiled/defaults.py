"""What `bs.jit` compiles for where nothing else is said."""

from __future__ import annotations

import sys
from typing import Any
from weakref import WeakSet

from ..backends.target import NATIVE, Target

of_default: WeakSet[Any] = WeakSet()  # compiled functions that go with it
_default = [NATIVE]


def default_target() -> Target:
    return _default[0]


def set_default_backend(
    backend: str, device: str | None = None, precision: str = "highest", half: str = "float16"
) -> None:
    """What `bs.jit`, `bs.fit` and all that compiles run on from now on, where they are not told otherwise.

    >>> import backsolve as bs
    >>> bs.set_default_backend("native")
    """
    _default[0] = Target(backend, device, precision, None, half)
    for f in list(of_default):
        f.forget()


def settle() -> None:
    """Wait for what GPUs are computing for compiled functions, and raise what failed there.

    There a call hands out results before they are there. If an index turns out to be out of range, or an
    assertion fails, all of them are NaN, and the exception comes with a later call, or here.

    >>> import backsolve as bs
    >>> bs.settle()
    """
    pending = sys.modules.get("backsolve.backends.xla.pending")
    if pending is not None:
        pending.settle()
