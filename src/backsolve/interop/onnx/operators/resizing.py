"""Resize and Upsample: each axis for itself, every new entry a weighted sum of a few old ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....errors import UnsupportedError
from ....nn.functional.resampling import cubic, taps
from ....numpy._register import dtype_of, ndim_of, shape_of
from .table import known, operator, whole


@operator("Upsample")
def upsample_by_attribute(x: Any, *, mode: str = "nearest", scales: Any) -> Any:
    return _from_corner(x, scales, mode=mode)


@operator("Upsample", since=9)
@operator("Resize", since=10)
def _from_corner(x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    return resize(
        x, None, scales, coordinate_transformation_mode="asymmetric", mode=mode, nearest_mode="floor"
    )  # fmt: skip


@operator("Resize", since=11)
def resize(
    x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *, antialias: int = 0, axes: Any = None,
    coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest", nearest_mode: str = "round_prefer_floor",
) -> Any:  # fmt: skip
    along = range(ndim_of(x)) if axes is None else [a % ndim_of(x) for a in axes]
    old = [shape_of(x)[a] for a in along]
    new, factors = _sizes(old, scales, sizes, keep_aspect_ratio_policy)
    region = None if roi is None else known(roi, "the region of Resize").ravel().tolist()
    outside: Any = np.zeros((), bool)
    for k, axis in enumerate(along):
        if coordinate_transformation_mode == "tf_crop_and_resize":
            assert region is not None
            ends: Any = region[k], region[len(old) + k]
        else:
            ends = 0.0, 1.0
            if new[k] == old[k] and factors[k] == 1:
                continue
        at = _places(coordinate_transformation_mode, old[k], new[k], factors[k], ends)
        behind = [1] * (ndim_of(x) - 1 - axis)
        if coordinate_transformation_mode == "tf_crop_and_resize":
            outside = outside | ((at < 0) | (at > old[k] - 1)).reshape(-1, *behind)
        if mode == "nearest":
            x = np.take(x, np.clip(_rounded(at, nearest_mode), 0, old[k] - 1), axis)
            continue
        stretch = min(factors[k], 1.0) if antialias else 1.0
        places, weights = _neighbours(at, mode, stretch, cubic_coeff_a)
        if exclude_outside:
            weights = weights * ((places >= 0) & (places < old[k]))
        weights = weights / weights.sum(1, keepdims=True)
        x = taps(x, axis, np.clip(places, 0, old[k] - 1), weights)
    return np.where(outside, dtype_of(x).type(extrapolation_value), x) if outside.any() else x


def _sizes(old: Any, scales: Any, sizes: Any, policy: str) -> tuple[list[int], list[float]]:
    """New lengths, and the factors that they are of the old ones."""
    if sizes is None or not len(sizes):
        factors = known(scales, "the scales of Resize").ravel().tolist()
        return [math.floor(s * f) for s, f in zip(old, factors, strict=True)], factors
    new = list(whole(sizes, "the sizes of Resize"))
    factors = [n / s for n, s in zip(new, old, strict=True)]
    if policy == "stretch":
        return new, factors
    one = min(factors) if policy == "not_larger" else max(factors)
    return [math.floor(s * one + 0.5) for s in old], [one] * len(old)


def _places(mode: str, old: int, new: int, factor: float, ends: tuple[float, float]) -> Any:
    """Where new entries lie among the old ones."""
    k = np.arange(new)
    length = old * factor
    if mode == "asymmetric":
        return k / factor
    if mode == "align_corners":
        return k * ((old - 1) / (length - 1)) if length != 1 else k * 0.0
    if mode == "tf_crop_and_resize":
        first, last = ends
        if length == 1:
            return np.full(new, 0.5 * (first + last) * (old - 1))
        return first * (old - 1) + k * (last - first) * (old - 1) / (length - 1)
    if mode == "pytorch_half_pixel" and length == 1:
        return np.full(new, -0.5)
    centre = (k + 0.5) / factor - 0.5
    if mode == "half_pixel_symmetric":
        return old / 2 * (1 - new / length) + centre
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return centre
    raise UnsupportedError(f"coordinate_transformation_mode {mode!r} of Resize")


def _rounded(at: Any, mode: str) -> Any:
    rounding: dict[str, Any] = {
        "round_prefer_floor": lambda a: np.ceil(a - 0.5),
        "round_prefer_ceil": lambda a: np.floor(a + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    return rounding[mode](at).astype(int)


def _neighbours(at: Any, mode: str, stretch: float, a: float) -> tuple[Any, Any]:
    """Old entries that a kernel, widened where the array shrinks, reaches, and their weights."""
    reach = 2 if mode == "cubic" else 1
    first = math.floor(-reach / stretch) + 1
    low = np.floor(at).astype(int)
    places = low[:, None] + np.arange(first, 2 - first)
    distance = (places - at[:, None]) * stretch
    weights = cubic(distance, a) if mode == "cubic" else np.maximum(1 - np.abs(distance), 0)
    return places, weights
