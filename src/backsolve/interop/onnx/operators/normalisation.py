"""Normalisations, and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import UnsupportedError
from ....numpy._register import dtype_of, ndim_of, shape_of
from .table import number, operator


def _channels(a: Any, x: Any) -> Any:
    """One number for each channel, beside (N, C, …)."""
    return np.reshape(a, (-1, *[1] * (ndim_of(x) - 2)))


def _normalised(x: Any, axes: tuple[int, ...], epsilon: float) -> tuple[Any, Any, Any]:
    """x of mean 0 and variance 1 along axes, its mean, and one over its deviation."""
    mean = np.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    inverse = 1 / np.sqrt(np.mean(centred * centred, axis=axes, keepdims=True) + epsilon)
    return centred * inverse, mean, inverse


@operator("BatchNormalization")
def batch_norm(
    x: Any, scale: Any, bias: Any, mean: Any, variance: Any, *, epsilon: float = 1e-5, momentum: float = 0.9,
    training_mode: int = 0, spatial: int = 1, is_test: int = 1, _outputs: int,
) -> Any:  # fmt: skip
    if not training_mode and _outputs > 1:
        raise UnsupportedError("a BatchNormalization that trains, of an opset before 14")
    if training_mode:
        axes = (0, *range(2, ndim_of(x)))
        own = np.mean(x, axis=axes), np.var(x, axis=axes)
        running = tuple(
            momentum * old + (1 - momentum) * new
            for old, new in zip((mean, variance), own, strict=True)
        )
        mean, variance = own
    factor = scale / np.sqrt(variance + epsilon)
    shift = bias - mean * factor
    y = (x * _channels(factor, x) + _channels(shift, x)).astype(dtype_of(x))
    return (y, *running) if training_mode else y


@operator("InstanceNormalization")
def instance_norm(x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5) -> Any:
    y, _, _ = _normalised(x, tuple(range(2, ndim_of(x))), epsilon)
    return y * _channels(scale, x) + _channels(bias, x)


def _grouped(x: Any, groups: int, epsilon: float) -> Any:
    n, c, *space = shape_of(x)
    parts = np.reshape(x, (n, groups, c // groups, *space))
    return _normalised(parts, tuple(range(2, len(space) + 3)), epsilon)[0]


@operator("GroupNormalization", since=18)
def group_norm_by_group(
    x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5, num_groups: int
) -> Any:
    y = _grouped(x, num_groups, epsilon)
    return np.reshape(y * _channels(scale, y) + _channels(bias, y), shape_of(x))


@operator("GroupNormalization", since=21)
def group_norm(
    x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Any:
    y = np.reshape(_grouped(x, num_groups, epsilon), shape_of(x))
    return y * _channels(scale, x) + _channels(bias, x)


@operator("LayerNormalization")
def layer_norm(
    x: Any, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1,
    _outputs: int,
) -> Any:  # fmt: skip
    axes = tuple(range(axis % ndim_of(x), ndim_of(x)))
    y, mean, inverse = _normalised(x, axes, epsilon)
    y = y * scale if bias is None else y * scale + bias
    return (y, mean, inverse)[:_outputs] if _outputs > 1 else y


@operator("RMSNormalization")
def rms_norm(
    x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    axes = tuple(range(axis % ndim_of(x), ndim_of(x)))
    return x / np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + epsilon) * scale


@operator("LpNormalization")
def lp_normalization(x: Any, *, axis: int = -1, p: int = 2) -> Any:
    """x over its norm; what is all zeros stays so."""
    size = np.abs(x) if p == 1 else x * x
    total = np.sum(size, axis=axis, keepdims=True)
    is_zero = np.equal(total, 0)
    norm = np.where(is_zero, 1, total)
    return np.where(is_zero, 0, x / (norm if p == 1 else np.sqrt(norm))).astype(dtype_of(x))


@operator("MeanVarianceNormalization")
def mean_variance(x: Any, *, axes: Any = (0, 2, 3)) -> Any:
    centred = x - np.mean(x, axis=tuple(axes), keepdims=True)
    deviation = np.sqrt(np.mean(centred * centred, axis=tuple(axes), keepdims=True))
    return centred / (deviation + 1e-9)


@operator("LRN")
def local_response(
    x: Any, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int
) -> Any:
    """x over a power of the mean square of `size` neighbouring channels."""
    channels, before = shape_of(x)[1], (size - 1) // 2
    squares = np.pad(x * x, [(0, 0), (before, size - 1 - before), *[(0, 0)] * (ndim_of(x) - 2)])
    total = sum(squares[:, k : k + channels] for k in range(size))
    return x / (bias + alpha / size * total) ** beta


# ---- dropout, which passes everything unless the graph says that it trains


@operator("Dropout")
def dropout_by_attribute(x: Any, *, is_test: int = 1, ratio: float = 0.5, _outputs: int) -> Any:
    return dropout(x, _outputs=_outputs)


@operator("Dropout", since=12)
def dropout(
    x: Any, ratio: Any = None, training_mode: Any = None, *, seed: int | None = None, _outputs: int
) -> Any:
    trains = training_mode is not None and number(training_mode, "Dropout's training_mode")
    if trains and (ratio is None or number(ratio, "Dropout's ratio")):
        raise UnsupportedError("Dropout draws random numbers here: training_mode is set")
    return (x, np.ones(shape_of(x), bool)) if _outputs == 2 else x
