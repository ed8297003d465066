"""All of NumPy's indexing, read and write, brought to `slice` and `gather`."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DTypeError, IndexingError, InPlaceError, ShapeError
from ..ir import Var
from ..operators.slice import key_of
from ..primitive import FUNCTIONS, P, Primitive, wrap
from ..row import Row
from ..tensor import Staged, Tensor
from ._register import (
    array,
    dtype_of,
    function,
    known,
    named,
    ndim_of,
    one_axis,
    shape_of,
    size_of,
)

FULL = (None, None, None)


@dataclass(frozen=True, slots=True)
class Index:
    """A part of a key that is an index array; `fresh` if it reads a new axis of length 1.

    A slice between staged bounds is one of its entries, `sliced`: its axis stays where it is.
    """

    array: Any
    fresh: bool = False
    sliced: bool = False


def _entry(k: Any) -> list[Any]:
    """One item of a key as parts: None, Ellipsis, an int, a slice triple, an Index."""
    if k is None or k is Ellipsis:
        return [k]
    if type(k) is int or isinstance(k, np.integer):
        return [int(k)]
    if isinstance(k, slice):
        if isinstance(k.start, Staged) or isinstance(k.stop, Staged):
            return [_staged_slice(k)]
        return [tuple(None if p is None else operator.index(p) for p in (k.start, k.stop, k.step))]
    if isinstance(k, Tensor):
        replayed = getattr(k, "origin", None)
        if k.dtype.kind in "iu" and (type(k._v) is Var or replayed is not None):
            return [Index(k)]  # it stays a Tensor: staged, or computed anew by y.forward()
        if k.dtype == bool and k.shape and replayed is not None:
            return [_Mask(k._v, replayed)]
        k = k._known("which entries a mask chooses") if k.dtype.kind in "iub" else k.value
    a = np.asarray(k)
    if a.size == 0 and not hasattr(k, "dtype"):
        a = a.astype(np.intp)
    if a.dtype.kind not in "iub":
        raise IndexingError(f"an index must be of integers or booleans, got {a.dtype}")
    if a.dtype != bool:
        return [Index(a)] if a.ndim else [int(a)]
    if a.ndim == 0:
        return [Index(np.zeros(int(a), np.intp), fresh=True)]
    return [_Mask(a)]


def _staged_slice(k: slice) -> Index:
    """x[i : i + 3] with a staged i: its length is known, and that is all that is needed."""
    step = 1 if k.step is None else operator.index(k.step)
    (low, a), (high, b) = affine(k.start), affine(k.stop)
    if low is not high or step < 1:
        raise IndexingError(
            "a slice with a staged bound must have a known length: write x[i : i + 3], or x[i : i + 3 : 2]; "
            "for a length that varies, use a mask: np.where(np.arange(n) < i, x, 0)"
        )
    return Index(k.start + np.arange(0, max(b - a, 0), step), sliced=True)


def affine(x: Any) -> tuple[Any, int]:
    """A staged integer as (variable, offset): i + 1 and i + 4 differ by a known number."""
    if not isinstance(x, Staged):
        return None, 0 if x is None else operator.index(x)
    recorder = x._v.recorder
    same = _same_numbers(recorder.equations)
    var, offset = same.get(x._v, x._v), 0
    for e in reversed(recorder.equations):
        if e.outputs[0] is not var or e.primitive.name not in ("add", "subtract"):
            continue
        a, b = e.inputs
        if type(b) is int and type(a) is Var:
            var, offset = a, offset + (b if e.primitive.name == "add" else -b)
        elif type(a) is int and e.primitive.name == "add":
            var, offset = b, offset + a
        var = same.get(var, var)
    outer = next((c for v, c in recorder.order if v is var), None)
    if isinstance(outer, Staged):  # a region reads it from outside
        var, before = affine(outer)
        offset += before
    return var, offset


def _same_numbers(equations: Any) -> dict[Var, Var]:
    """For whole numbers, the first one that is computed alike: 2 * i stands twice in x[2 * i : 2 * i + 2]."""
    same: dict[Var, Var] = {}
    first: dict[Any, Var] = {}
    for e in equations:
        out = e.outputs[0]
        if out.type.shape == () and out.type.dtype.kind in "iu" and not e.primitive.holds_regions:
            inputs = [same.get(a, a) if type(a) is Var else a for a in e.inputs]
            key = e.primitive.name, tuple(inputs), repr(e.params)
            same[out] = first.setdefault(key, out)
    return same


@dataclass(frozen=True, slots=True)
class _Mask:
    array: Any
    origin: Any = (
        None  # set if the mask rests on a leaf: then it cannot be replayed, lengths may change
    )

    def indices(self) -> list[Any]:
        found = self.array.nonzero()
        if self.origin is None:
            return list(found)
        tensors = [wrap(i, None) for i in found]
        for t in tensors:
            t.origin = Row(BY_MASK, (), (), None, t.shape, t.dtype, None)
        return tensors


class _ByMask(Primitive):
    is_plain = False


BY_MASK = _ByMask("reading by a mask", lambda: None)


def _parts(x: Any, key: Any) -> list[Any]:
    """The key with masks as index arrays and the ellipsis written out, for every axis of x."""
    shape = shape_of(x)
    parts = [p for k in (key if isinstance(key, tuple) else (key,)) for p in _entry(k)]
    used = sum(_width(p) for p in parts)
    ellipses = sum(p is Ellipsis for p in parts)
    if ellipses > 1:
        raise IndexingError("an index can have only one ellipsis ('...')")
    if used > len(shape):
        raise IndexingError(f"too many indices: {used} for a tensor of shape {shape}")
    if not ellipses:
        parts.append(Ellipsis)
    spread: list[Any] = []
    axis = 0
    for p in parts:
        if p is Ellipsis:
            # An ellipsis that stands for no axis still parts the index arrays around it.
            spread.extend([FULL] * (len(shape) - used) or [Ellipsis])
            axis += len(shape) - used
        elif type(p) is _Mask:
            covered = shape[axis : axis + p.array.ndim]
            if any(m not in (n, 0) for m, n in zip(p.array.shape, covered, strict=True)):
                raise IndexingError(f"a mask of shape {p.array.shape} on axes of shape {covered}")
            spread.extend(Index(i) for i in p.indices())
            axis += p.array.ndim
        else:
            if type(p) is int and not -shape[axis] <= p < shape[axis]:
                raise IndexingError(f"index {p} is out of range for axis {axis} of shape {shape}")
            spread.append(p)
            axis += _width(p)
    return spread


def _width(p: Any) -> int:
    """How many axes of the array a part stands for."""
    if type(p) is _Mask:
        return p.array.ndim
    return 0 if p is None or p is Ellipsis or (type(p) is Index and p.fresh) else 1


def _spec(parts: list[Any]) -> tuple[Any, ...]:
    return tuple(p for p in parts if p is not Ellipsis)


_BOUND = (int, type(None))


def _plain_spec(key: Any, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """The spec of a key of plain ints and slices; None of any other."""
    keys = key if type(key) is tuple else (key,)
    if len(keys) > len(shape):
        return None
    spec: list[Any] = []
    for k, n in zip(keys, shape):  # noqa: B905 - the key may be shorter
        if type(k) is int:
            if not -n <= k < n:
                return None
            spec.append(k)
        elif type(k) is slice:
            if (
                type(k.start) not in _BOUND
                or type(k.stop) not in _BOUND
                or type(k.step) not in _BOUND
            ):
                return None
            spec.append((k.start, k.stop, k.step))
        else:
            return None
    while spec and spec[-1] == FULL:
        spec.pop()
    return tuple(spec)


@named("getitem")
def getitem(x: Any, key: Any) -> Any:
    shape = shape_of(x)
    if type(key) is tuple and len(key) == 1:
        key = key[0]
    if type(key) is int and shape and -shape[0] <= key < shape[0]:
        return P.slice(x, spec=(key,))
    plain = _plain_spec(key, shape)
    if plain:
        return P.slice(x, spec=plain)
    if type(key) is np.ndarray and key.dtype.kind in "iu" and key.ndim and shape:
        return _gather(x, [key])
    parts = _parts(x, key)
    if any([type(p) is Index for p in parts]):
        for k, p in enumerate([p for p in parts if p is not None]):
            if (
                type(p) is Index and p.sliced
            ):  # one after the other: each keeps its axis in its place
                x = _read(x, [*[FULL] * k, Index(p.array)])
        parts = [FULL if type(p) is Index and p.sliced else p for p in parts]
        if any(type(p) is Index for p in parts):
            return _read(x, parts)
    spec = list(_spec(parts))
    while spec and spec[-1] == FULL:
        spec.pop()
    return P.slice(x, spec=tuple(spec)) if spec or not isinstance(x, Tensor) else P.alias(x)


def _read(x: Any, parts: list[Any]) -> Any:
    """Slices first, then the index arrays along leading axes, then NumPy's order of axes."""
    # Beside an index array a plain int is an index array too.
    places = [i for i, p in enumerate(parts) if type(p) in (Index, int)]
    adjacent = places == list(range(places[0], places[-1] + 1))
    spec: list[Any] = []
    taken: list[int] = []  # axes, after slicing, that index arrays consume
    indices: list[Any] = []
    for p in parts:
        if type(p) is Index:
            taken.append(len(spec))
            indices.append(p.array)
            spec.append(None if p.fresh else FULL)
        elif type(p) is int:
            taken.append(len(spec))
            indices.append(np.asarray(p))
            spec.append(FULL)
        elif p is not Ellipsis:
            spec.append(p)
    shapes = [shape_of(i) for i in indices]
    try:
        width = len(np.broadcast_shapes(*shapes))
    except ValueError:
        raise IndexingError(f"index arrays of shapes {shapes} do not broadcast together") from None
    if any(e != FULL for e in spec):
        x = P.slice(x, spec=tuple(spec))
    others = [k for k in range(ndim_of(x)) if k not in taken]
    order = tuple(taken + others)
    if order != tuple(range(ndim_of(x))):
        x = P.permute(x, axes=order)
    y = _gather(x, indices)
    before = sum(k < taken[0] for k in others) if adjacent else 0
    if before and width:
        axes = [*range(width, width + before), *range(width), *range(width + before, ndim_of(y))]
        y = P.permute(y, axes=tuple(axes))
    return y


