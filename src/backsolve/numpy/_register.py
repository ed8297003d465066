"""How a public array function is written: take NumPy's arguments, normalise, call primitives."""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from ..blame import guarded
from ..errors import AxisError, DTypeError, TracedValueError, UnsupportedError
from ..primitive import FUNCTIONS, coerce
from ..tensor import Staged, Tensor

F = TypeVar("F", bound=Callable[..., Any])

Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
Order = Literal["C", "F"]

_AS_THEY_ARE = frozenset([Tensor, float, int, bool, complex])
_INTEGERS = (int, np.integer)
_ALL_AXES = tuple(tuple(range(n)) for n in range(65))  # by rank; NumPy's arrays have at most 64

OWN: dict[str, Any] = {}  # what `backsolve.numpy` has instead of NumPy's


def own(f: F) -> F:
    """Put into the namespace under its name, for arrays of every kind."""
    OWN[f.__name__] = f
    return f


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


@functools.cache
def _guarded(f: Any, name: str) -> Any:
    return guarded(f, name) if inspect.isfunction(f) else f


def by_name(table: Mapping[str, Any], name: str) -> Any:
    """A function of ours as users find it in the namespace: where it fails, it says what was called."""
    return _guarded(table[name], name)


def array(x: Any) -> Any:
    """A Tensor as it is, anything else as an array (of numbers) or a scalar."""
    if type(x) in _AS_THEY_ARE or isinstance(x, Tensor):
        return x
    if isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "biufc":
        return x
    if isinstance(x, list | tuple) and any(isinstance(e, Tensor) for e in x):
        return FUNCTIONS["stack"](x)
    if x is None:
        raise DTypeError("expected an array of numbers, got None")
    return coerce(x)


def shape_of(x: Any) -> tuple[int, ...]:
    try:
        return x.shape
    except AttributeError:
        return np.shape(x)


def ndim_of(x: Any) -> int:
    return len(shape_of(x))


def dtype_of(x: Any) -> np.dtype[Any]:
    return x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype


def size_of(x: Any) -> int:
    n = 1
    for s in shape_of(x):
        n *= s
    return n


def integers(x: Any) -> list[int]:
    """One int or a sequence of them (a shape, axes, repeats), as a list."""
    if type(x) is tuple and all([type(k) is int for k in x]):
        return list(x)
    if isinstance(x, _INTEGERS):
        return [int(x)]
    if hasattr(x, "ndim") and x.ndim == 0:
        return [operator.index(x)]
    return [operator.index(k) for k in x]


def _caller() -> str:
    """The public function that is running, for a message."""
    frame = sys._getframe(2)
    while frame.f_code.co_name.startswith(("_", "<")) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name


def all_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """NumPy's `axis` argument as a tuple of non-negative ints; None means all."""
    if axis is None:
        return _ALL_AXES[ndim]
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    try:
        return normalize_axis_tuple(integers(axis), ndim)
    except ValueError as error:  # NumPy's AxisError is one, too
        raise AxisError(f"`{_caller()}` got axis={axis!r}, rank {ndim}: {error}") from None


def one_axis(axis: int, ndim: int) -> int:
    if type(axis) is int and -ndim <= axis < ndim:
        return axis % ndim
    try:
        return normalize_axis_index(operator.index(axis), ndim)
    except ValueError as error:
        raise AxisError(f"`{_caller()}` got axis={axis!r}, rank {ndim}: {error}") from None


def flag(x: Any) -> bool:
    """An option that is True or False."""
    return x is True or (x is not False and x is not np._NoValue and bool(operator.index(x)))


def reject(name: str, **options: Any) -> None:
    """Options of NumPy's that we do not take; the default (None or NumPy's no-value) is fine."""
    for option, value in options.items():
        if value is not None and value is not np._NoValue:
            raise UnsupportedError(f"`{name}` on a tensor does not take {option}={value!r}")


def given(option: Any) -> bool:
    return option is not None and option is not np._NoValue


def known(name: str, x: Any, because: str = "how long its result is") -> Any:
    """The value of x, on which depends what a program could not know while it is staged."""
    if not isinstance(x, Tensor):
        return x
    if isinstance(x, Staged):
        raise TracedValueError(
            f"`{name}` cannot be staged: {because} depends on values, and inside jit and vmap only types are "
            "known. Call it outside, and pass its result as an argument"
        )
    return np.asarray(x._v)


def rests_on_leaf(*xs: Any) -> bool:
    """Whether y.forward() might compute one of these anew."""
    return any(
        isinstance(x, Tensor)
        and (getattr(x, "origin", None) is not None or (x.row is not None and x.row.owner))
        for x in xs
    )
