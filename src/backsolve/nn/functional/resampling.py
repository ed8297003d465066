"""Resampling: each axis for itself, every new entry a weighted sum of a few old ones.

The entries it rests on are read by index, so that a NaN spreads no further than its neighbours.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...numpy._register import array, dtype_of, ndim_of, shape_of
from ...primitive import P
from ._arguments import Shape, each

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """(N, C, …) at another size, or another size by a factor; as PyTorch's.

    Modes: "nearest", "nearest-exact", "area" in any number of dimensions, "linear", "bilinear", "bicubic",
    "trilinear" in their own. `align_corners` keeps the outermost entries where they are.

    >>> import numpy as np
    >>> interpolate(np.array([[[0.0, 2.0, 4.0]]]), size=5, mode="linear", align_corners=True)
    array([[[0., 1., 2., 3., 4.]]])
    """
    x = array(input)
    n = ndim_of(x) - 2
    if n not in (1, 2, 3):
        raise ShapeError(
            f"interpolate takes arrays (N, C, …) of rank 3 to 5, got shape {shape_of(x)}"
        )
    target, scales = _sizes(shape_of(x)[2:], size, scale_factor, recompute_scale_factor)
    smooth = mode in _LINEAR or mode == "bicubic"
    if not smooth and mode not in ("nearest", "nearest-exact", "area"):
        raise ValueError(f"interpolate knows no mode {mode!r}")
    if smooth and _LINEAR.get(mode, 2) != n:
        raise ShapeError(f"interpolate: mode {mode!r} does not fit an input of shape {shape_of(x)}")
    if align_corners is not None and not smooth:
        raise ValueError(f"interpolate: align_corners has no meaning in mode {mode!r}")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(f'interpolate: antialias needs mode "bilinear" or "bicubic", got {mode!r}')
    if mode == "area":
        return adaptive_mean(x, target)
    for k in range(n):
        old, new = shape_of(x)[k + 2], target[k]
        if mode.startswith("nearest"):
            start = np.arange(new) + (0.5 if mode == "nearest-exact" else 0.0)
            ratio = _step(old, new, scales[k], False)
            places = np.minimum((start * ratio).astype(int), old - 1)
            x = np.take(x, places, axis=k + 2)
        elif antialias:
            x = taps(x, k + 2, *_filtered(old, new, scales[k], bool(align_corners), mode))
        else:
            x = taps(x, k + 2, *_between(old, new, scales[k], bool(align_corners), mode))
    return x


def upsample(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:
    """The older name of interpolate."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def taps(x: Any, axis: int, places: Any, weights: Any) -> Any:
    """y[p] = Σ_t weights[p, t] · x[places[p, t]] along an axis."""
    lead = (slice(None),) * axis
    behind = [1] * (ndim_of(x) - 1 - axis)
    dtype = dtype_of(x)
    terms = [
        np.take(x, places[:, t], axis=axis) * weights[:, t].reshape(-1, *behind).astype(dtype)
        for t in range(places.shape[1])
    ]
    if not terms:
        return x[(*lead, slice(0, 0))]
    return sum(terms[1:], start=terms[0])


def adaptive_mean(x: Any, target: Shape) -> Any:
    """Means over `target` parts of each of the last axes, which overlap where they do not divide it."""
    first = ndim_of(x) - len(target)
    for k, new in enumerate(target):
        axis, old = first + k, shape_of(x)[first + k]
        if new == old:
            continue
        if new and old % new == 0:
            shape = shape_of(x)
            parts = P.reshape(x, shape=(*shape[:axis], new, old // new, *shape[axis + 1 :]))
            x = np.mean(parts, axis=axis + 1)
            continue
        places, counts = parts_of(old, new)
        inside = np.arange(places.shape[1]) < counts[:, None]
        x = taps(x, axis, places, inside / counts[:, None])
    return x


def parts_of(old: int, new: int) -> tuple[Any, Any]:
    """The entries of each of `new` parts of `old` entries (the last of them repeated), and how many."""
    first = np.arange(new) * old // max(new, 1)
    end = -(-(np.arange(new) + 1) * old // max(new, 1))
    counts = end - first
    longest = int(counts.max(initial=0))
    return np.minimum(first[:, None] + np.arange(longest), end[:, None] - 1), counts


# ---- where new entries lie among the old ones


def _sizes(
    old: Shape, size: Any, factor: Any, recompute: bool | None
) -> tuple[Shape, list[float | None]]:
    n = len(old)
    if (size is None) == (factor is None):
        raise ValueError("interpolate takes either size or scale_factor")
    if size is not None:
        if recompute:
            raise ValueError("interpolate: recompute_scale_factor has no meaning with size")
        target = each(size, n, "interpolate: size", 1)
        return target, [None] * n
    factors = list(factor) if hasattr(factor, "__len__") else [factor] * n
    if len(factors) != n:
        raise ShapeError(f"interpolate: scale_factor must be one number or {n}, got {factor!r}")
    target = tuple(math.floor(s * f) for s, f in zip(old, factors, strict=True))
    if 0 in target:
        raise ShapeError(f"interpolate: nothing is left of {old} by scale_factor={factor!r}")
    return target, [None] * n if recompute else [float(f) for f in factors]


def _step(old: int, new: int, scale: float | None, corners: bool) -> float:
    if corners:
        return (old - 1) / (new - 1) if new > 1 else 0.0
    return old / new if scale is None else 1 / scale


def _between(old: int, new: int, scale: float | None, corners: bool, mode: str) -> tuple[Any, Any]:
    """Two neighbours, or four for bicubic, and their weights."""
    step = _step(old, new, scale, corners)
    at = np.arange(new) * step if corners else (np.arange(new) + 0.5) * step - 0.5
    if mode != "bicubic":
        at = np.maximum(at, 0.0)
        low = np.minimum(at.astype(int), old - 1)
        part = at - low
        return (
            np.stack([low, np.minimum(low + 1, old - 1)], 1),
            np.stack([1 - part, part], 1),
        )
    low = np.floor(at).astype(int)
    places = np.clip(low[:, None] + np.arange(-1, 3), 0, old - 1)
    return places, cubic(at[:, None] - (low[:, None] + np.arange(-1, 3)), -0.75)


def cubic(t: Any, a: float) -> Any:
    """Keys' kernel, at a distance t of at most 2."""
    t = np.abs(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t >= 2, 0, far))


def _filtered(old: int, new: int, scale: float | None, corners: bool, mode: str) -> tuple[Any, Any]:
    """All entries that a kernel, stretched where the array shrinks, reaches."""
    step = _step(old, new, scale, corners)
    stretch = max(step, 1.0)
    reach = (2.0 if mode == "bicubic" else 1.0) * stretch
    centre = step * (np.arange(new) + 0.5)
    first = np.maximum((centre - reach + 0.5).astype(int), 0)
    end = np.minimum((centre + reach + 0.5).astype(int), old)
    places = first[:, None] + np.arange(int((end - first).max(initial=0)))
    distance = (places - centre[:, None] + 0.5) / stretch
    weights = cubic(distance, -0.5) if mode == "bicubic" else np.maximum(1 - np.abs(distance), 0)
    weights = np.where(places < end[:, None], weights, 0.0)
    return np.minimum(places, end[:, None] - 1), weights / weights.sum(1, keepdims=True)
