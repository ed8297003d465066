"""Buffers and strided views of them.

A View holds its shape and strides as a NumPy array over imaginary memory (one byte an entry, so that
strides count entries): slicing, permuting, broadcasting and reshaping it are NumPy's own operations on
that array, which only do arithmetic on strides. The imaginary memory is never read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from ...ir import Shape
from ...operators.slice import key_of

_FAR = 1 << 40
_BASE = np.zeros(1, np.int8)
ORIGIN = _BASE.__array_interface__["data"][0]


@dataclass(eq=False, slots=True)
class Buffer:
    """Memory for `size` entries: an argument, an output, a constant, or a part of the arena.

    A "ramp" has no memory: the value of an entry is its own address, offset + Σ index · stride.
    """

    kind: str  # "input", "output", "constant", "arena"; in a sweep "local" and "part", "ramp"
    size: int
    dtype: np.dtype[Any]
    index: int = -1  # among its kind
    first: int = -1  # the step that first writes it
    last: int = -1  # the step that last touches it
    offset: int = field(default=-1)  # in bytes, in the arena
    lives_in: Buffer | None = None  # another buffer that it shares all memory with

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


class View:
    __slots__ = ("_buffer", "imaginary")

    def __init__(self, buffer: Buffer, imaginary: np.ndarray[Any, Any]):
        self._buffer = buffer
        self.imaginary = imaginary

    @property
    def buffer(self) -> Buffer:
        return self._buffer.lives_in or self._buffer

    @staticmethod
    def whole(buffer: Buffer, shape: Shape) -> View:
        strides = [1] * len(shape)
        for k in range(len(shape) - 2, -1, -1):
            strides[k] = strides[k + 1] * max(shape[k + 1], 1)
        return View(buffer, _imagine(shape, strides))

    @staticmethod
    def ramp(values: np.ndarray[Any, Any]) -> View | None:
        """Integers that grow evenly along every axis, such as arange(n)[:, None], else None."""
        if values.dtype.kind not in "iu" or values.size < 2:
            return None
        if int(values.min()) < -_FAR or int(values.max()) > _FAR:
            return None  # near the end of the range steps may wrap around
        origin = (0,) * values.ndim
        start = int(values[origin])
        steps = [
            int(values[(*origin[:k], 1, *origin[k + 1 :])]) - start if n > 1 else 0
            for k, n in enumerate(values.shape)
        ]
        even = np.full((), start, values.dtype)
        for k, step in enumerate(steps):
            line = np.arange(values.shape[k], dtype=np.int64) * step
            even = even + line.reshape(-1, *[1] * (values.ndim - 1 - k))
        if not np.array_equal(even, values):
            return None
        # One step along an axis that is not looked at moves the origin to `start`.
        moved = _imagine((2, *values.shape), [start, *steps])[1]
        return View(Buffer("ramp", values.size, values.dtype), moved)

    @property
    def shape(self) -> Shape:
        return self.imaginary.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """In entries; 0 along axes of length 1, which no loop walks."""
        return tuple(
            0 if n == 1 else s for n, s in zip(self.shape, self.imaginary.strides, strict=True)
        )

    @property
    def offset(self) -> int:
        if not self.imaginary.size:
            return 0
        return int(self.imaginary.__array_interface__["data"][0]) - ORIGIN

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.buffer.dtype

    def with_(self, imaginary: np.ndarray[Any, Any]) -> View:
        return View(self.buffer, imaginary)

    def broadcast(self, shape: Shape) -> View:
        return self.with_(np.broadcast_to(self.imaginary, shape))

    def permute(self, axes: tuple[int, ...]) -> View:
        return self.with_(self.imaginary.transpose(axes))

    def reshape(self, shape: Shape) -> View | None:
        """The same entries under another shape, or None if that needs a copy."""
        try:
            return self.with_(np.reshape(self.imaginary, shape, copy=False))
        except ValueError:
            return None

    @property
    def is_contiguous(self) -> bool:
        return bool(self.imaginary.flags.c_contiguous)


def _imagine(shape: Shape, strides: list[int]) -> np.ndarray[Any, Any]:
    # ndarray() itself checks that strides stay inside the buffer; as_strided does not.
    return np.lib.stride_tricks.as_strided(_BASE, shape, strides)


def size_of(shape: Shape) -> int:
    return prod(shape)


def around(view: View, spec: tuple[Any, ...]) -> list[tuple[Any, ...]] | None:
    """Keys of what a slice leaves over, if it cuts one axis only and without steps; else None."""
    key = key_of(spec)
    if any(k is None or k is Ellipsis for k in key):
        return None
    cut = [axis for axis, k in enumerate(key) if k != slice(None)]
    if len(cut) != 1 or not isinstance(key[cut[0]], slice):
        return None
    axis = cut[0]
    start, stop, step = key[axis].indices(view.shape[axis])
    if step != 1 or stop <= start:
        return None
    front = (slice(None),) * axis
    pieces = [slice(0, start), slice(stop, view.shape[axis])]
    return [(*front, p) for p in pieces if p.start < p.stop]
