"""Normalisation with scales and shifts of its own, and running figures where there are batches."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...errors import ShapeError
from ...numpy._register import array, integers, ndim_of, shape_of
from .. import functional as F  # noqa: N812 - as everyone writes it
from ..module import Module, kept_figure


class _BatchNorm(Module):
    """In training, a call also moves running_mean and running_var: return the module if it shall last."""

    buffers: ClassVar[tuple[str, ...]] = ("running_mean", "running_var", "num_batches_tracked")
    ranks: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: Any = np.float32,
    ):
        self.weight: Any = np.ones(num_features, dtype) if affine else None
        self.bias: Any = np.zeros(num_features, dtype) if affine else None
        tracked = track_running_stats
        self.running_mean: Any = np.zeros(num_features, dtype) if tracked else None
        self.running_var: Any = np.ones(num_features, dtype) if tracked else None
        self.num_batches_tracked: Any = np.zeros((), np.int64) if tracked else None
        self.eps, self.momentum = eps, momentum

    def __call__(self, x: Any) -> Any:
        x = array(x)
        if ndim_of(x) not in self.ranks:
            wanted = " or ".join(map(str, self.ranks))
            raise ShapeError(
                f"{type(self).__name__} takes arrays of rank {wanted}, got shape {shape_of(x)}"
            )
        tracked = self.running_mean is not None
        y = F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not tracked, 0.0, self.eps,
        )  # fmt: skip
        if self.training and tracked:
            self.num_batches_tracked = self.num_batches_tracked + 1
            count = self.num_batches_tracked
            momentum: Any = self.momentum
            if momentum is None:  # the mean over all batches
                momentum = (1 / count).astype(self.running_mean.dtype)
            moved = F.batch_statistics(x, self.running_mean, self.running_var, momentum)
            self.running_mean, self.running_var = map(kept_figure, moved)
        return y


class BatchNorm1d(_BatchNorm):
    """(N, C) or (N, C, L)."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """(N, C, H, W)."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """(N, C, D, H, W)."""

    ranks = (5,)


class LayerNorm(Module):
    """layer_norm over the last axes."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
    ):
        self.normalized_shape = tuple(integers(normalized_shape))
        self.weight = np.ones(self.normalized_shape, dtype) if elementwise_affine else None
        self.bias = np.zeros(self.normalized_shape, dtype) if elementwise_affine and bias else None
        self.eps = eps

    def __call__(self, x: Any) -> Any:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """rms_norm over the last axes."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: Any = np.float32,
    ):
        self.normalized_shape = tuple(integers(normalized_shape))
        self.weight = np.ones(self.normalized_shape, dtype) if elementwise_affine else None
        self.eps = eps

    def __call__(self, x: Any) -> Any:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class GroupNorm(Module):
    """group_norm with one scale and shift per channel."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        dtype: Any = np.float32,
    ):
        if num_channels % num_groups:
            raise ShapeError(
                f"num_channels={num_channels} must be a multiple of num_groups={num_groups}"
            )
        self.num_groups, self.eps = num_groups, eps
        self.weight = np.ones(num_channels, dtype) if affine else None
        self.bias = np.zeros(num_channels, dtype) if affine else None

    def __call__(self, x: Any) -> Any:
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class LocalResponseNorm(Module):
    """x / (k + alpha · mean of x² over `size` neighbouring channels)^beta, for (N, C, …)."""

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def __call__(self, x: Any) -> Any:
        return F.local_response_norm(x, self.size, self.alpha, self.beta, self.k)
