"""What losses share: how terms become one number, and what is asked of their arguments."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...control.checks import Failure
from ...errors import DTypeError, ShapeError
from ...numpy._register import array, dtype_of, ndim_of, shape_of, size_of
from ...primitive import P
from ...primitives.checks import CODE, code_of
from ...tensor import Staged, Tensor


def in_singles(x: Any) -> Any:
    """An array; one of float16 as float32: losses and statistics need more digits than networks."""
    x = array(x)
    return x.astype(np.float32) if dtype_of(x) == np.float16 else x


def reduced(name: str, terms: Any, reduction: str) -> Any:
    """The terms themselves ("none"), their sum, or their mean, which of no terms is NaN."""
    if reduction == "none":
        return terms
    if reduction == "sum":
        return np.sum(terms)
    if reduction == "mean":
        n = size_of(terms)
        return np.sum(terms) / n if n else np.sum(terms) + np.nan
    raise ValueError(f'{name} takes reduction="none", "mean" or "sum", got {reduction!r}')


def weighted_mean(terms: Any, weights: Any) -> Any:
    """Σ terms / Σ weights, and NaN with derivative 0 if nothing has weight, as PyTorch's."""
    total, weight = np.sum(terms), np.sum(weights)
    none = np.equal(weight, 0)
    if isinstance(none, Tensor):
        return np.where(none, np.nan, total / np.where(none, 1, weight))
    return total * 0 + np.nan if none else total / weight


def pair(name: str, input: Any, target: Any) -> tuple[Any, Any]:
    """Input and target; shapes that differ are broadcast, with PyTorch's warning."""
    x, t = in_singles(input), in_singles(target)
    if shape_of(x) != shape_of(t):
        warnings.warn(
            f"{name}: target of shape {shape_of(t)} is broadcast with input of shape {shape_of(x)}; "
            "this is rarely what is meant",
            stacklevel=3,
        )
    return x, t


def same_shape(name: str, input: Any, target: Any) -> tuple[Any, Any]:
    x, t = in_singles(input), in_singles(target)
    if shape_of(x) != shape_of(t):
        raise ShapeError(
            f"{name}: target must have the shape of input, got {shape_of(t)} for {shape_of(x)}"
        )
    return x, t


def require(holds: Any, kind: type[Exception], message: str) -> None:
    """Raise unless everything holds: at once, or, while staging, when the program runs."""
    if not isinstance(holds, Staged):
        if not np.all(np.asarray(holds)):
            raise kind(message)
        return
    number = code_of(kind.__name__, message)
    code = np.where(np.all(holds), CODE.type(0), CODE.type(number))
    Failure(code, ((number, (kind.__name__, message)),)).report()


def indices(name: str, argument: str, x: Any, low: int, high: int, ignored: Any = None) -> Any:
    """Whole numbers from low up to but not including high; where `ignored` holds, any."""
    x = array(x)
    if dtype_of(x).kind not in "iu":
        raise DTypeError(f"{name}: {argument} must be whole numbers, got {dtype_of(x)}")
    inside = np.logical_and(x >= low, x < high)
    if ignored is not None:
        inside = np.logical_or(inside, ignored)
    require(inside, IndexError, f"{name}: {argument} must be at least {low} and less than {high}")
    return x


def picked(x: Any, at: Any, axis: int) -> Any:
    """x at one place along an axis: of shape (N, C, …) and (N, …), an array of shape (N, …)."""
    rank = ndim_of(at)
    others = (n for k, n in enumerate(shape_of(x)) if k != axis)
    key = [np.arange(n).reshape(-1, *[1] * (rank - 1 - k)) for k, n in enumerate(others)]
    return P.gather(x, *key[:axis], at, *key[axis:])


def positive_part(x: Any) -> Any:
    """max(x, 0), with derivative 1 at 0 as of PyTorch's clamp."""
    return np.where(x < 0, 0, x)


def held(value: Any, x: Any) -> Any:
    """The value with the derivative of x."""
    return P.detach(value) + (x - P.detach(x))
