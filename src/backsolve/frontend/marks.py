"""What one pass over a function's syntax notes on a statement for the next to read."""

from __future__ import annotations

import ast
from typing import Any, Protocol, cast


class Marks(Protocol):
    seen: Any  # how it uses names (names.py)
    after: set[str]  # the names that are live behind it
    head: set[str]  # of a loop: those live where a round begins
    stops: list[str]  # of a loop: the flags that end it
    is_until_return: bool  # of an `if`: written by us around what follows a way out


def marks(s: ast.stmt) -> Marks:
    return cast(Marks, s)
