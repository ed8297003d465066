"""Python's own control flow inside `bs.jit`: source is rewritten so that choices and loops on traced values
are staged, and all others just run. `rewritten(f)` is what staging calls instead of `f`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..hooks import hooks
from ..writers import is_users, writes_arrays
from . import comprehensions as comprehensions
from .calls import call
from .checks import asserting
from .convert import convert_function, reason
from .scope import Called, Staging, check_write, is_staging

__all__ = ["rewritten", "users"]


def rewritten(
    f: Callable[..., Any], asserts: bool | None = None, compiles: bool = False
) -> Callable[..., Any]:
    """`f` as it is to be called while a Program is staged; `asserts`: None is as around it."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with Staging(compiles), asserting(asserts):
            return call(f)(*args, **kwargs)

    return run


def users(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that a transformation was given: rewritten inside of `jit`, and if it writes into arrays."""
    return call(f) if is_staging() or writes_arrays(f) else f


def _body(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function given to `bs.scan` and its like: it becomes a region, and must not change what is outside."""
    if not is_staging():
        return users(f)
    if not isinstance(f, FunctionType) or not is_users(f):
        return f
    new = convert_function(f)

    def run(*args: Any) -> Any:
        with Called(f"`{f.__name__}`", carries=True):
            return new(*args)

    return run


def _why() -> str:
    """Why the function that asks for the number in a traced value was not rewritten, if it was not."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("backsolve."):
        frame = frame.f_back
    return (frame is not None and reason(frame.f_code)) or ""


hooks.users = users
hooks.body = _body
hooks.note_attribute = check_write
hooks.why = _why
