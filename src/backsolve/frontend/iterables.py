"""What a staged loop can run over: sequences of known or traced length, read by index."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import ControlFlowError, TracedValueError
from ..numpy.creation import KEEPING
from ..tensor import Tensor
from .aliases import seen
from .places import holds_traced, is_number, is_traced, shape_of
from .writes import traced_key


class Indexable(ABC):
    """`length` is an int or traced; `at(k)` gives entry k, for k an int or traced."""

    length: Any

    @abstractmethod
    def at(self, k: Any) -> Any: ...

    def __len__(self) -> int:
        if is_traced(self.length):
            raise ControlFlowError("the length of this range is a traced value")
        return self.length

    def __iter__(self) -> Iterator[Any]:
        if is_traced(self.length):
            raise ControlFlowError(
                "a range of traced length can be run over by a `for` statement only; not by a "
                "comprehension, list() or a function that was not rewritten"
            )
        return (self.at(k) for k in builtins.range(self.length))


class Range(Indexable):
    """range(start, stop, step) of which something may be traced; with a step of 1 a loop counts directly."""

    def __init__(self, *bounds: Any):
        start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        self.start, self.stop, self.step = start, stop, step
        for bound in (start, stop, step):
            if is_traced(bound) and (bound.dtype.kind not in "iu" or bound.ndim):
                raise TypeError(
                    f"range needs integers, got {bound.dtype.name}{list(bound.shape)}; write x.astype(int)"
                )

    @property
    def length(self) -> Any:
        start, stop, step = self.start, self.stop, self.step
        if not any(is_traced(x) for x in (start, stop, step)):
            return len(builtins.range(start, stop, step))
        if is_traced(step):
            raise ControlFlowError("the step of a range must be known; multiply inside the loop")
        count = -((start - stop) // step)  # rounded up
        return np.maximum(count, 0)

    def at(self, k: Any) -> Any:
        return self.start + k * self.step


class Rows(Indexable):
    """The entries of an array along its first axis."""

    def __init__(self, array: Any):
        self.array, self.length = array, len(array)

    def at(self, k: Any) -> Any:
        return seen((wrapped(self.array) if is_traced(k) else self.array)[k], self.array)


def unpacked(x: Any) -> Any:
    """What is taken apart into several variables: the rows of a tensor are seen as such."""
    return list(Rows(x)) if isinstance(x, Tensor) and x.ndim > 1 else x


def wrapped(a: Any) -> Any:
    """An array that can be read at a traced index."""
    if isinstance(a, Tensor):
        return a
    from ..primitive import wrap

    return wrap(a, None)


def item(x: Any, key: Any) -> Any:
    """x[key]"""
    if isinstance(x, np.ndarray) and holds_traced(key):
        return wrapped(x)[key]
    if isinstance(x, list | tuple) and is_traced(key):
        return _joined(x)[key]
    if isinstance(x, dict) and is_traced(key):
        raise traced_key()
    return seen(x[key], x) if isinstance(x, Tensor) and _is_basic(key) else x[key]


def _is_basic(key: Any) -> bool:
    """Whether NumPy would show the array's own memory."""
    if isinstance(key, tuple):
        return all(_is_basic(k) for k in key)
    if isinstance(key, list) or (hasattr(key, "ndim") and key.ndim):
        return False
    return getattr(key, "dtype", None) != np.bool_ and not isinstance(key, bool)


def _joined(x: Any) -> Any:
    """The entries of a list as one array."""
    if not x or not all(is_number(entry) for entry in x) or len({shape_of(e) for e in x}) > 1:
        raise TracedValueError(
            f"this takes an entry of a {type(x).__name__} at a traced place; for that its entries must be "
            "numbers, or arrays of one shape"
        )
    return wrapped(KEEPING["array"](x))


class Zip(Indexable):
    def __init__(self, *parts: Indexable):
        self.parts = parts

    @property
    def length(self) -> Any:
        lengths = [p.length for p in self.parts]
        known = [n for n in lengths if not is_traced(n)]
        result: Any = min(known) if known else None
        for n in lengths:
            if is_traced(n):
                result = n if result is None else np.minimum(result, n)
        return result

    def at(self, k: Any) -> Any:
        return tuple([p.at(k) for p in self.parts])


class Enumerate(Indexable):
    def __init__(self, part: Indexable, start: Any = 0):
        self.part, self.start = part, start

    @property
    def length(self) -> Any:
        return self.part.length

    def at(self, k: Any) -> Any:
        return k + self.start, self.part.at(k)


class Reversed(Indexable):
    def __init__(self, part: Indexable):
        self.part = part

    @property
    def length(self) -> Any:
        return self.part.length

    def at(self, k: Any) -> Any:
        return self.part.at(self.part.length - 1 - k)


def sequence_of(x: Any) -> Indexable | None:
    """What a loop can be staged over, or None: lists, dicts, generators just run."""
    if isinstance(x, Indexable):
        return x
    if isinstance(x, builtins.range):
        return Range(x.start, x.stop, x.step)
    if isinstance(x, Tensor | np.ndarray) and x.ndim and x.dtype.kind != "O":
        return Rows(x)
    return None


def indexable(f: Any) -> Any:
    """range, zip, enumerate or reversed as a loop calls it."""
    return _REPLACED.get(f, f) if f in _REPLACED else f


def range_(*bounds: Any) -> Any:
    if any(is_traced(b) for b in bounds):
        return Range(*bounds)
    return builtins.range(*bounds)


def zip_(*parts: Any, **options: Any) -> Any:
    sequences = [s for s in map(sequence_of, parts) if s is not None]
    known = [None if is_traced(s.length) else s.length for s in sequences]
    is_even = None not in known and len(set(known)) == 1
    are_known = parts and len(sequences) == len(parts)
    if not are_known or (options.get("strict") and not is_even):
        return builtins.zip(*parts, **options)  # noqa: B905  (as the user wrote it)
    return Zip(*sequences)


def enumerate_(part: Any, start: Any = 0) -> Any:
    found = sequence_of(part)
    return builtins.enumerate(part, start) if found is None else Enumerate(found, start)


def reversed_(part: Any) -> Any:
    found = sequence_of(part)
    return builtins.reversed(part) if found is None else Reversed(found)


_REPLACED: dict[Any, Any] = {
    builtins.range: range_,
    builtins.zip: zip_,
    builtins.enumerate: enumerate_,
    builtins.reversed: reversed_,
}
