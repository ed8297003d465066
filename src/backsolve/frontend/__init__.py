"""Python's own control flow inside `bs.jit`: source is rewritten so that choices and loops on traced values
are staged, and all others just run. `rewritten(f)` is what staging calls instead of `f`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..primitive import hooks
from .calls import call
from .convert import convert_function, is_users, reason
from .scope import Called

__all__ = ["rewritten"]

_local = threading.local()


def rewritten(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` as it is to be called while a Program is staged."""

    def run(*args: Any, **kwargs: Any) -> Any:
        outside = getattr(_local, "staging", False)
        _local.staging = True
        try:
            return call(f)(*args, **kwargs)
        finally:
            _local.staging = outside

    return run


def _users(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that a transformation was given: rewritten if we are inside of `jit`."""
    return call(f) if getattr(_local, "staging", False) else f


def _body(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function given to `bs.scan` and its like: it becomes a region, and must not change what is outside."""
    if not getattr(_local, "staging", False) or not isinstance(f, FunctionType) or not is_users(f):
        return f
    new = convert_function(f)

    def run(*args: Any) -> Any:
        with Called(f"`{f.__name__}`"):
            return new(*args)

    return run


def _why() -> str:
    """Why the function that asks for the number in a traced value was not rewritten, if it was not."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("backsolve."):
        frame = frame.f_back
    return (frame is not None and reason(frame.f_code)) or ""


hooks.users = _users
hooks.body = _body
hooks.why = _why
