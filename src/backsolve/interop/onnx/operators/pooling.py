"""Pooling: reductions over windows."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ....nn.functional._arguments import place
from ....numpy._register import dtype_of, ndim_of, shape_of
from ....primitive import P
from .table import operator, whole
from .windows import Windows


def _space(x: Any) -> tuple[int, ...]:
    return tuple(range(2, ndim_of(x)))


@operator("GlobalAveragePool")
def global_average(x: Any) -> Any:
    return np.mean(x, axis=_space(x), keepdims=True)


@operator("GlobalMaxPool")
def global_max(x: Any) -> Any:
    return np.max(x, axis=_space(x), keepdims=True)


@operator("GlobalLpPool")
def global_lp(x: Any, *, p: float = 2) -> Any:
    return np.sum(np.abs(x) ** p, axis=_space(x), keepdims=True) ** (1 / p)


@operator("AveragePool")
def average(
    x: Any, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0, dilations: Any = None,
    kernel_shape: Any, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    w = Windows(shape_of(x)[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    total = np.sum(w.of(x), axis=w.inside)
    return total * (1 / w.filled(bool(count_include_pad))).astype(dtype_of(x))


@operator("LpPool")
def lp(
    x: Any, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None, kernel_shape: Any,
    p: float = 2, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    w = Windows(shape_of(x)[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return np.sum(np.abs(w.of(x)) ** p, axis=w.inside) ** (1 / p)


@operator("MaxPool")
def maximum(
    x: Any, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None, kernel_shape: Any,
    pads: Any = None, storage_order: int = 0, strides: Any = None, _outputs: int,
) -> Any:  # fmt: skip
    w = Windows(shape_of(x)[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    lowest = -np.inf if dtype_of(x).kind == "f" else np.iinfo(dtype_of(x)).min
    windows = w.of(x, lowest)
    y = P.first_max(windows, axis=w.inside, keepdims=False)
    if _outputs == 1:
        return y
    flat = np.reshape(windows, (*shape_of(y), prod(w.size)))
    return y, _places(w, np.argmax(flat, -1), shape_of(x), bool(storage_order))


def _places(w: Windows, number: Any, shape: tuple[int, ...], is_column_major: bool) -> Any:
    """Where in x, taken as one row, the chosen entry of each window stands."""
    axes = range(len(w.space))
    coordinates = []
    for k in axes:
        inside = number // prod(w.size[k + 1 :]) % w.size[k]
        first = w.entries(k)[:, 0].reshape(-1, *[1] * (len(w.space) - 1 - k))
        coordinates.append(first + inside * w.dilation[k])
    at: Any = 0
    for k in reversed(axes) if is_column_major else axes:
        at = at * w.space[k] + coordinates[k]
    planes = np.arange(shape[0] * shape[1]).reshape(*shape[:2], *[1] * len(w.space))
    return (planes * prod(w.space) + at).astype(np.int64)


@operator("MaxUnpool")
def unpool(
    x: Any, indices: Any, output_shape: Any = None, *, kernel_shape: Any, pads: Any = None, strides: Any = None
) -> Any:  # fmt: skip
    n = len(kernel_shape)
    step, pads = strides or [1] * n, pads or [0] * 2 * n
    space = tuple(
        (s - 1) * t - pads[k] - pads[n + k] + kernel_shape[k]
        for k, (s, t) in enumerate(zip(shape_of(x)[2:], step, strict=True))
    )
    shape = (*shape_of(x)[:2], *space)
    empty = np.zeros(prod(shape), dtype_of(x))
    flat = P.scatter_set(empty, np.reshape(x, -1), np.reshape(indices, -1))
    y = np.reshape(flat, shape)
    if output_shape is None:
        return y
    wanted = whole(output_shape, "the output_shape of MaxUnpool")[2:]
    return place(y, (0,) * n, tuple(t - s for t, s in zip(wanted, space, strict=True)))
