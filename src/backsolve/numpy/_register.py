"""How a public array function is written: take NumPy's arguments, normalise, call primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from ..errors import UnsupportedError
from ..primitive import FUNCTIONS, coerce
from ..tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def function(f: F) -> F:
    """Register under NumPy's name: `numpy.name(tensor)` and `tensor.name()` then mean this."""
    FUNCTIONS[f.__name__] = f
    return f


def named(name: str) -> Callable[[F], F]:
    """Register under another name than the function's own (`linalg.norm`, `abs`)."""

    def register(f: F) -> F:
        FUNCTIONS[name] = f
        return f

    return register


def array(x: Any) -> Any:
    """A Tensor as it is, anything else as an array (of numbers) or a scalar."""
    if isinstance(x, Tensor | np.ndarray | np.generic) or type(x) in (float, int, bool, complex):
        return x
    if isinstance(x, list | tuple) and any(isinstance(e, Tensor) for e in x):
        return FUNCTIONS["stack"](x)
    return coerce(x)


def shape_of(x: Any) -> tuple[int, ...]:
    return x.shape if hasattr(x, "shape") else np.shape(x)


def ndim_of(x: Any) -> int:
    return len(shape_of(x))


def dtype_of(x: Any) -> np.dtype[Any]:
    return x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype


def all_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """NumPy's `axis` argument as a tuple of non-negative ints; None means all."""
    if axis is None:
        return tuple(range(ndim))
    return normalize_axis_tuple(axis, ndim)


def one_axis(axis: int, ndim: int) -> int:
    return normalize_axis_index(axis, ndim)


def reject(name: str, **options: Any) -> None:
    """Options of NumPy's that we do not take; the default (None or NumPy's no-value) is fine."""
    for option, value in options.items():
        if value is not None and value is not np._NoValue:
            raise UnsupportedError(f"`{name}` on a tensor does not take {option}={value!r}")
