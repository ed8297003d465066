"""Whose memory an array is: what a block may capture, and what a Tensor may hold, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from .hooks import undisturbed
from .ir import without_repeats

LARGE = 4096  # entries of an array that is not copied lightly


def own(constant: Any) -> Any:
    """A constant array as a block may capture it: a copy, unless nobody can write into it.

    The caller may write into the array later (a buffer reused in a loop), and the derivative must be
    that of the value that was used. A read-only array (`X.flags.writeable = False`) is not copied, nor is a
    large one in a function that writes into no array.
    """
    if type(constant) is np.ndarray and (constant.flags.writeable or _may_change(constant)):
        if constant.size <= LARGE:
            return constant.copy()
        if undisturbed.depth:
            return shared(constant)
        kept = without_repeats(constant) if 0 in constant.strides else constant
        copy = kept.copy()
        copy.flags.writeable = False  # the next to capture it needs no copy
        return copy if kept is constant else np.broadcast_to(copy, constant.shape)
    return constant


def shared(value: Any) -> Any:
    """Memory that others hold, too, as a Tensor may have it: read-only, so that `is_shared` knows it."""
    if type(value) is np.ndarray:
        value = value.view()
        value.flags.writeable = False
    return value


def finished(array: Any) -> Any:
    """An array that was made here, and that nobody writes into any more: to capture it needs no copy."""
    owner = array
    while isinstance(owner, np.ndarray):
        owner.flags.writeable = False
        owner = owner.base
    return array


def is_shared(value: Any) -> bool:
    """Whether others may write into a Tensor's memory, or rely on it: then it is copied before it is kept."""
    return type(value) is np.ndarray and not value.flags.writeable and _may_change(value)


def _may_change(array: Any) -> bool:
    """Whether anybody can write into the memory: a read-only view of a writable array counts."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return type(array).__name__ == "PyCapsule"  # another library's memory, by DLPack
