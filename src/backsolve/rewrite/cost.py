"""What element-wise primitives cost, roughly."""

from __future__ import annotations

from ..ir import Equation

_CHEAP = {"add", "subtract", "multiply", "negative", "square", "absolute", "where", "alias"}
_CHEAP |= {"maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater"}
_CHEAP |= {"greater_equal", "logical_and", "logical_or", "logical_not", "isnan", "isfinite"}
_CHEAP |= {"cast", "cast_discrete"}


def is_cheap(e: Equation) -> bool:
    """An instruction or two on each entry, and no way to fail; true of all that is not element-wise."""
    return e.primitive.name in _CHEAP or not e.primitive.elementwise
