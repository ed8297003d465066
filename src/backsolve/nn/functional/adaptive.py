"""Pooling to a wanted size: adaptive, over parts as even as can be, and fractional, over random ones."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ... import random
from ...errors import ShapeError
from ...numpy._register import array, shape_of
from ...primitive import P
from ...primitives.reduce import first_place
from ._arguments import Shape, batched, each
from .resampling import adaptive_mean, parts_of


def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """Means over output_size parts of (N, C, L), as PyTorch's.

    >>> import numpy as np
    >>> adaptive_avg_pool1d(np.array([[[1.0, 2.0, 3.0]]]), 2)
    array([[[1.5, 2.5]]])
    """
    return _mean(1, input, output_size)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """Means over output_size parts of (N, C, H, W); None keeps an axis."""
    return _mean(2, input, output_size)


def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """Means over output_size parts of (N, C, D, H, W); None keeps an axis."""
    return _mean(3, input, output_size)


def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest entries of output_size parts of (N, C, L), and where they stand if asked."""
    return _max(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest entries of output_size parts of (N, C, H, W); None keeps an axis."""
    return _max(2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest entries of output_size parts of (N, C, D, H, W); None keeps an axis."""
    return _max(3, input, output_size, return_indices)


def fractional_max_pool2d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
    *,
    generator: Any = None,
) -> Any:
    """The largest entries of windows at random distances, each plane for itself.

    The numbers are drawn with `generator` (a state of backsolve.random) or given: (N, C, 2), between 0 and 1.
    """
    return _fractional(
        2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples, generator
    )


def fractional_max_pool3d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
    *,
    generator: Any = None,
) -> Any:
    """The largest entries of windows at random distances; the numbers are of shape (N, C, 3)."""
    return _fractional(
        3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples, generator
    )


# ---- in any number of dimensions


def _target(name: str, old: Shape, output_size: Any) -> Shape:
    """The wanted size, where None stands for that of the input."""
    given = list(output_size) if hasattr(output_size, "__len__") else [output_size]
    given = given * len(old) if len(given) == 1 else given
    if len(given) != len(old):
        raise ShapeError(f"{name}: output_size must have {len(old)} numbers, got {output_size!r}")
    wanted = [o if g is None else g for g, o in zip(given, old, strict=True)]
    return each(wanted, len(old), f"{name}: output_size")


def _mean(n: int, input: Any, output_size: Any) -> Any:
    name = f"adaptive_avg_pool{n}d"

    def pool(x: Any) -> Any:
        return adaptive_mean(x, _target(name, shape_of(x)[2:], output_size))

    return batched(pool, input, n + 2, name)


def _max(n: int, input: Any, output_size: Any, with_places: bool) -> Any:
    name = f"adaptive_max_pool{n}d"

    def pool(x: Any) -> Any:
        space = shape_of(x)[2:]
        target = _target(name, space, output_size)
        if 0 in space:
            raise ShapeError(f"{name} takes no empty planes, got shape {shape_of(x)}")
        places = [parts_of(o, t)[0] for o, t in zip(space, target, strict=True)]
        parts, flat = x, np.zeros((), int)
        for k in range(n):
            parts = np.take(parts, places[k], axis=2 + 2 * k)  # an axis of parts, one inside them
            shape = [1] * (2 * n)
            shape[2 * k : 2 * k + 2] = places[k].shape
            flat = flat + places[k].reshape(shape) * prod(space[k + 1 :])
        inside = tuple(range(3, 3 + 2 * n, 2))
        return _largest(parts, inside, flat, with_places)

    return batched(pool, input, n + 2, name)


def _largest(parts: Any, inside: tuple[int, ...], flat: Any, with_places: bool) -> Any:
    """The maximum over the axes inside of parts, and at which of the numbers `flat` it stands."""
    y = P.first_max(parts, axis=inside, keepdims=False)
    if not with_places:
        return y
    first, numbers = first_place(y, parts, inside)
    return y, np.sum(np.where(np.equal(numbers, first), flat, 0), axis=inside)


def _fractional(
    n: int,
    input: Any,
    kernel_size: Any,
    output_size: Any,
    output_ratio: Any,
    with_places: bool,
    samples: Any,
    generator: Any,
) -> Any:
    name = f"fractional_max_pool{n}d"
    size = each(kernel_size, n, f"{name}: kernel_size", 1)
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{name} takes either output_size or output_ratio")
    if samples is None and generator is None:
        raise ValueError(
            f"{name} draws random numbers: give generator=, a state of backsolve.random, or _random_samples="
        )

    def pool(x: Any) -> Any:
        batch, channels, *space = shape_of(x)
        if output_size is not None:
            target = each(output_size, n, f"{name}: output_size", 1)
        else:
            ratio = output_ratio if hasattr(output_ratio, "__len__") else (output_ratio,) * n
            target = tuple(int(s * r) for s, r in zip(space, ratio, strict=True))
        if any(t + k - 1 > s for t, k, s in zip(target, size, space, strict=True)):
            raise ShapeError(
                f"{name}: windows of {size} and output_size {target} do not fit shape {shape_of(x)}"
            )
        u = (
            array(samples)
            if samples is not None
            else random.uniform(generator, (batch, channels, n))
        )
        # PyTorch counts the numbers from the last axis in two dimensions, from the first in three.
        order = range(n - 1, -1, -1) if n == 2 else range(n)
        planes = batch * channels
        rows = np.arange(planes).reshape(-1, *[1] * (2 * n))
        indices, flat = [rows], np.zeros((), int)
        for k, number in enumerate(order):
            start = _starts(u[..., number].reshape(planes), space[k], size[k], target[k])
            at = start[:, :, None] + np.arange(size[k])
            shape = [planes, *[1] * (2 * n)]
            shape[1 + k], shape[1 + n + k] = target[k], size[k]
            at = at.reshape(shape)
            indices.append(at)
            flat = flat + at * prod(space[k + 1 :])
        common = (planes, *target, *size)
        parts = P.gather(
            P.reshape(x, shape=(planes, *space)),
            *[np.broadcast_to(i, common) for i in indices],
        )
        found = _largest(parts, tuple(range(n + 1, 2 * n + 1)), flat, with_places)
        whole = (batch, channels, *target)
        if with_places:
            return tuple(np.reshape(f, whole) for f in found)
        return np.reshape(found, whole)

    return batched(pool, input, n + 2, name)


def _starts(u: Any, old: int, size: int, new: int) -> Any:
    """Where the windows of each plane begin: new ones, the first at 0, the last at the end."""
    step = (old - size) / (new - 1) if new > 1 else 0.0
    count = np.arange(new - 1)
    u = u[:, None]
    starts = np.floor((count + u) * step) - np.floor(u * step)
    last = np.broadcast_to(np.asarray(float(old - size)), (shape_of(u)[0], 1))
    return np.concatenate([starts, last], axis=1).astype(int)
