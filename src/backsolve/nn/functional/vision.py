"""Images: sampling at given places, affine grids, and moving entries between channels and space."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import ShapeError
from ...numpy._register import array, dtype_of, ndim_of, shape_of
from ...primitive import P
from .resampling import cubic

# ---- sampling


def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """(N, C, H, W) at the places (N, H′, W′, 2) of a grid, x first, from −1 to 1; also in three dimensions.

    Modes "bilinear", "nearest" and, for images, "bicubic"; outside of the image "zeros", "border" or
    "reflection". With `align_corners`, −1 and 1 are the middles of the outermost entries, else their edges.

    >>> import numpy as np
    >>> image = np.array([[[[0.0, 1.0], [2.0, 3.0]]]])
    >>> grid_sample(image, np.zeros((1, 1, 1, 2)), align_corners=True)
    array([[[[1.5]]]])
    """
    x, grid = array(input), array(grid)
    n = ndim_of(x) - 2
    if n not in (2, 3) or shape_of(grid)[0] != shape_of(x)[0] or shape_of(grid)[-1] != n:
        raise ShapeError(
            "grid_sample takes (N, C, H, W) with a grid (N, H′, W′, 2), or one dimension more, "
            f"got {shape_of(x)} and {shape_of(grid)}"
        )
    if mode not in ("bilinear", "nearest", "bicubic") or (mode == "bicubic" and n == 3):
        raise ValueError(f"grid_sample knows no mode {mode!r} in {n} dimensions")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"grid_sample knows no padding_mode {padding_mode!r}")
    sampler = _Sampler(x, padding_mode, bool(align_corners))
    at = [sampler.unnormalised(grid[..., n - 1 - k], k) for k in range(n)]
    if mode == "bicubic":
        return sampler.cubic(at)
    at = [sampler.folded_back(a, k) for k, a in enumerate(at)]
    return sampler.nearest(at) if mode == "nearest" else sampler.linear(at)


class _Sampler:
    """Reads an image at places that are arrays of one shape, each coordinate for itself."""

    def __init__(self, x: Any, outside: str, corners: bool):
        self.outside, self.corners = outside, corners
        self.space = shape_of(x)[2:]
        n = len(self.space)
        self.last = P.permute(x, axes=(0, *range(2, n + 2), 1))  # channels last: read together

    def unnormalised(self, a: Any, k: int) -> Any:
        size = self.space[k]
        return (a + 1) * ((size - 1) / 2) if self.corners else ((a + 1) * size - 1) * 0.5

    def folded_back(self, a: Any, k: int) -> Any:
        """Places outside brought inside, as the mode says; where nothing moves, so does no derivative."""
        size = self.space[k]
        if self.outside == "zeros":
            return a
        if self.outside == "reflection":
            low, span = (0.0, size - 1.0) if self.corners else (-0.5, float(size))
            if span == 0:
                return a * 0
            distance = np.abs(a - low)
            turns = np.floor(distance / span)
            rest = distance - turns * span
            a = np.where(np.equal(turns % 2, 0), rest + low, span - rest + low)
        return np.where(a <= 0, 0.0, np.where(a >= size - 1, size - 1.0, a))  # NaN stays NaN

    def read(self, places: list[Any]) -> Any:
        """The entries at whole-numbered places (N, …), zeros outside and at NaN: (N, …, C)."""
        batch = np.arange(self.last.shape[0]).reshape(-1, *[1] * (ndim_of(places[0]) - 1))
        inside = np.ones((), bool)
        for p, size in zip(places, self.space, strict=True):
            inside = np.logical_and(
                inside, np.logical_and(np.greater_equal(p, 0), np.less(p, size))
            )
        safe = [np.where(inside, p, 0).astype(np.int64) for p in places]
        values = P.gather(self.last, np.broadcast_to(batch, shape_of(safe[0])), *safe)
        return np.where(inside[..., None], values, 0)

    def result(self, values: Any) -> Any:
        rank = ndim_of(values)
        return P.permute(values, axes=(0, rank - 1, *range(1, rank - 1)))

    def nearest(self, at: list[Any]) -> Any:
        return self.result(self.read([np.rint(a) for a in at]))

    def linear(self, at: list[Any]) -> Any:
        low = [np.floor(a) for a in at]
        part = [a - b for a, b in zip(at, low, strict=True)]
        total: Any = 0
        for corner in np.ndindex(*[2] * len(at)):
            weight: Any = 1
            for c, p in zip(corner, part, strict=True):
                weight = weight * (p if c else 1 - p)
            place = [b + c for b, c in zip(low, corner, strict=True)]
            total = total + self.read(place) * weight[..., None]
        return self.result(total)

    def cubic(self, at: list[Any]) -> Any:
        low = [np.floor(a) for a in at]
        weights = [
            [cubic(a - b - c, -0.75) for c in range(-1, 3)] for a, b in zip(at, low, strict=True)
        ]
        total: Any = 0
        for i in range(4):
            for j in range(4):
                place = [low[0] + (i - 1), low[1] + (j - 1)]
                place = [np.rint(self.folded_back(p, k)) for k, p in enumerate(place)]
                total = total + self.read(place) * (weights[0][i] * weights[1][j])[..., None]
        return self.result(total)


def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """The grid of grid_sample that maps by (N, 2, 3) (or (N, 3, 4)) matrices; `size` is that of the result."""
    theta = array(theta)
    batch, _, *space = size
    n = len(space)
    if shape_of(theta) != (batch, n, n + 1):
        raise ShapeError(
            f"affine_grid with size {tuple(size)} takes matrices {(batch, n, n + 1)}, got {shape_of(theta)}"
        )
    lines = []
    for k in range(n - 1, -1, -1):
        line = np.linspace(-1, 1, space[k]) if space[k] > 1 else np.zeros(1)
        if not align_corners:
            line = line * (space[k] - 1) / space[k]
        shape = [1] * n
        shape[k] = -1
        lines.append(np.broadcast_to(line.reshape(shape), space))
    base = np.stack([*lines, np.ones(space)], axis=-1).astype(dtype_of(theta))
    space_labels = "xyz"[:n]
    return P.contract(base, theta, subscripts=f"{space_labels}j,nij->n{space_labels}i", sizes=())


# ---- channels and space


def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """(…, C·r², H, W) ↦ (…, C, H·r, W·r)."""
    x, r = array(input), int(upscale_factor)
    *lead, c, h, w = _image("pixel_shuffle", x)
    if r < 1 or c % (r * r):
        raise ShapeError(f"pixel_shuffle by {r} needs a multiple of {r * r} channels, got {c}")
    n = len(lead)
    parts = P.reshape(x, shape=(*lead, c // r**2, r, r, h, w))
    turned = P.permute(parts, axes=(*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return P.reshape(turned, shape=(*lead, c // r**2, h * r, w * r))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """The inverse of pixel_shuffle: (…, C, H·r, W·r) ↦ (…, C·r², H, W)."""
    x, r = array(input), int(downscale_factor)
    *lead, c, h, w = _image("pixel_unshuffle", x)
    if r < 1 or h % r or w % r:
        raise ShapeError(f"pixel_unshuffle by {r} needs multiples of it, got {h} × {w}")
    n = len(lead)
    parts = P.reshape(x, shape=(*lead, c, h // r, r, w // r, r))
    turned = P.permute(parts, axes=(*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return P.reshape(turned, shape=(*lead, c * r**2, h // r, w // r))


def channel_shuffle(input: Any, groups: int) -> Any:
    """Channels of (N, C, …) dealt out: the first of each group, then the second, and so on."""
    x = array(input)
    if ndim_of(x) < 3 or groups < 1 or shape_of(x)[1] % groups:
        raise ShapeError(
            f"channel_shuffle takes (N, C, …) with C a multiple of groups={groups}, got {shape_of(x)}"
        )
    batch, channels, *space = shape_of(x)
    parts = P.reshape(x, shape=(batch, groups, channels // groups, *space))
    axes = (0, 2, 1, *range(3, 3 + len(space)))
    return P.reshape(P.permute(parts, axes=axes), shape=shape_of(x))


def _image(name: str, x: Any) -> tuple[int, ...]:
    if ndim_of(x) < 3:
        raise ShapeError(f"{name} takes arrays (…, C, H, W), got shape {shape_of(x)}")
    return shape_of(x)
