"""Orders: where entries stand when sorted. Discrete; reading by them is what has a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..primitive import primitive
from .batching import over_axes

SAMPLE = 1 << 10  # entries that are looked at for equal ones


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
searchsorted = primitive(
    "searchsorted",
    lambda a, v, *, side: np.searchsorted(a, v, side),
    type=lambda a, v, *, side: Type(v.shape, np.dtype(np.intp)),
    code="np.searchsorted({0}, {1}, side='{side}')",
)
