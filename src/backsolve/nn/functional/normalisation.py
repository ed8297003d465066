"""Normalisation: to mean 0 and variance 1 over some axes, then a scale and a shift."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...numpy._register import array, dtype_of, integers, ndim_of, shape_of
from ...operators.windows import Cut
from ...primitive import P
from ._arguments import place
from ._reduction import in_singles


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """(N, C, …) normalised in each channel: by the batch in training, else by the running figures.

    Nothing is changed in place: `batch_statistics` gives the new running figures.

    >>> import numpy as np
    >>> batch_norm(np.array([[1.0], [3.0]]), None, None, training=True, eps=0.0)
    array([[-1.], [ 1.]])
    """
    x = array(input)
    if ndim_of(x) < 2:
        raise ShapeError(f"batch_norm takes arrays (N, C, …), got shape {shape_of(x)}")
    if training:
        axes = (0, *range(2, ndim_of(x)))
        if prod(shape_of(x)[k] for k in axes) == 1:
            raise ShapeError(
                f"batch_norm in training needs more than one value per channel, got {shape_of(x)}"
            )
        y = _normalised(x, axes, eps)
    else:
        if running_mean is None or running_var is None:
            raise ValueError("batch_norm with training=False needs running_mean and running_var")
        mean, var = (_per_channel(a, x) for a in (running_mean, running_var))
        y = _like((x - mean) / np.sqrt(var + eps), x)
    return _scaled(y, _per_channel(weight, x), _per_channel(bias, x))


def batch_statistics(
    input: Any, running_mean: Any, running_var: Any, momentum: float = 0.1
) -> tuple[Any, Any]:
    """The running mean and variance after one more batch: what PyTorch's batch_norm changes in place."""
    x = in_singles(input)
    axes = (0, *range(2, ndim_of(x)))
    mean, var = np.mean(x, axis=axes), np.var(x, axis=axes, ddof=1)
    return (
        running_mean * (1 - momentum) + mean * momentum,
        running_var * (1 - momentum) + var * momentum,
    )


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """(N, C, …) normalised in each channel of each example."""
    x = array(input)
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    axes = tuple(range(2, ndim_of(x)))
    if prod(shape_of(x)[2:]) == 1:
        raise ShapeError(
            f"instance_norm needs more than one value per channel, got shape {shape_of(x)}"
        )
    return _scaled(_normalised(x, axes, eps), _per_channel(weight, x), _per_channel(bias, x))


def layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Normalised over the last axes, which have the shape `normalized_shape`."""
    x = array(input)
    return _scaled(_normalised(x, _last(x, normalized_shape, "layer_norm"), eps), weight, bias)


def rms_norm(
    input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Any:
    """x / √(mean x² + eps) over the last axes."""
    x = array(input)
    axes = _last(x, normalized_shape, "rms_norm")
    eps = float(np.finfo(dtype_of(x)).eps) if eps is None else eps
    wide = in_singles(x)
    mean = np.mean(np.square(wide), axis=axes, keepdims=True)
    return _scaled(_like(wide / np.sqrt(mean + eps), x), weight, None)


def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """(N, C, …) normalised in each of `num_groups` groups of channels of each example."""
    x = array(input)
    if ndim_of(x) < 2 or num_groups < 1 or shape_of(x)[1] % num_groups:
        raise ShapeError(
            f"group_norm takes (N, C, …) with C a multiple of num_groups={num_groups}, "
            f"got shape {shape_of(x)}"
        )
    batch, channels, *space = shape_of(x)
    grouped = P.reshape(x, shape=(batch, num_groups, channels // num_groups, *space))
    y = _normalised(grouped, tuple(range(2, 3 + len(space))), eps)
    y = P.reshape(y, shape=shape_of(x))
    return _scaled(y, _per_channel(weight, x), _per_channel(bias, x))


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """x / (k + alpha · mean of x² over `size` neighbouring channels)^beta."""
    x = array(input)
    if ndim_of(x) < 3:
        raise ShapeError(f"local_response_norm takes (N, C, …), got shape {shape_of(x)}")
    behind = ndim_of(x) - 2
    before = (size // 2, *[0] * behind)
    after = ((size - 1) // 2, *[0] * behind)
    squares = place(np.square(x), before, after)
    windows = P.windows(squares, cut=Cut((1,), (size,), (1,), (1,)))
    return x / (np.mean(windows, axis=-1) * alpha + k) ** beta


# ---- parts


def _normalised(x: Any, axes: tuple[int, ...], eps: float) -> Any:
    wide = in_singles(x)
    centred = wide - np.mean(wide, axis=axes, keepdims=True)
    var = np.mean(np.square(centred), axis=axes, keepdims=True)
    return _like(centred / np.sqrt(var + eps), x)


def _like(y: Any, x: Any) -> Any:
    """y in the 16 bits that x has."""
    return y.astype(np.float16) if dtype_of(x) == np.float16 else y


def _scaled(y: Any, weight: Any, bias: Any) -> Any:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _per_channel(a: Any, x: Any) -> Any:
    """One number per channel, to go with (N, C, …)."""
    if a is None:
        return None
    a = array(a)
    if shape_of(a) != shape_of(x)[1:2]:
        raise ShapeError(
            f"one number for each of {shape_of(x)[1]} channels was expected, got shape {shape_of(a)}"
        )
    return P.reshape(a, shape=(*shape_of(a), *[1] * (ndim_of(x) - 2)))


def _last(x: Any, normalized_shape: Any, name: str) -> tuple[int, ...]:
    wanted = tuple(integers(normalized_shape))
    n = ndim_of(x)
    if not wanted or shape_of(x)[n - len(wanted) :] != wanted:
        raise ShapeError(
            f"{name}: normalized_shape={wanted} does not end the shape {shape_of(x)} of the input"
        )
    return tuple(range(n - len(wanted), n))
