"""Layers that move entries: other sizes, shuffles, windows as columns."""

from __future__ import annotations

from typing import Any

from .. import functional as F  # noqa: N812 - as everyone writes it
from .applied import Applied


class Upsample(Applied):
    """(N, C, …) at another size, given itself or by a factor, with the modes of `nn.functional.interpolate`.

    >>> import numpy as np
    >>> Upsample(scale_factor=2)(np.array([[[1.0, 2.0]]]))
    array([[[1., 1., 2., 2.]]])
    """

    size: Any = None
    scale_factor: Any = None
    mode: str = "nearest"
    align_corners: bool | None = None
    function = F.interpolate


class PixelShuffle(Applied):
    """Channels into places: (…, C·r², H, W) ↦ (…, C, H·r, W·r), r = upscale_factor.

    >>> import numpy as np
    >>> PixelShuffle(2)(np.arange(4.0).reshape(1, 4, 1, 1))
    array([[[[0., 1.],
             [2., 3.]]]])
    """

    upscale_factor: int
    function = F.pixel_shuffle


class PixelUnshuffle(Applied):
    """Places into channels, the inverse of PixelShuffle: (…, C, H·r, W·r) ↦ (…, C·r², H, W)."""

    downscale_factor: int
    function = F.pixel_unshuffle


class ChannelShuffle(Applied):
    """Channels of (N, C, …) dealt out: the first of each group, then the second, and so on."""

    groups: int
    function = F.channel_shuffle


class Unfold(Applied):
    """Every window as a column: (N, C, H, W) ↦ (N, C·K·L, number of windows). Also called im2col.

    >>> import numpy as np
    >>> Unfold(3)(np.zeros((1, 2, 5, 5))).shape
    (1, 18, 9)
    """

    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1
    function = F.unfold


class Fold(Applied):
    """The adjoint of Unfold, which adds windows up: (N, C·K·L, number of windows) ↦ (N, C, *output_size)."""

    output_size: Any
    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1
    function = F.fold
