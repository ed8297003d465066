"""Images read at given places: GridSample, RoiAlign."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from ....nn import functional
from ....numpy._register import dtype_of, shape_of
from .table import known, operator

_MODES = {"linear": "bilinear", "cubic": "bicubic"}


@operator("GridSample")
def grid_sample(
    x: Any, grid: Any, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Any:
    return functional.grid_sample(
        x, grid, _MODES.get(mode, mode), padding_mode, bool(align_corners)
    )


@operator("RoiAlign")
def roi_align_from_edges(
    x: Any,
    rois: Any,
    batch: Any,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Any:
    return roi_align(
        x, rois, batch, coordinate_transformation_mode="output_half_pixel", mode=mode,
        output_height=output_height, output_width=output_width, sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )  # fmt: skip


@operator("RoiAlign", since=16)
def roi_align(
    x: Any, rois: Any, batch: Any, *, coordinate_transformation_mode: str = "half_pixel", mode: str = "avg",
    output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Any:  # fmt: skip
    """For each region of an image, its parts' means (or greatest terms) over points between the entries."""
    is_half = coordinate_transformation_mode == "half_pixel"
    boxes = known(rois, "regions").astype(float) * spatial_scale - (0.5 if is_half else 0.0)
    images = known(batch, "the images of regions")
    results = []
    for (x0, y0, x1, y1), image in zip(boxes, images, strict=True):
        sides = [
            _points(x, k, *side, sampling_ratio, is_half)
            for k, side in enumerate([(y0, y1 - y0, output_height), (x0, x1 - x0, output_width)])
        ]
        results.append(_region(x[int(image)], sides, mode))
    return np.stack(results)


def _points(
    x: Any, k: int, start: float, length: float, parts: int, ratio: int, is_half: bool
) -> tuple[Any, Any, int]:
    """Neighbours of the points along an axis, their weights, and how many points a part has."""
    length = length if is_half else max(length, 1.0)
    points = ratio if ratio > 0 else ceil(length / parts)
    at = start + (np.arange(parts * points) + 0.5) * (length / parts / max(points, 1))
    return *_two_neighbours(at, shape_of(x)[2 + k]), points


def _region(image: Any, sides: Any, mode: str) -> Any:
    (rows, by_row, n), (columns, by_column, m) = sides
    dtype = dtype_of(image)
    read = image[:, rows[:, :, None, None], columns[None, None, :, :]]  # (C, y, 2, x, 2)
    read = read * (by_row[:, :, None, None] * by_column).astype(dtype)
    c, height, _, width, _ = shape_of(read)
    parts = np.reshape(read, (c, height // n, n, 2, width // m, m, 2))
    if mode == "max":
        return np.max(parts, axis=(2, 3, 5, 6))
    return np.sum(parts, axis=(2, 3, 5, 6)) / (n * m)


def _two_neighbours(at: Any, length: int) -> tuple[Any, Any]:
    """Places and weights on both sides; nothing beyond one entry outside."""
    is_inside = (at >= -1) & (at <= length)
    at = np.clip(at, 0, length - 1)
    low = np.floor(at).astype(int)
    part = at - low
    places = np.stack([low, np.minimum(low + 1, length - 1)], 1)
    return places, np.stack([1 - part, part], 1) * is_inside[:, None]
