"""What stands between the brackets of x[…], taken apart: a part for every axis."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import IndexingError, TracedValueError
from ..ir import Var
from ..primitive import Primitive, wrap
from ..row import Row
from ..tensor import Staged, Tensor
from ._register import (
    shape_of,
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
        if k.dtype == bool and k.shape and type(k._v) is Var:
            raise TracedValueError(
                "x[mask] with a mask that is traced: how many entries it chooses depends on values, and only "
                "types are known here. Write np.where(mask, x, 0) to choose, np.where(mask, x, 0).sum() / "
                "mask.sum() for a mean; x[mask] = number is fine; a mask of data alone can be made outside"
            )
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


def parts_of(x: Any, key: Any) -> list[Any]:
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


def spec_of(parts: list[Any]) -> tuple[Any, ...]:
    return tuple(p for p in parts if p is not Ellipsis)


_BOUND = (int, type(None))


def plain_spec(key: Any, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
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
