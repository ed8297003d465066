"""`check`: raises if a number is not 0. The one primitive that is kept though nobody reads its result.

The number says which assertion failed, `messages` what to say then. It stands only in Programs that are
nobody's region: inside one the number becomes a further result of the region (control/checks.py), so that
branches, loops and batches treat it as they treat all values.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ..ir import Type
from ..primitive import Primitive
from ..tensor import Staged

PACKAGE = __name__.partition(".")[0]
CODE = np.dtype(np.int64)
Messages = tuple[
    tuple[int, tuple[str, str]], ...
]  # by number: an exception's class, and what it says
_known: list[tuple[str, str]] = []


def code_of(kind: str, message: str) -> int:
    """The number of an exception with this message, in this process."""
    if (kind, message) not in _known:
        _known.append((kind, message))
    return _known.index((kind, message)) + 1


def exception_of(kind: str) -> type[Exception]:
    return np.linalg.LinAlgError if kind == "LinAlgError" else getattr(builtins, kind)


def _run(code: Any, *, messages: Messages) -> Any:
    if code:
        kind, message = dict(messages)[int(code)]
        raise exception_of(kind)(message)
    return np.int64(0)


def _batched(check: Any, size: int, args: Any, batched: Any, params: Any) -> Any:
    return check(np.max(args[0], initial=0), **params)  # a batch may be empty


def stop_if(failed: Any, kind: str, message: str) -> None:
    """Where `failed` is staged: compiled code raises, when it runs, an exception of this class."""
    code = code_of(kind, message)
    CHECK(np.where(failed, np.int64(code), np.int64(0)), messages=((code, (kind, message)),))


def raise_if(failed: Any, error: type[Exception], message: str) -> None:
    """Raise it now, or have compiled code raise its kind when it runs."""
    if isinstance(failed, Staged):
        kind = next(c for c in error.__mro__ if not c.__module__.startswith(PACKAGE))
        stop_if(failed, kind.__name__, message)
    elif failed:
        raise error(message)


CHECK = Primitive("check", _run, type=lambda code, messages: Type((), CODE), batch=_batched)
CHECK.has_effect = CHECK.raises_its_own = True
