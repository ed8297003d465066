"""Moving entries: reshaping, joining, cutting, padding."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ....errors import ShapeError
from ....numpy._register import dtype_of, ndim_of, shape_of
from .table import number, operator, read, whole


@operator("Reshape")
def reshape_by_attribute(x: Any, *, shape: Any) -> Any:
    return reshape(x, shape)


@operator("Reshape", since=5)
def reshape(x: Any, shape: Any, *, allowzero: int = 0) -> Any:
    target = list(whole(shape, "the shape of Reshape"))
    if not allowzero:
        target = [shape_of(x)[k] if s == 0 else s for k, s in enumerate(target)]
    return np.reshape(x, tuple(target))


@operator("Flatten")
def flatten(x: Any, *, axis: int = 1) -> Any:
    shape = shape_of(x)
    axis = axis + len(shape) if axis < 0 else axis
    return np.reshape(x, (prod(shape[:axis]), prod(shape[axis:])))


@operator("Squeeze")
def squeeze_by_attribute(x: Any, *, axes: Any = None) -> Any:
    return squeeze(x, axes)


@operator("Squeeze", since=13)
def squeeze(x: Any, axes: Any = None) -> Any:
    return np.squeeze(x, None if axes is None else whole(axes, "the axes of Squeeze"))


@operator("Unsqueeze")
def unsqueeze_by_attribute(x: Any, *, axes: Any) -> Any:
    return unsqueeze(x, axes)


@operator("Unsqueeze", since=13)
def unsqueeze(x: Any, axes: Any) -> Any:
    return np.expand_dims(x, whole(axes, "the axes of Unsqueeze"))


@operator("Transpose")
def transpose(x: Any, *, perm: Any = None) -> Any:
    return np.transpose(x, perm)


@operator("Expand")
def expand(x: Any, shape: Any) -> Any:
    target = np.broadcast_shapes(shape_of(x), whole(shape, "the shape of Expand"))
    return np.broadcast_to(x, target)


@operator("Tile")
def tile_along_axis(x: Any, tiles: Any, axis: Any) -> Any:
    repeats = [1] * ndim_of(x)
    repeats[int(number(axis, "Tile's axis"))] = int(number(tiles, "Tile's count"))
    return np.tile(x, repeats)


@operator("Tile", since=6)
def tile(x: Any, repeats: Any) -> Any:
    return np.tile(x, whole(repeats, "the repeats of Tile"))


@operator("Concat")
def concat(*xs: Any, axis: int = 1) -> Any:
    return np.concatenate(xs, axis)


@operator("Split")
def split_by_attribute(
    x: Any, by_input: Any = None, *, axis: int = 0, split: Any = None, _outputs: int
) -> Any:
    return split_(x, by_input if split is None else split, axis=axis, _outputs=_outputs)


@operator("Split", since=13)
def split_(
    x: Any, sizes: Any = None, *, axis: int = 0, num_outputs: int | None = None, _outputs: int
) -> Any:
    length = shape_of(x)[axis]
    if sizes is None:
        parts = _outputs if num_outputs is None else num_outputs
        each = -(-length // parts)
        ends = [min(each * (k + 1), length) for k in range(parts)]
    else:
        ends = np.cumsum(whole(sizes, "the sizes of Split")).tolist()
        if ends[-1] != length:
            raise ShapeError(f"Split into {list(sizes)} needs {ends[-1]} entries, got {length}")
    return tuple(np.split(x, ends[:-1], axis))


@operator("Slice")
def slice_by_attributes(x: Any, *, starts: Any, ends: Any, axes: Any = None) -> Any:
    return slice_(x, starts, ends, axes)


@operator("Slice", since=10)
def slice_(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    firsts, lasts = whole(starts, "the starts of Slice"), whole(ends, "the ends of Slice")
    along = range(len(firsts)) if axes is None else whole(axes, "the axes of Slice")
    by = [1] * len(firsts) if steps is None else whole(steps, "the steps of Slice")
    index = [slice(None)] * ndim_of(x)
    for axis, first, last, step in zip(along, firsts, lasts, by, strict=True):
        length = shape_of(x)[axis]
        if step < 0 and last < -length:
            index[axis] = slice(first, None, step)
        else:
            index[axis] = slice(first, last, step)
    return x[tuple(index)]


@operator("Pad")
def pad_by_attributes(
    x: Any, *, mode: str = "constant", pads: Any = None, paddings: Any = None, value: float = 0.0
) -> Any:
    return pad(x, paddings if pads is None else pads, value, mode=mode)


@operator("Pad", since=11)
def pad(x: Any, pads: Any, value: Any = None, axes: Any = None, *, mode: str = "constant") -> Any:
    sides = whole(pads, "the widths of Pad")
    along = range(ndim_of(x)) if axes is None else whole(axes, "the axes of Pad")
    n = len(sides) // 2
    widths = [(0, 0)] * ndim_of(x)
    for k, axis in enumerate(along):
        widths[axis] = sides[k], sides[n + k]
    kept = tuple(
        slice(max(-a, 0), s - max(-b, 0)) for s, (a, b) in zip(shape_of(x), widths, strict=True)
    )
    widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    x = x[kept]
    if mode != "constant":
        by_name: Any = mode
        return np.pad(x, widths, by_name)
    fill = dtype_of(x).type(0) if value is None else np.reshape(value, ())
    return np.pad(x, widths, constant_values=fill)


@operator("DepthToSpace")
def depth_to_space(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    n, c, *space = shape_of(x)
    d, b = len(space), blocksize
    inside = c // b**d
    # channels hold (block…, inside) or, "CRD", (inside, block…); each block goes behind its axis of space
    shape = (n, *[b] * d, inside, *space) if mode == "DCR" else (n, inside, *[b] * d, *space)
    first, channel = (1, d + 1) if mode == "DCR" else (2, 1)
    order = [0, channel]
    for k in range(d):
        order += [d + 2 + k, first + k]
    y = np.transpose(np.reshape(x, shape), order)
    return np.reshape(y, (n, inside, *[s * b for s in space]))


@operator("SpaceToDepth")
def space_to_depth(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    n, c, *space = shape_of(x)
    d, b = len(space), blocksize
    shape = [n, c]
    for s in space:
        shape += [s // b, b]
    outer, inner = [2 + 2 * k for k in range(d)], [3 + 2 * k for k in range(d)]
    order = [0, *inner, 1, *outer] if mode == "DCR" else [0, 1, *inner, *outer]
    y = np.transpose(np.reshape(x, shape), order)
    return np.reshape(y, (n, c * b**d, *[s // b for s in space]))


@operator("ReverseSequence")
def reverse_sequence(x: Any, lengths: Any, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    x = np.moveaxis(x, (time_axis, batch_axis), (0, 1))
    t, b = shape_of(x)[:2]
    steps = np.arange(t)[:, None]
    places = np.where(np.less(steps, lengths), lengths - 1 - steps, steps)
    return np.moveaxis(read(x, places, np.arange(b)), (0, 1), (time_axis, batch_axis))
