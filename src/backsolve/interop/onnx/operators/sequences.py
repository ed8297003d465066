"""Sequences, as tuples, and optional values, as the value or None."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....numpy._register import shape_of
from .table import known, number, operator


@operator("SequenceEmpty")
def empty(*, dtype: int = 1) -> Any:
    return [()]


@operator("SequenceConstruct")
def construct(*xs: Any) -> Any:
    return [tuple(xs)]


@operator("SequenceInsert")
def insert(xs: Any, x: Any, position: Any = None) -> Any:
    at = len(xs) if position is None else int(number(position, "a position"))
    return [(*xs[:at], x, *xs[at:])]


@operator("SequenceErase")
def erase(xs: Any, position: Any = None) -> Any:
    at = (-1 if position is None else int(number(position, "a position"))) % len(xs)
    return [(*xs[:at], *xs[at + 1 :])]


@operator("SequenceAt")
def at(xs: Any, position: Any) -> Any:
    return xs[int(number(position, "a position"))]


@operator("SequenceLength")
def length(xs: Any) -> Any:
    return np.array(len(xs), np.int64)


@operator("SplitToSequence")
def split(x: Any, sizes: Any = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    count = shape_of(x)[axis]
    if sizes is None:
        parts = [np.take(x, k if not keepdims else np.arange(k, k + 1), axis) for k in range(count)]
        return [tuple(parts)]
    given = known(sizes, "the sizes of SplitToSequence")
    each = int(given.reshape(-1)[0])
    ends = np.arange(each, count, each) if given.ndim == 0 else np.cumsum(given)[:-1]
    return [tuple(np.split(x, ends.tolist(), axis))]


@operator("ConcatFromSequence")
def concat(xs: Any, *, axis: int, new_axis: int = 0) -> Any:
    return np.stack(xs, axis) if new_axis else np.concatenate(xs, axis)


@operator("SequenceMap")
def mapped(xs: Any, *more: Any, body: Any, _outputs: int) -> Any:
    rows = [body(x, *[m[k] if isinstance(m, tuple) else m for m in more]) for k, x in enumerate(xs)]
    return (
        tuple(tuple(row[k] for row in rows) for k in range(_outputs)) if rows else ((),) * _outputs
    )


@operator("Optional")
def optional(x: Any = None, *, type: Any = None) -> Any:
    return [x]


@operator("OptionalGetElement")
def element(x: Any) -> Any:
    if x is None:
        raise ValueError("OptionalGetElement of an optional value that is not there")
    return [x]


@operator("OptionalHasElement")
def has_element(x: Any = None) -> Any:
    return np.array(x is not None)
