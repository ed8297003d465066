"""Convolutions."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ....errors import UnsupportedError
from ....nn import functional
from ....nn.functional._arguments import place
from ....numpy._register import ndim_of, shape_of
from ....operators.windows import Cut
from ....primitive import P
from .table import operator, read, whole
from .windows import Windows


def _in_space(name: str, n: int) -> Any:
    if n not in (1, 2, 3):
        raise UnsupportedError(f"{name} works in one to three dimensions of space, got {n}")
    return getattr(functional, f"{name}{n}d")


@operator("Conv")
def conv(
    x: Any, w: Any, b: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    windows = Windows(shape_of(x)[2:], shape_of(w)[2:], strides, dilations, pads, auto_pad)
    convolve = _in_space("conv", ndim_of(x) - 2)
    padded = place(x, windows.before, windows.after)
    return convolve(padded, w, b, windows.step, 0, windows.dilation, group)


@operator("ConvTranspose")
def conv_transpose(
    x: Any, w: Any, b: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, output_padding: Any = None, output_shape: Any = None, pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    n = ndim_of(x) - 2
    space, size = shape_of(x)[2:], shape_of(w)[2:]
    step, dilation, more = strides or [1] * n, dilations or [1] * n, output_padding or [0] * n
    full = [
        t * (s - 1) + d * (k - 1) + 1
        for s, t, d, k in zip(space, step, dilation, size, strict=True)
    ]
    if output_shape is None and auto_pad.startswith("SAME"):
        output_shape = [s * t for s, t in zip(space, step, strict=True)]
    if output_shape is None:
        pads = pads or [0] * 2 * n
        before, after = pads[:n], pads[n:]
    else:
        total = [f + m - s for f, m, s in zip(full, more, output_shape[-n:], strict=True)]
        less, rest = [t // 2 for t in total], [t - t // 2 for t in total]
        before, after = (less, rest) if auto_pad == "SAME_UPPER" else (rest, less)
    y = _in_space("conv_transpose", n)(x, w, None, step, 0, 0, group, dilation)
    y = place(y, tuple(-p for p in before), tuple(m - p for m, p in zip(more, after, strict=True)))
    return y if b is None else y + np.reshape(b, (-1, *[1] * n))


@operator("Col2Im")
def col2im(
    x: Any, image_shape: Any, block_shape: Any, *, dilations: Any = None, pads: Any = None, strides: Any = None
) -> Any:  # fmt: skip
    space, size = whole(image_shape, "an image's shape"), whole(block_shape, "a block's shape")
    windows = Windows(space, size, strides, dilations, pads)
    n = len(space)
    batch, channels = shape_of(x)[0], shape_of(x)[1] // int(np.prod(size))
    y = np.reshape(x, (batch, channels, *size, *windows.counts))
    y = np.transpose(y, (0, 1, *range(n + 2, 2 * n + 2), *range(2, n + 2)))
    full = [s + b + a for s, b, a in zip(space, windows.before, windows.after, strict=True)]
    cut = Cut(tuple(range(2, n + 2)), size, windows.step, windows.dilation)
    y = P.fold(y, cut=cut, shape=(batch, channels, *full))
    return place(y, tuple(-p for p in windows.before), tuple(-p for p in windows.after))


@operator("DeformConv")
def deform_conv(
    x: Any, w: Any, offset: Any, b: Any = None, mask: Any = None, *, dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, offset_group: int = 1, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """Windows whose entries are moved by offsets, read between the entries of x."""
    n, space, size = ndim_of(x) - 2, shape_of(x)[2:], shape_of(w)[2:]
    windows = Windows(space, size, strides, dilations, pads)
    batch, channels = shape_of(x)[:2]
    lots, kernel, counts = batch * offset_group, int(np.prod(size)), windows.counts
    moved = np.reshape(offset, (lots, kernel, n, *counts))
    at = []
    for k in range(n):
        grid = windows.entries(k).T  # (size, counts) of one axis, among all
        shape = [1] * 2 * n
        shape[k], shape[n + k] = grid.shape
        rest = np.broadcast_to(grid.reshape(shape), (*size, *counts)).reshape(kernel, *counts)
        at.append(moved[:, :, k] + rest.astype(moved.dtype))
    image = np.reshape(x, (lots, channels // offset_group, *space))
    read = between(image, at)  # (lots, channels, kernel, counts)
    if mask is not None:
        read = read * np.reshape(mask, (lots, 1, kernel, *counts))
    out = shape_of(w)[0]
    read = np.reshape(read, (batch, group, channels // group, kernel, -1))
    weights = np.reshape(w, (group, out // group, -1, kernel))
    y = np.reshape(np.einsum("bgckp,gock->bgop", read, weights), (batch, out, *counts))
    return y if b is None else y + np.reshape(b, (-1, *[1] * n))


def between(x: Any, at: list[Any]) -> Any:
    """(N, C, space…) at places (N, P…), one array for each axis of space: (N, C, P…), linear between entries,
    zero outside."""
    space = shape_of(x)[2:]
    last = np.moveaxis(x, 1, -1)
    lots = np.arange(shape_of(x)[0]).reshape(-1, *[1] * (ndim_of(at[0]) - 1))
    lows = [np.floor(a) for a in at]
    total: Any = 0
    for corner in product((0, 1), repeat=len(space)):
        weight: Any = 1
        index: list[Any] = [lots]
        for a, low, up, s in zip(at, lows, corner, space, strict=True):
            place = low + up
            is_inside = np.greater_equal(place, 0) & np.less(place, s)
            weight = weight * np.where(is_inside, 1 - np.abs(a - place), 0)
            index.append(np.clip(place, 0, s - 1).astype(np.int64))
        total = total + read(last, *index) * weight[..., None]
    return np.moveaxis(total, -1, 1)