def _gather(x: Any, indices: list[Any]) -> Any:
    try:
        return P.gather(x, *indices)
    except IndexError as error:
        raise IndexingError(f"{error}, in a tensor of shape {shape_of(x)}") from None


@named("setitem")
def setitem(x: Any, key: Any, v: Any) -> Any:
    """A new tensor with x[key] replaced by v; of several writes to one place the last counts."""
    v = _cast(array(v), x.dtype)
    if isinstance(key, Tensor | np.ndarray) and key.dtype == bool and key.ndim and ndim_of(v) == 0:
        if key.shape != x.shape[: key.ndim]:
            raise IndexingError(f"a mask of shape {key.shape} on a tensor of shape {x.shape}")
        mask = P.reshape(key, shape=(*key.shape, *[1] * (x.ndim - key.ndim)))
        return P.where(mask, v, x)
    parts = _parts(x, key)
    if not any(type(p) is Index for p in parts):
        spec = _spec(parts)
        target = np.broadcast_to(np.empty(()), x.shape)
        return P.slice_update(x, _fit(v, shape_of(P.slice(target, spec=spec))), spec=spec)
    if all(p.sliced or not (shape_of(p.array) or p.fresh) for p in parts if type(p) is Index):
        return _write_at(x, parts, v)
    numbers = _places(x, parts)
    flat = P.reshape(numbers, shape=(size_of(numbers),))
    v = P.reshape(_fit(v, shape_of(numbers)), shape=shape_of(flat))
    written = P.scatter_set(P.reshape(x, shape=(size_of(x),)), v, flat)
    return P.reshape(written, shape=x.shape)


