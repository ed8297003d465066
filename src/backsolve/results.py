"""What a function gives back, where derivatives are asked: numbers, and what may stand beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from . import tree
from .errors import DTypeError, NotDifferentiableError
from .ir import Var
from .primitive import coerce
from .tensor import Tensor


def check_numbers(who: str, outputs: Sequence[Any]) -> None:
    """`who` is about numbers alone; a function that gives none has nothing to tell."""
    odd = [y for y in outputs if not is_number(y)]
    if odd or not outputs:
        raise _without_numbers(who, odd)


def check_differentiable(who: str, outputs: Sequence[Any]) -> None:
    """What is no number may stand beside numbers, where its derivative is zero, but not alone.

    Of nothing at all the derivative is nothing, too.
    """
    check_outputs(who, outputs)
    if outputs and not any(map(is_number, outputs)):
        raise _without_numbers(who, outputs)


def _without_numbers(who: str, odd: Sequence[Any]) -> NotDifferentiableError:
    got = f"a result of type {type(odd[0]).__name__.removesuffix('_')}" if odd else "none"
    got += ": is a `return` missing?" * (not odd)
    return NotDifferentiableError(f"{who} needs a function whose results are numbers, got {got}")


def is_number(y: Any) -> bool:
    y = y._v if isinstance(y, Tensor) else y
    if isinstance(y, Var | Number) or hasattr(y, "tocoo"):
        return True
    return not tree.is_immutable(y) and np.asarray(y).dtype.kind in "biufc"


def check_outputs(who: str, outputs: Iterable[Any]) -> None:
    """An error about a result that may hold what varies where nobody looks: its derivative would be zero."""
    for y in outputs:
        if not (isinstance(y, Tensor) or _is_constant(y)):
            if hasattr(y, "tocoo"):
                coerce(y)  # says what to write instead
            raise DTypeError(
                f"`{who}` cannot look into a result of type {type(y).__name__}: return numbers, "
                "arrays, or dicts, lists, tuples and dataclasses of them"
            )


def _is_constant(y: Any) -> bool:
    if isinstance(y, np.ndarray):
        return not y.dtype.hasobject
    if isinstance(y, (int, float, str, np.generic, Number)):  # a tuple: the frequent ones first
        return True
    if tree.is_immutable(y):
        return not any(isinstance(x, Tensor) for x in tree.flatten(_held(y))[0])
    if hasattr(y, "tocoo"):  # sparse
        return not isinstance(getattr(y, "data", None), Tensor)
    return hasattr(y, "__array__") and not np.asarray(y).dtype.hasobject


def _held(y: Any) -> list[Any]:
    """What a function or a set shows to hold."""
    if isinstance(y, frozenset):
        return [*y]
    cells = getattr(y, "__closure__", None) or ()
    own = [getattr(y, name, None) for name in ("__dict__", "args", "keywords")]
    return [*own, *[c.cell_contents for c in cells]]
