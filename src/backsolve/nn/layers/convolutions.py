"""Convolutions with weights of their own."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from ... import random
from ...errors import ShapeError
from .. import functional as F  # noqa: N812 - as everyone writes it
from ..functional._arguments import each
from ..functional.convolution import sides
from ..functional.padding import pad
from ..init import fans, kaiming_uniform, next_key, uniform
from ..module import Module


class _Conv(Module):
    dimensions: ClassVar[int]
    transposed: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        size = each(kernel_size, self.dimensions, "kernel_size", 1)
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(f"padding_mode {padding_mode!r} is not known")
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ShapeError(
                f"groups={groups} must divide in_channels={in_channels} and out_channels={out_channels}"
            )
        shape = (out_channels, in_channels // groups, *size)
        if self.transposed:
            shape = (in_channels, out_channels // groups, *size)
        weights, biases = random.split(next_key(key))
        self.weight = kaiming_uniform(shape, math.sqrt(5), key=weights, dtype=dtype)
        bound = 1 / math.sqrt(max(fans(shape)[0], 1))
        self.bias = (
            uniform((out_channels,), -bound, bound, key=biases, dtype=dtype) if bias else None
        )
        self.stride = each(stride, self.dimensions, "stride", 1)
        self.padding = (
            padding if isinstance(padding, str) else each(padding, self.dimensions, "padding")
        )
        self.dilation = each(dilation, self.dimensions, "dilation", 1)
        self.groups, self.padding_mode = groups, padding_mode

    def __call__(self, x: Any) -> Any:
        function = (F.conv1d, F.conv2d, F.conv3d)[self.dimensions - 1]
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            before, after = sides(
                f"conv{self.dimensions}d",
                padding,
                self.weight.shape[2:],
                self.stride,
                self.dilation,
            )
            widths = [w for pair in zip(before[::-1], after[::-1], strict=True) for w in pair]
            x, padding = pad(x, widths, self.padding_mode), 0
        return function(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """conv1d with weights; `padding_mode` may be "zeros", "reflect", "replicate" or "circular"."""

    dimensions = 1


class Conv2d(_Conv):
    """conv2d with weights; see Conv1d.

    >>> import numpy as np
    >>> Conv2d(1, 6, 5, padding=2)(np.zeros((4, 1, 28, 28), np.float32)).shape
    (4, 6, 28, 28)
    """

    dimensions = 2


class Conv3d(_Conv):
    """conv3d with weights; see Conv1d."""

    dimensions = 3


class _ConvTranspose(_Conv):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        if padding_mode != "zeros":
            raise ValueError(f'transposed convolutions pad with "zeros" only, got {padding_mode!r}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            key=key, dtype=dtype,
        )  # fmt: skip
        self.output_padding = each(output_padding, self.dimensions, "output_padding")

    def __call__(self, x: Any) -> Any:
        functions = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
        return functions[self.dimensions - 1](
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding,
            self.groups, self.dilation,
        )  # fmt: skip


class ConvTranspose1d(_ConvTranspose):
    """conv_transpose1d with weights."""

    dimensions = 1


class ConvTranspose2d(_ConvTranspose):
    """conv_transpose2d with weights."""

    dimensions = 2


class ConvTranspose3d(_ConvTranspose):
    """conv_transpose3d with weights."""

    dimensions = 3