def _write_at(x: Any, parts: list[Any], v: Any) -> Any:
    """Write where index arrays are single numbers: the axes of slices stay in order, each walked by its own."""
    parts = [p for p in parts if p is not Ellipsis]
    while parts and parts[-1] == FULL:
        parts.pop()
    if None in parts:
        shown = [p for p in parts if type(p) is not int and not _is_one(p)]  # each an axis of v
        v = _fit(v, _written_shape(x, parts))
        v = np.squeeze(v, axis=tuple(k for k, p in enumerate(shown) if p is None))
        parts = [p for p in parts if p is not None]
    walked = [_walk(x.shape[k], p) for k, p in enumerate(parts)]
    axes = [w for w in walked if len(shape_of(w))]
    indices = []
    for w in walked:
        behind = len(axes) - 1 - next((k for k, u in enumerate(axes) if u is w), len(axes) - 1)
        indices.append(np.reshape(w, (-1, *[1] * behind)) if len(shape_of(w)) else w)
    shape = (*[shape_of(w)[0] for w in axes], *x.shape[len(parts) :])
    return P.scatter_set(x, _fit(v, shape), *indices)


def _walk(size: int, p: Any) -> Any:
    """The places along one axis that a part of a key stands for."""
    if type(p) is Index:
        return p.array
    return np.int64(p) if type(p) is int else np.arange(size)[key_of((p,))[0]]


