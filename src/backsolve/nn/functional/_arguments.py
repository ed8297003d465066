"""How arguments of operators over space are read: PyTorch's numbers, tuples and batches."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ...errors import ShapeError
from ...numpy._register import array, ndim_of, shape_of
from ...primitive import P
from ...random import State

Shape = tuple[int, ...]


def each(value: Any, n: int, name: str, least: int = 0) -> Shape:
    """One integer for each of n axes, from one for all or a sequence."""
    if hasattr(value, "__len__"):
        numbers = tuple(operator.index(k) for k in value)
        numbers = numbers * n if len(numbers) == 1 else numbers
    else:
        numbers = (operator.index(value),) * n
    if len(numbers) != n or any(k < least for k in numbers):
        at_least = f" of at least {least}" if least else ""
        raise ShapeError(f"{name} must be one integer or {n}{at_least}, got {value!r}")
    return numbers


def batched(f: Callable[[Any], Any], x: Any, rank: int, name: str) -> Any:
    """f of (batch, channels, …) arrays, also for a single example without the axis of the batch."""
    x = array(x)
    if ndim_of(x) == rank - 1:
        y = f(P.reshape(x, shape=(1, *shape_of(x))))
        return tuple(a[0] for a in y) if isinstance(y, tuple) else y[0]
    if ndim_of(x) != rank:
        raise ShapeError(
            f"{name} takes arrays of rank {rank} (or {rank - 1}, without batch), "
            f"got shape {shape_of(x)}"
        )
    return f(x)


def place(x: Any, before: Shape, after: Shape) -> Any:
    """The last axes of x among zeros, or cut where numbers are negative."""
    shape, n = shape_of(x), len(before)
    if not any((*before, *after)):
        return x
    lead = ((None, None, None),) * (len(shape) - n)
    sizes = shape[len(shape) - n :]
    if any(k < 0 for k in (*before, *after)):
        kept = [
            (max(-b, 0), s - max(-a, 0), 1) for s, b, a in zip(sizes, before, after, strict=True)
        ]
        if any(stop < start for start, stop, _ in kept):
            raise ShapeError(f"nothing is left of shape {shape} padded by {before} and {after}")
        x = P.slice(x, spec=(*lead, *kept))
        return place(x, tuple(max(b, 0) for b in before), tuple(max(a, 0) for a in after))
    spec = (*lead, *[(b, b + s, 1) for s, b in zip(sizes, before, strict=True)])
    full = tuple(b + s + a for s, b, a in zip(sizes, before, after, strict=True))
    return P.unslice(x, spec=spec, shape=(*shape[: len(shape) - n], *full))


def needed(name: str, generator: State | None) -> State:
    """The state of random numbers, which there must be."""
    if not isinstance(generator, State):
        raise ValueError(
            f"{name} draws random numbers: pass generator=bs.random.key(seed), got {generator!r}"
        )
    return generator
