"""Windows of an array made into one entry each, and the way back."""

from __future__ import annotations

from typing import Any

from .. import functional as F  # noqa: N812 - as everyone writes it
from .applied import Applied


class _MaxPool(Applied):
    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    dilation: Any = 1
    return_indices: bool = False
    ceil_mode: bool = False


class MaxPool1d(_MaxPool):
    """The largest entry of each window: (N, C, L) ↦ (N, C, L′); `stride` is kernel_size if not given.

    >>> import numpy as np
    >>> MaxPool1d(2)(np.array([[[1.0, 3.0, 2.0, 2.0]]]))
    array([[[3., 2.]]])
    """

    function = F.max_pool1d


class MaxPool2d(_MaxPool):
    """The largest entry of each window: (N, C, H, W) ↦ (N, C, H′, W′); see MaxPool1d.

    >>> import numpy as np
    >>> MaxPool2d(2)(np.zeros((8, 3, 32, 32))).shape
    (8, 3, 16, 16)
    """

    function = F.max_pool2d


class MaxPool3d(_MaxPool):
    """The largest entry of each window: (N, C, D, H, W) ↦ (N, C, D′, H′, W′); see MaxPool1d."""

    function = F.max_pool3d


class AvgPool1d(Applied):
    """The mean of each window: (N, C, L) ↦ (N, C, L′); `stride` is kernel_size if not given.

    >>> import numpy as np
    >>> AvgPool1d(2)(np.array([[[1.0, 3.0, 2.0, 4.0]]]))
    array([[[2., 3.]]])
    """

    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    function = F.avg_pool1d


class AvgPool2d(AvgPool1d):
    """The mean of each window, or its sum over divisor_override: (N, C, H, W) ↦ (N, C, H′, W′)."""

    divisor_override: int | None = None
    function = F.avg_pool2d


class AvgPool3d(AvgPool2d):
    """The mean of each window, or its sum over divisor_override: (N, C, D, H, W) ↦ (N, C, D′, H′, W′)."""

    function = F.avg_pool3d


class LPPool1d(Applied):
    """(Σ xᵖ)^(1/p) of each window, p = norm_type: (N, C, L) ↦ (N, C, L′)."""

    norm_type: float
    kernel_size: Any
    stride: Any = None
    ceil_mode: bool = False
    function = F.lp_pool1d


class LPPool2d(LPPool1d):
    """(Σ xᵖ)^(1/p) of each window, p = norm_type: (N, C, H, W) ↦ (N, C, H′, W′)."""

    function = F.lp_pool2d


class LPPool3d(LPPool1d):
    """(Σ xᵖ)^(1/p) of each window, p = norm_type: (N, C, D, H, W) ↦ (N, C, D′, H′, W′)."""

    function = F.lp_pool3d


class MaxUnpool1d(Applied):
    """What MaxPool1d left, back where its indices say, among zeros.

    >>> import numpy as np
    >>> largest, where = MaxPool1d(2, return_indices=True)(np.array([[[1.0, 3.0, 2.0, 0.0]]]))
    >>> MaxUnpool1d(2)(largest, where)
    array([[[0., 3., 2., 0.]]])
    """

    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    function = F.max_unpool1d


class MaxUnpool2d(MaxUnpool1d):
    """What MaxPool2d left, back where its indices say, among zeros; see MaxUnpool1d."""

    function = F.max_unpool2d


class MaxUnpool3d(MaxUnpool1d):
    """What MaxPool3d left, back where its indices say, among zeros; see MaxUnpool1d."""

    function = F.max_unpool3d


class AdaptiveAvgPool1d(Applied):
    """Means over output_size parts: (N, C, L) ↦ (N, C, output_size), whatever L is.

    >>> import numpy as np
    >>> AdaptiveAvgPool1d(2)(np.array([[[1.0, 2.0, 3.0]]]))
    array([[[1.5, 2.5]]])
    """

    output_size: Any
    function = F.adaptive_avg_pool1d


class AdaptiveAvgPool2d(AdaptiveAvgPool1d):
    """Means over output_size parts: (N, C, H, W) ↦ (N, C, *output_size); None keeps an axis."""

    function = F.adaptive_avg_pool2d


class AdaptiveAvgPool3d(AdaptiveAvgPool1d):
    """Means over output_size parts: (N, C, D, H, W) ↦ (N, C, *output_size); None keeps an axis."""

    function = F.adaptive_avg_pool3d


class AdaptiveMaxPool1d(Applied):
    """The largest entries of output_size parts: (N, C, L) ↦ (N, C, output_size), whatever L is."""

    output_size: Any
    return_indices: bool = False
    function = F.adaptive_max_pool1d


class AdaptiveMaxPool2d(AdaptiveMaxPool1d):
    """The largest entries of output_size parts: (N, C, H, W) ↦ (N, C, *output_size); None keeps an axis."""

    function = F.adaptive_max_pool2d


class AdaptiveMaxPool3d(AdaptiveMaxPool1d):
    """The largest entries of output_size parts: (N, C, D, H, W) ↦ (N, C, *output_size); None keeps an axis."""

    function = F.adaptive_max_pool3d
