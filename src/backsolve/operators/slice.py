"""Slice and Unslice: take a rectangular part, put a part back among structural zeros.

`spec` describes a basic index and can be hashed: per axis an int, a (start, stop, step) triple, or
None for a new axis. Padding with zeros is an Unslice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Shape, Type
from ..primitive import P
from .base import Cost, From, Into, Operator, whole
from .structure import facts

Spec = tuple[Any, ...]


def key_of(spec: Spec) -> tuple[Any, ...]:
    """The spec as NumPy indexes with it."""
    if len(spec) == 1:
        e = spec[0]
        return (slice(*e),) if type(e) is tuple else spec
    return tuple([slice(*e) if type(e) is tuple else e for e in spec])


class Slice(From):
    """t ↦ a rectangular part of it, as t[1:3, ::2]."""

    __slots__ = ("spec",)
    moves_entries = True
    facts = facts("selection")
    adjoint_masks = True

    def __init__(self, in_type: Any, spec: Spec):
        self._in = in_type
        self.spec = spec

    def apply(self, t: Any) -> Any:
        return P.slice(t, spec=self.spec)

    def support(self, mask: Any) -> Any:
        return None if mask is None else whole(mask, self._in.shape)[key_of(self.spec)]

    @property
    def T(self) -> Operator:
        return Unslice(self._in, self.spec)

    @property
    def out_type(self) -> Type:
        return Type(sliced_shape(self._in.shape, self.spec), self._in.dtype)

    @property
    def cost(self) -> Cost:
        return Cost(bytes=self.out_type.size * self._in.dtype.itemsize)

    def __repr__(self) -> str:
        return f"Slice[{show_spec(self.spec)}]"


class Unslice(Into):
    """Adjoint of Slice; zero-padding."""

    __slots__ = ("spec",)
    moves_entries = True
    facts = facts("sparse")
    masks = True

    def __init__(self, out_type: Any, spec: Spec):
        self._out = out_type
        self.spec = spec

    def apply(self, t: Any) -> Any:
        return P.unslice(t, spec=self.spec, shape=self._out.shape)

    def apply_add(self, y: Any, t: Any) -> Any:
        y[key_of(self.spec)] += t
        return y

    def support(self, mask: Any) -> Any:
        part = np.ones(self.in_type.shape, bool) if mask is None else mask
        return P.unslice(part, spec=self.spec, shape=self._out.shape)

    @property
    def T(self) -> Operator:
        return Slice(self._out, self.spec)

    @property
    def in_type(self) -> Type:
        return Type(sliced_shape(self._out.shape, self.spec), self._out.dtype)

    def __repr__(self) -> str:
        return f"Unslice[{show_spec(self.spec)}]"


def pad(in_type: Type, widths: tuple[tuple[int, int], ...]) -> Unslice:
    """Zero-padding by (before, after) per axis."""
    shape = tuple(
        s + before + after for s, (before, after) in zip(in_type.shape, widths, strict=True)
    )
    spec = tuple(
        (before, before + s, 1) for s, (before, _) in zip(in_type.shape, widths, strict=True)
    )
    return Unslice(Type(shape, in_type.dtype), spec)


def sliced_shape(shape: Shape, spec: Spec) -> Shape:
    return part_of(shape, shape, spec)[0]


def part_of(shape: Shape, strides: Shape, spec: Spec) -> tuple[Shape, int, Shape]:
    """What a spec takes of an array with these strides: the shape, where it begins, the strides."""
    counts: list[int] = []
    steps: list[int] = []
    begin = axis = 0
    for e in spec:
        if e is None:
            counts.append(1)
            steps.append(0)
            continue
        if axis == len(shape):
            indexed = sum(k is not None for k in spec)
            raise IndexError(
                f"too many indices for array: array is {axis}-dimensional, but {indexed} were indexed"
            )
        n, stride = shape[axis], strides[axis]
        if type(e) is tuple:
            start, stop, step = slice(*e).indices(n)
            counts.append(len(range(start, stop, step)))
            steps.append(step * stride)
            begin += start * stride
        elif -n <= e < n:
            begin += int(e) % n * stride
        else:
            raise IndexError(f"index {e} is out of bounds for axis {axis} with size {n}")
        axis += 1
    return (*counts, *shape[axis:]), begin, (*steps, *strides[axis:])


def show_spec(spec: Spec) -> str:
    def one(e: Any) -> str:
        if type(e) is not tuple:
            return str(e)
        start, stop, step = e
        text = f"{'' if start is None else start}:{'' if stop is None else stop}"
        return text if step in (None, 1) else f"{text}:{step}"

    return ", ".join(one(e) for e in spec)
