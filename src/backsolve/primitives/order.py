"""Orders: where entries stand when sorted. Discrete; reading by them is what has a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir import Type
from ..primitive import primitive
from .batching import over_axes

SAMPLE = 1 << 10  # entries that are looked at for equal ones
LONG = 256  # entries of a line from which on selecting is worth a look for ties


def _run_argsort(a: Any, *, axis: int) -> Any:
    """Always stable. Where no two entries are equal there is but one order, and NumPy finds it faster unasked
    for a stable one (with AVX-512 several times)."""
    if a.ndim == 1 and a.size > 4 * SAMPLE and a.dtype.kind == "f":
        sample = np.sort(a[:: a.size // SAMPLE])
        if not np.any(sample[1:] == sample[:-1]):
            order = np.argsort(a)
            ordered = a[order]  # NaNs come last
            if not (np.isnan(ordered[-1]) or np.any(ordered[1:] == ordered[:-1])):
                return order
    return np.argsort(a, axis=axis, stable=True)


argsort = primitive(
    "argsort",
    _run_argsort,
    type=lambda a, *, axis: Type(a.shape, np.dtype(np.intp)),
    batch=over_axes,
    code="np.argsort({0}, axis={axis}, stable=True)",
)


def _run_ranked(a: Any, *, axis: int, ranks: tuple[int, ...]) -> Any:
    """By selection; of equal entries that does not tell which comes first, so then by sorting."""
    if a.dtype.kind in "fiu" and a.shape[axis] >= LONG and a.size:
        places = np.take(np.argpartition(a, ranks, axis), ranks, axis)
        found = np.take_along_axis(a, places, axis)
        each = (np.take(found, [k], axis) for k in range(len(ranks)))
        if all(np.all(np.sum(a == x, axis) == 1) for x in each):
            return places
    return np.take(_run_argsort(a, axis=axis), ranks, axis)


def _type_ranked(a: Type, *, axis: int, ranks: tuple[int, ...]) -> Type:
    n = a.shape[axis]
    if any(not 0 <= r < n for r in ranks):
        raise ShapeError(f"an axis of {n} entries has no ranks {ranks}")
    return Type((*a.shape[:axis], len(ranks), *a.shape[axis + 1 :]), np.dtype(np.intp))


# Where the entries stand that would have these ranks if they were sorted: some of the results of argsort.
ranked = primitive(
    "ranked",
    _run_ranked,
    type=_type_ranked,
    batch=over_axes,
    code="np.take(np.argsort({0}, axis={axis}, stable=True), {ranks}, axis={axis})",
)
searchsorted = primitive(
    "searchsorted",
    lambda a, v, *, side: np.searchsorted(a, v, side),
    type=lambda a, v, *, side: Type(v.shape, np.dtype(np.intp)),
    code="np.searchsorted({0}, {1}, side='{side}')",
)
