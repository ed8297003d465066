"""Tensors of PyTorch as arrays of NumPy, and back: the same memory."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from ...errors import DeviceError, DTypeError, UnsupportedError

_LARGE = 1 << 15  # bytes of a transposed matrix that is compiled for rather than copied


def array_of(x: Any) -> Any:
    """The numbers of a tensor, where they are."""
    if not x.is_cpu:
        raise DeviceError(
            f"a tensor of shape {tuple(x.shape)} is on {x.device}, and compiled functions run on the CPU: "
            "pass x.cpu(), and bring what comes back with y.to(device); derivatives go the same way"
        )
    try:
        array = x.numpy(force=True)  # also of what requires a gradient, is conjugated or negated
    except (TypeError, RuntimeError) as error:
        raise _refusal(x) from error
    flags = array.flags
    if flags.c_contiguous or (flags.f_contiguous and array.nbytes > _LARGE):
        return array
    return np.ascontiguousarray(array)  # such as the seed of a sum, one number everywhere


def _refusal(x: Any) -> Exception:
    if x.layout is not torch.strided:
        return UnsupportedError(
            f"a tensor is {x.layout}; functions take dense ones: pass x.to_dense(), or x.values() and indices"
        )
    return _unknown(x.dtype)


def tensor_of(y: Any) -> Any:
    """A tensor in the memory of an array; numbers become tensors without axes."""
    try:
        return torch.from_numpy(y if type(y) is np.ndarray else np.asarray(y))
    except TypeError as error:
        raise DTypeError(f"PyTorch has no {np.asarray(y).dtype}: convert the result") from error


@functools.cache
def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    try:
        return np.dtype(_name(dtype))
    except TypeError as error:
        raise _unknown(dtype) from error


@functools.cache
def torch_dtype(dtype: np.dtype[Any]) -> Any:
    return getattr(torch, dtype.name)


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _unknown(dtype: Any) -> DTypeError:
    return DTypeError(f"NumPy has no {_name(dtype)}: pass x.float(), or x.to(torch.float64)")
