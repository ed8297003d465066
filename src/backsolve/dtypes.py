"""The dtype of an element-wise row: NumPy's own answer, asked for once; and that of values joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import StaticArgumentError
from .ir import Type, type_of

if TYPE_CHECKING:
    from .primitive import Primitive

_FLOAT64 = np.dtype(np.float64)
_DTYPES: dict[Any, Any] = {}


def know_dtype(prim: Primitive, dtype: np.dtype[Any], arity: int) -> None:
    """An element-wise row keeps this dtype, if all inputs have it: nobody needs to run it to know."""
    _DTYPES[prim, ((dtype, False),) * arity, ()] = (dtype, False)


def elementwise_dtype(prim: Primitive, inputs: Any, params: Any) -> tuple[np.dtype[Any], bool]:
    """Ask NumPy: run the primitive on single ones of these dtypes."""
    key = (prim, inputs, params)
    found = _DTYPES.get(key)
    if found is None:
        ones = [d.type(1).item() if weak else np.ones(1, d) for d, weak in inputs]
        with np.errstate(all="ignore"):
            y = prim.run(*ones, **dict(params))
        t = type_of(y)
        numbers = prim.is_operator and all(weak for _, weak in inputs)
        found = _DTYPES[key] = (t.dtype, t.weak or (numbers and t.dtype == _FLOAT64))
    return found


_PYTHON = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}


def joined_dtype(types: Sequence[Type]) -> np.dtype[Any]:
    """The dtype in which NumPy compares or joins values of these types: Python's numbers are weak."""
    return np.result_type(*[_PYTHON[t.dtype.kind] if t.weak else t.dtype for t in types])


def frozen(params: dict[str, Any]) -> tuple[Any, ...]:
    items = tuple(sorted(params.items()))
    try:
        hash(items)
    except TypeError:
        raise StaticArgumentError(
            f"metadata must be hashable (a tuple instead of a list, no arrays), got {params!r}"
        ) from None
    return items
