"""Shapes and joining: everything here is linear and moves entries only."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..primitive import FUNCTIONS, P
from ._register import all_axes, array, dtype_of, function, ndim_of, one_axis, shape_of


@function
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Any:
    a = array(a)
    target = (shape,) if isinstance(shape, int | np.integer) else tuple(int(s) for s in shape)
    size = int(np.prod(shape_of(a)))
    if -1 in target:
        known = -int(np.prod(target))
        if target.count(-1) > 1 or known <= 0 or size % known:
            raise ShapeError(f"cannot reshape {shape_of(a)} into {target}")
        target = tuple(size // known if s == -1 else s for s in target)
    if order == "F":
        return transpose(P.reshape(transpose(a), shape=target[::-1]))
    return P.reshape(a, shape=target)


@function
def ravel(a: Any, order: str = "C") -> Any:
    return reshape(a, -1, order) if int(np.prod(shape_of(a))) else reshape(a, (0,))


@function
def transpose(a: Any, axes: Any = None) -> Any:
    n = ndim_of(a)
    axes = tuple(range(n))[::-1] if axes is None else tuple(one_axis(k, n) for k in axes)
    if sorted(axes) != list(range(n)):
        raise ShapeError(f"transpose needs a permutation of the {n} axes, got {axes}")
    return P.permute(array(a), axes=axes)


FUNCTIONS["permute_dims"] = permute_dims = transpose


@function
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    order = list(range(ndim_of(a)))
    i, j = one_axis(axis1, len(order)), one_axis(axis2, len(order))
    order[i], order[j] = order[j], order[i]
    return P.permute(array(a), axes=tuple(order))


@function
def matrix_transpose(x: Any, /) -> Any:
    return swapaxes(x, -1, -2)


@function
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    n = ndim_of(a)
    sources, targets = all_axes(source, n), all_axes(destination, n)
    order = [k for k in range(n) if k not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return P.permute(array(a), axes=tuple(order))


@function
def expand_dims(a: Any, axis: Any) -> Any:
    axes = all_axes(axis, ndim_of(a) + (len(axis) if isinstance(axis, tuple | list) else 1))
    rest = iter(shape_of(a))
    n = ndim_of(a) + len(axes)
    return P.reshape(array(a), shape=tuple(1 if k in axes else next(rest) for k in range(n)))


@function
def squeeze(a: Any, axis: Any = None) -> Any:
    shape = shape_of(a)
    axes = [k for k, s in enumerate(shape) if s == 1] if axis is None else all_axes(axis, len(shape))
    if builtins.any(shape[k] != 1 for k in axes):
        raise ShapeError(f"squeeze needs axes of length 1: axes {tuple(axes)} of shape {shape}")
    return P.reshape(array(a), shape=tuple(s for k, s in enumerate(shape) if k not in axes))


@function
def broadcast_to(array_: Any, /, shape: Any, subok: bool = False) -> Any:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return P.broadcast_to(array(array_), shape=shape)


@function
def broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    shape = np.broadcast_shapes(*[shape_of(a) for a in args])
    return tuple(broadcast_to(a, shape) for a in args)


def _at_least(n: int) -> Any:
    def call(*arys: Any) -> Any:
        done = []
        for a in arys:
            shape = shape_of(a)
            missing = n - len(shape)
            if missing > 0:
                front = {1: (0,), 2: (1, 0), 3: (1, 0, 0)}[n] if len(shape) == 0 else None
                before = len(front) if front else (1 if n == 3 and len(shape) == 1 else missing if n == 2 else 0)
                shape = (1,) * builtins.min(before, missing) + shape
                shape = shape + (1,) * (n - len(shape))
                a = reshape(a, shape)
            done.append(array(a))
        return done[0] if len(done) == 1 else tuple(done)

    return call


for _n in (1, 2, 3):
    FUNCTIONS[f"atleast_{_n}d"] = globals()[f"atleast_{_n}d"] = _at_least(_n)


@function
def concatenate(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    parts = [array(a) for a in arrays]
    if not parts:
        raise ShapeError("concatenate needs at least one array")
    if axis is None:
        parts, axis = [ravel(a) for a in parts], 0
    axis = one_axis(axis, ndim_of(parts[0]))
    shapes = [shape_of(a) for a in parts]
    for shape in shapes[1:]:
        if len(shape) != len(shapes[0]) or builtins.any(
            s != t for k, (s, t) in enumerate(zip(shape, shapes[0], strict=True)) if k != axis
        ):
            raise ShapeError(f"concatenate along axis {axis} needs equal shapes elsewhere, got {shapes}")
    starts = (0, *np.cumsum([s[axis] for s in shapes]).tolist())
    joined = P.concatenate(*parts, axis=axis, starts=starts)
    return joined if dtype is None else FUNCTIONS["astype"](joined, dtype)


FUNCTIONS["concat"] = concat = concatenate


@function
def stack(arrays: Any, axis: int = 0, out: Any = None, **_: Any) -> Any:
    parts = [array(a) for a in arrays]
    if not parts:
        raise ShapeError("stack needs at least one array")
    shapes = {shape_of(a) for a in parts}
    if len(shapes) > 1:
        raise ShapeError(f"stack needs equal shapes, got {sorted(shapes)}")
    axis = one_axis(axis, ndim_of(parts[0]) + 1)
    return concatenate([expand_dims(a, axis) for a in parts], axis)


@function
def vstack(tup: Any, **_: Any) -> Any:
    return concatenate([FUNCTIONS["atleast_2d"](a) for a in tup], 0)


@function
def hstack(tup: Any, **_: Any) -> Any:
    parts = [FUNCTIONS["atleast_1d"](a) for a in tup]
    return concatenate(parts, 0 if ndim_of(parts[0]) == 1 else 1)


@function
def dstack(tup: Any) -> Any:
    return concatenate([FUNCTIONS["atleast_3d"](a) for a in tup], 2)


@function
def column_stack(tup: Any) -> Any:
    return concatenate([reshape(a, (-1, 1)) if ndim_of(a) < 2 else a for a in tup], 1)


@function
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    return concatenate([arr, values], axis)


@function
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    axis = one_axis(axis, ndim_of(ary))
    n = shape_of(ary)[axis]
    if isinstance(indices_or_sections, int | np.integer):
        k = int(indices_or_sections)
        sizes = [n // k + 1] * (n % k) + [n // k] * (k - n % k)
        stops = np.cumsum([0, *sizes]).tolist()
    else:
        stops = [0, *[int(i) for i in indices_or_sections], n]
    full = (slice(None),) * axis
    return [ary[(*full, slice(i, j))] for i, j in zip(stops, stops[1:], strict=False)]


@function
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    n = shape_of(ary)[axis]
    if isinstance(indices_or_sections, int | np.integer) and n % indices_or_sections:
        raise ShapeError(f"split needs equal parts: {n} entries into {indices_or_sections}; try array_split")
    return array_split(ary, indices_or_sections, axis)


@function
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    full = (slice(None),) * one_axis(axis, ndim_of(x))
    return tuple(x[(*full, k)] for k in range(shape_of(x)[axis]))


@function
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    return split(ary, indices_or_sections, 0)


@function
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    return split(ary, indices_or_sections, 1 if ndim_of(ary) > 1 else 0)


@function
def flip(m: Any, axis: Any = None) -> Any:
    axes = all_axes(axis, ndim_of(m))
    return array(m)[tuple(slice(None, None, -1 if k in axes else None) for k in range(ndim_of(m)))]


@function
def fliplr(m: Any) -> Any:
    return flip(m, 1)


@function
def flipud(m: Any) -> Any:
    return flip(m, 0)


@function
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), shape_of(a))
    shifts = shift if isinstance(shift, tuple | list) else [shift]
    axes = axis if isinstance(axis, tuple | list) else [axis]
    if len(shifts) == 1:
        shifts = list(shifts) * len(axes)
    for s, k in zip(shifts, axes, strict=True):
        k = one_axis(k, ndim_of(a))
        n = shape_of(a)[k]
        at = int(s) % n if n else 0
        if at:
            full = (slice(None),) * k
            a = concatenate([a[(*full, slice(n - at, n))], a[(*full, slice(0, n - at))]], k)
    return a


@function
def tile(A: Any, reps: Any) -> Any:
    reps = (reps,) if isinstance(reps, int | np.integer) else tuple(reps)
    shape = (1,) * (len(reps) - ndim_of(A)) + shape_of(A)
    reps = (1,) * (len(shape) - len(reps)) + reps
    paired = tuple(x for r, s in zip(reps, shape, strict=True) for x in (r, s))
    ones = tuple(x for s in shape for x in (1, s))
    spread = P.broadcast_to(reshape(A, ones), shape=paired)
    return P.reshape(spread, shape=tuple(r * s for r, s in zip(reps, shape, strict=True)))


@function
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    if axis is None:
        a, axis = ravel(a), 0
    axis = one_axis(axis, ndim_of(a))
    index = np.repeat(np.arange(shape_of(a)[axis]), repeats)
    return FUNCTIONS["take"](a, index, axis=axis)


@function
def pad(array_: Any, /, pad_width: Any, mode: str = "constant", **kwargs: Any) -> Any:
    """Constant padding places the array among zeros; the other modes read entries by index."""
    a = array(array_)
    shape = shape_of(a)
    if isinstance(pad_width, dict):
        widths = [pad_width.get(k, pad_width.get(k - len(shape), 0)) for k in range(len(shape))]
        widths = [(w, w) if isinstance(w, int) else w for w in widths]
    else:
        widths = np.broadcast_to(np.asarray(pad_width), (len(shape), 2)).tolist()
    if mode != "constant":
        for k, (before, after) in enumerate(widths):
            index = np.pad(np.arange(shape[k]), (before, after), mode=mode, **kwargs)  # type: ignore[call-overload]
            a = FUNCTIONS["take"](a, index, axis=k)
        return a
    spec = tuple((b, b + s, 1) for s, (b, _) in zip(shape, widths, strict=True))
    full = tuple(b + s + e for s, (b, e) in zip(shape, widths, strict=True))
    padded = P.unslice(a, spec=spec, shape=full)
    constant = kwargs.get("constant_values", 0)
    if np.any(constant):
        fill = np.pad(np.zeros(shape, dtype_of(a)), widths, constant_values=constant)
        padded = padded + fill
    return padded


def _band(a: Any, keep: Any) -> Any:
    return P.where(keep, array(a), np.zeros((), dtype_of(a)))


@function
def tril(m: Any, k: int = 0) -> Any:
    return _band(m, np.tri(*shape_of(m)[-2:], k, dtype=bool))


@function
def triu(m: Any, k: int = 0) -> Any:
    return _band(m, ~np.tri(*shape_of(m)[-2:], k - 1, dtype=bool))


@function
def diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    axis = one_axis(axis, ndim_of(a))
    full = (slice(None),) * axis
    for _ in range(n):
        a = a[(*full, slice(1, None))] - a[(*full, slice(None, -1))]
    return a
