"""Runtime of `assert` on traced values, and of names that may have none: the compiled function raises."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..control.checks import Failure
from ..errors import UndefinedNameError, location
from ..primitives.checks import CODE, code_of
from .branches import as_bool
from .places import Perhaps, Undefined, is_traced


class _Wanted(threading.local):
    value = True


_wanted = _Wanted()


@contextmanager
def asserting(wanted: bool | None) -> Iterator[None]:
    """Whether assertions are looked at; None leaves it as it is."""
    before = _wanted.value
    _wanted.value = before if wanted is None else wanted
    try:
        yield
    finally:
        _wanted.value = before


def holds(test: Any, message: Callable[[], Any] | None = None) -> Any:
    """The truth of an assertion. A traced one is taken to hold, and looked at when the Program runs."""
    if not is_traced(test):
        return test
    if _wanted.value:
        said = f"{_said(message)}, at {location(2)}"
        _report(test, "AssertionError", said)
    return True


def _report(test: Any, kind: str, said: str) -> None:
    number = code_of(kind, said)
    code = np.where(as_bool(test), CODE.type(0), CODE.type(number))
    Failure(code, ((number, (kind, said)),)).report()


def assigned(x: Any, name: str, is_checked: bool) -> Any:
    """The value of a variable that may have none; `is_checked`: as far as Python itself can tell."""
    if not isinstance(x, Undefined):
        return x
    if not isinstance(x, Perhaps):
        raise UndefinedNameError(x._bs_why, at=location(2))
    if is_checked and _wanted.value:
        if not is_traced(x._bs_flag):
            if not x._bs_flag:
                raise UndefinedNameError(x._bs_why, at=location(2))
        else:
            said = f"`{name}` is read where no way taken has assigned it, at {location(2)}"
            _report(x._bs_flag, "UnboundLocalError", said)
    return x._bs_value


def _said(message: Callable[[], Any] | None) -> str:
    """The user's own message, as it is while types are known but no numbers."""
    if message is None:
        return "an assertion fails"
    try:
        return str(message())
    except Exception as error:
        reason = str(error).partition("\n")[0]
        return f"an assertion fails (its message needs numbers that only the run knows: {reason})"