def _is_one(p: Any) -> bool:
    return type(p) is Index and not p.sliced


def _written_shape(x: Any, parts: list[Any]) -> tuple[int, ...]:
    out: list[int] = []
    axis = 0
    for p in parts:
        if p is None:
            out.append(1)
            continue
        out.extend(shape_of(_walk(x.shape[axis], p)))
        axis += 1
    return (*out, *x.shape[axis:])


def places(x: Any, key: Any) -> Any:
    """Which entries, numbered in C order, a key reads: one more way to say what it means."""
    return _places(x, _parts(x, key))


def _places(x: Any, parts: list[Any]) -> Any:
    numbers = np.arange(size_of(x)).reshape(shape_of(x))
    if any(type(p) is Index for p in parts):
        return _read(numbers, parts)
    return P.slice(numbers, spec=_spec(parts))


def _cast(v: Any, dtype: np.dtype[Any]) -> Any:
    given = dtype_of(v)
    if given == dtype:
        return v
    if given.kind == "c" and dtype.kind != "c":
        raise DTypeError(
            f"writing {given} into {dtype} would drop the imaginary part; write v.real"
        )
    if dtype.kind not in "fc" and isinstance(v, Tensor) and v.row is not None:
        raise InPlaceError(
            f"writing {given} into a tensor of {dtype} would drop its derivative; "
            "make it a tensor of floats first: x = x.astype(float)"
        )
    return FUNCTIONS["astype"](v, dtype)


def _fit(v: Any, shape: tuple[int, ...]) -> Any:
    """v broadcast to the place it is written to; NumPy also drops leading ones."""
    got = shape_of(v)
    while len(got) > len(shape) and got[0] == 1:
        v, got = P.reshape(v, shape=got[1:]), got[1:]
    return v if got == shape else P.broadcast_to(v, shape=shape)


def check_mode(name: str, mode: Any) -> None:
    if mode not in ("raise", "clip", "wrap"):
        raise ValueError(f"`{name}` knows the modes 'raise', 'clip' and 'wrap', got mode={mode!r}")


@function
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    if axis is None:
        a, axis = FUNCTIONS["ravel"](a), 0
    a = array(a)
    axis = one_axis(axis, ndim_of(a))
    if not isinstance(indices, Tensor):
        indices = np.asarray(indices)
        indices = indices.astype(np.intp) if indices.size == 0 else indices
    check_mode("take", mode)
    if mode != "raise":
        n = shape_of(a)[axis]
        indices = P.clip(indices, 0, n - 1) if mode == "clip" else P.remainder(indices, n)
    return getitem(a, (*(slice(None),) * axis, indices))


@function
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    if axis is None:
        arr, axis = FUNCTIONS["ravel"](arr), 0
    return getitem(array(arr), _key_along("take_along_axis", arr, indices, axis))


def _key_along(name: str, arr: Any, indices: Any, axis: Any) -> tuple[Any, ...]:
    """The key that reads `indices` along one axis, and every other axis in place."""
    axis, shape = one_axis(axis, ndim_of(arr)), shape_of(arr)
    if dtype_of(array(indices)).kind not in "iu":
        raise IndexingError(f"`{name}` needs integers as indices, got {dtype_of(indices)}")
    if ndim_of(indices) != len(shape):
        raise ShapeError(
            f"`{name}` needs indices of the rank of the array, got {shape_of(indices)} for {shape}"
        )
    key: list[Any] = []
    for k, n in enumerate(shape):
        grid = [1] * len(shape)
        grid[k] = n
        key.append(indices if k == axis else np.arange(n).reshape(grid))
    return tuple(key)


@function
def nonzero(a: Any) -> Any:
    found = np.nonzero(known("nonzero", a))
    return tuple(Tensor(i) for i in found) if isinstance(a, Tensor) else found


@function
def extract(condition: Any, arr: Any) -> Any:
    chosen = np.ravel(known("extract", condition))
    return getitem(FUNCTIONS["ravel"](arr), np.flatnonzero(chosen))
