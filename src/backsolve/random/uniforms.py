"""What all distributions are made of: shapes, precisions, and uniform numbers."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError
from ..tensor import Staged, Tensor
from .philox import State, bits, halves

_U32, _U64 = np.uint32, np.uint64


def full_shape(shape: Any, *parameters: Any) -> tuple[int, ...]:
    """What is asked for; without that, the shape of the parameters."""
    own = np.broadcast_shapes(*[np.shape(p) for p in parameters])
    if shape is None:
        return own
    shape = tuple(operator.index(n) for n in ((shape,) if isinstance(shape, int) else shape))
    rest = shape[len(shape) - len(own) :]
    if len(own) > len(shape) or any(m not in (1, n) for m, n in zip(own, rest, strict=True)):
        raise ShapeError(f"parameters of shape {own} do not fit draws of shape {shape}")
    return shape


def precision(dtype: Any) -> np.dtype[Any]:
    found = np.dtype(dtype)
    if found not in (np.float32, np.float64):
        raise DTypeError(f"real numbers are drawn as float32 or float64, got dtype={dtype!r}")
    return found


def in_precision(dtype: np.dtype[Any], *parameters: Any) -> list[Any]:
    """The parameters as numbers of this dtype; Python's own numbers take any."""
    arrays = [p if isinstance(p, Tensor) else np.asarray(p) for p in parameters]
    weak = [type(p) in (int, float) for p in parameters]
    return [
        p if is_weak else a if a.dtype == dtype else a.astype(dtype)
        for p, a, is_weak in zip(parameters, arrays, weak, strict=True)
    ]


def half_open(state: State, shape: Any, dtype: np.dtype[Any]) -> Any:
    """Uniform in [0, 1): what `numpy.random.Generator(Philox).random` gives, in either precision."""
    if dtype == np.float32:
        return (halves(state, shape) >> _U32(8)).astype(dtype) * np.float32(2.0**-24)
    return (bits(state, shape) >> _U64(11)).astype(dtype) * 2.0**-53


def inside(state: State, shape: Any, dtype: np.dtype[Any]) -> Any:
    """Uniform in (0, 1), the ends left out: (k + ½) / 2⁵², or 2²³."""
    if dtype == np.float32:
        k = (halves(state, shape) >> _U32(9)).astype(dtype)
        return (k + np.float32(0.5)) * np.float32(2.0**-23)
    return ((bits(state, shape) >> _U64(12)).astype(dtype) + 0.5) * 2.0**-52


def check(name: str, argument: str, x: Any, holds: Any, wanted: str) -> None:
    """A parameter outside of its domain, where its value is known, is an error; NaN is outside."""
    if isinstance(x, Staged):
        return
    value = np.asarray(x._v if isinstance(x, Tensor) else x)
    if not np.all(holds(value)):
        raise ValueError(f"`{name}` needs {argument} {wanted}, got {argument}={value!r}")
