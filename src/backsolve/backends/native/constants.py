"""Constants as compiled code keeps them: each only once, without the copies that broadcasting made."""

from __future__ import annotations

from typing import Any

import numpy as np


def same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Equal, NaN and signed zeros included. Tries a few entries first."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    few = (slice(0, 2),) * a.ndim
    return _bytes(a[few]) == _bytes(b[few]) and bool(np.array_equal(_words(a), _words(b)))


def without_copies(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Axes along which all slices are the same are cut to length 1: the view is broadcast again."""
    for axis in range(a.ndim):
        if a.shape[axis] < 2:
            continue
        first = a[(slice(None),) * axis + (slice(0, 1),)]
        second = a[(slice(None),) * axis + (slice(1, 2),)]
        if same_bits(first, second) and same_bits(np.broadcast_to(first, a.shape), a):
            a = first
    return np.ascontiguousarray(a).reshape(a.shape)


def _bytes(a: np.ndarray[Any, Any]) -> bytes:
    return a.tobytes()


def _words(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same memory as integers; complex numbers as pairs of them."""
    if a.dtype.kind == "c":
        return np.stack([_words(a.real), _words(a.imag)])
    whole = a if a.strides and a.strides[-1] == a.itemsize else np.array(a, order="C")
    return whole.view(f"u{a.itemsize}")
