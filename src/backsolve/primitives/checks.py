"""`check`: raises if a number is not 0. The one primitive that is kept though nobody reads its result.

The number says which assertion failed, `messages` what to say then. It stands only in Programs that are
nobody's region: inside one the number becomes a further result of the region (control/checks.py), so that
branches, loops and batches treat it as they treat all values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..primitive import Primitive

CODE = np.dtype(np.int64)
Messages = tuple[tuple[int, str], ...]
_known: list[str] = []


def code_of(message: str) -> int:
    """The number of an assertion with this message, in this process."""
    if message not in _known:
        _known.append(message)
    return _known.index(message) + 1


def _run(code: Any, *, messages: Messages) -> Any:
    if code:
        raise AssertionError(dict(messages)[int(code)])
    return np.int64(0)


def _batched(check: Any, size: int, args: Any, batched: Any, params: Any) -> Any:
    return check(np.max(args[0]), **params)


CHECK = Primitive("check", _run, type=lambda code, messages: Type((), CODE), batch=_batched)
CHECK.has_effect = True
