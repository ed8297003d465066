"""What a solver is told: how far to go, how long, and what counts as an equation."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..errors import StructureError
from ..operators import Operator
from ..results import is_number


def share(name: str, given: Any) -> float | None:
    """A tolerance; NumPy's numbers become Python's, so that they have no precision of their own."""
    if given is None:
        return None
    is_real = isinstance(given, float | int | np.floating) and not isinstance(given, bool)
    if not is_real or not 0 < given < 1:
        raise StructureError(f"{name} must be a number between 0 and 1, got {given!r}")
    return float(given)


def count(name: str, given: Any, least: int = 1) -> int:
    is_integer = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if not is_integer or given < least:
        raise StructureError(f"{name} must be an integer, at least {least}; got {given!r}")
    return int(given)


def check_preconditioner(M: Any) -> None:
    if not isinstance(M, Operator) and not callable(M):
        raise StructureError(f"preconditioner is an operator or a function, got {M!r:.80}")


def check_numbers(what: str, given: Any) -> None:
    """Equations and unknowns are numbers; nothing, a text, or either among them is a mistake."""
    leaves = tree.flatten(given)[0]
    if not leaves or not all(map(is_number, leaves)):
        raise StructureError(f"{what} must be numbers or arrays of them, got {given!r:.80}")
