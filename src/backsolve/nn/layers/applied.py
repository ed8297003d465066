"""Layers without parameters: functions of `nn.functional` with their settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

from .. import functional as F  # noqa: N812 - as everyone writes it
from ..module import Module


class Applied(Module):
    """A function of nn.functional; the fields are its keyword arguments."""

    function: ClassVar[Callable[..., Any]]

    def __call__(self, *inputs: Any) -> Any:
        settings = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return type(self).function(*inputs, **settings)


# ---- activations


class ReLU(Applied):
    function = F.relu


class ReLU6(Applied):
    function = F.relu6


class LeakyReLU(Applied):
    negative_slope: float = 0.01
    function = F.leaky_relu


class ELU(Applied):
    alpha: float = 1.0
    function = F.elu


class SELU(Applied):
    function = F.selu


class CELU(Applied):
    alpha: float = 1.0
    function = F.celu


class GELU(Applied):
    approximate: str = "none"
    function = F.gelu


class SiLU(Applied):
    function = F.silu


class Mish(Applied):
    function = F.mish


class Hardtanh(Applied):
    min_val: float = -1.0
    max_val: float = 1.0
    function = F.hardtanh


class Hardsigmoid(Applied):
    function = F.hardsigmoid


class Hardswish(Applied):
    function = F.hardswish


class Hardshrink(Applied):
    lambd: float = 0.5
    function = F.hardshrink


class Softshrink(Applied):
    lambd: float = 0.5
    function = F.softshrink


class Tanhshrink(Applied):
    function = F.tanhshrink


class Softplus(Applied):
    beta: float = 1.0
    threshold: float = 20.0
    function = F.softplus


class Softsign(Applied):
    function = F.softsign


class Threshold(Applied):
    threshold: float
    value: float
    function = F.threshold


class LogSigmoid(Applied):
    function = F.logsigmoid


class Sigmoid(Applied):
    function = F.sigmoid


class Tanh(Applied):
    function = F.tanh


class Softmax(Applied):
    dim: int | None = None
    function = F.softmax


class Softmin(Applied):
    dim: int | None = None
    function = F.softmin


class LogSoftmax(Applied):
    dim: int | None = None
    function = F.log_softmax


class GLU(Applied):
    dim: int = -1
    function = F.glu


# ---- pooling


class _MaxPool(Applied):
    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    dilation: Any = 1
    return_indices: bool = False
    ceil_mode: bool = False


class MaxPool1d(_MaxPool):
    function = F.max_pool1d


class MaxPool2d(_MaxPool):
    function = F.max_pool2d


class MaxPool3d(_MaxPool):
    function = F.max_pool3d


class AvgPool1d(Applied):
    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    function = F.avg_pool1d


class AvgPool2d(AvgPool1d):
    divisor_override: int | None = None
    function = F.avg_pool2d


class AvgPool3d(AvgPool2d):
    function = F.avg_pool3d


class LPPool1d(Applied):
    norm_type: float
    kernel_size: Any
    stride: Any = None
    ceil_mode: bool = False
    function = F.lp_pool1d


class LPPool2d(LPPool1d):
    function = F.lp_pool2d


class LPPool3d(LPPool1d):
    function = F.lp_pool3d


class MaxUnpool1d(Applied):
    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    function = F.max_unpool1d


class MaxUnpool2d(MaxUnpool1d):
    function = F.max_unpool2d


class MaxUnpool3d(MaxUnpool1d):
    function = F.max_unpool3d


class AdaptiveAvgPool1d(Applied):
    output_size: Any
    function = F.adaptive_avg_pool1d


class AdaptiveAvgPool2d(AdaptiveAvgPool1d):
    function = F.adaptive_avg_pool2d


class AdaptiveAvgPool3d(AdaptiveAvgPool1d):
    function = F.adaptive_avg_pool3d


class AdaptiveMaxPool1d(Applied):
    output_size: Any
    return_indices: bool = False
    function = F.adaptive_max_pool1d


class AdaptiveMaxPool2d(AdaptiveMaxPool1d):
    function = F.adaptive_max_pool2d


class AdaptiveMaxPool3d(AdaptiveMaxPool1d):
    function = F.adaptive_max_pool3d


# ---- moving entries


class Upsample(Applied):
    size: Any = None
    scale_factor: Any = None
    mode: str = "nearest"
    align_corners: bool | None = None
    function = F.interpolate


class PixelShuffle(Applied):
    upscale_factor: int
    function = F.pixel_shuffle


class PixelUnshuffle(Applied):
    downscale_factor: int
    function = F.pixel_unshuffle


class ChannelShuffle(Applied):
    groups: int
    function = F.channel_shuffle


class Unfold(Applied):
    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1
    function = F.unfold


class Fold(Applied):
    output_size: Any
    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1
    function = F.fold
