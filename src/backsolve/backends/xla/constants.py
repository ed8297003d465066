"""Constants as they are brought to a device: without what repeats in them, parts of a diagonal as two numbers.

The Jacobian of an element-wise function begins with an identity: XLA makes it of indices where it is used.
Large arrays of integers, most of them indices, are brought with half of their bits where these suffice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir import Shape, is_uniform, without_repeats
from .known import array_of
from .library import jax

LITERAL = 1 << 12  # bytes of a constant that is written into the code
_Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Brought:
    """What is brought, and how it becomes the constant there."""

    array: _Array
    shape: Shape
    line: tuple[int, int, int] | None = None  # as _line finds it
    dtype: np.dtype[Any] | None = None  # of the constant, if it may be another

    @staticmethod
    def of(constant: Any, shape: Shape) -> Brought:
        c = array_of(constant)
        if c.nbytes > LITERAL and is_uniform(c):
            return Brought(c[(slice(0, 1),) * c.ndim], shape)
        found = _line(c) if c.shape == shape else None
        if found is not None:
            start, _, k = found
            return Brought(np.array([c[0, -1], c[start, start + k]]), shape, found)
        c = without_repeats(c)
        return Brought(c.astype(np.int32) if _is_wide(c) else c, shape, dtype=c.dtype)

    @property
    def is_large(self) -> bool:
        return self.array.nbytes > LITERAL

    def whole(self, a: Any) -> Any:
        """The constant, of what was brought."""
        if self.line is None:
            a = a if self.dtype is None else a.astype(self.dtype)
            return a if a.shape == self.shape else jax().numpy.broadcast_to(a, self.shape)
        start, stop, k = self.line
        row, column = (jax().lax.broadcasted_iota(np.int32, self.shape, axis) for axis in range(2))
        is_on = column - row == k
        first, end = max(0, -k), min(self.shape[0], self.shape[1] - k)  # of all that lie so
        if start > first:  # what always holds, XLA would compute in a kernel of its own
            is_on &= row >= start
        if stop < end:
            is_on &= row < stop
        return jax().numpy.where(is_on, a[1], a[0])


def _is_wide(c: _Array) -> bool:
    """Whether a large array has 64 bits for each integer, and 32 would do."""
    if c.dtype != np.int64 or c.nbytes <= 2 * LITERAL:
        return False
    numbers = np.iinfo(np.int32)
    return bool(numbers.min <= c.min() and c.max() <= numbers.max)


def _line(c: _Array) -> tuple[int, int, int] | None:
    """(start, stop, k) of a large matrix with one number at (i, i + k) for these i, and one elsewhere."""
    if c.ndim != 2 or c.nbytes <= LITERAL or c.dtype.itemsize > 8 or max(c.shape) >= 1 << 30:
        return None
    bits = c.view(f"u{c.dtype.itemsize}")  # +0 and −0 are two numbers
    other = bits[0, -1]
    if np.count_nonzero(bits[0] != other) > 1:
        return None
    differs = bits != other
    count = int(np.count_nonzero(differs))
    if not 0 < count <= min(c.shape):
        return None
    rows, columns = np.nonzero(differs)
    start, k = int(rows[0]), int(columns[0] - rows[0])
    stop = start + count
    is_line = np.array_equal(rows, np.arange(start, stop)) and np.all(columns - rows == k)
    is_one = np.all(bits[rows, columns] == bits[start, start + k])
    return (start, stop, k) if is_line and is_one else None
