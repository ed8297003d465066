"""Where the largest and the smallest entry stand, by reductions: the first place that holds it.

A NaN is the largest and the smallest of all; the first one counts, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir import Equation


def is_place(e: Equation) -> bool:
    """Whether it can be found so: not along an empty axis, which is an error."""
    return e.primitive.name in PLACES and e.inputs[0].shape[e.params["axis"]] > 0


def _place_of(extremum: Callable[..., Any]) -> Callable[..., Any]:
    def place(a: Any, *, axis: int) -> Any:
        a = a.astype(np.int32) if a.dtype == np.bool_ else a
        n = a.shape[axis]
        found = np.equal(a, extremum(a, axis=axis, keepdims=True))
        if a.dtype.kind in "fc":
            found = np.logical_or(found, np.isnan(a))
        numbers = np.arange(n).reshape(n, *[1] * (a.ndim - 1 - axis))
        return np.min(np.where(found, numbers, n), axis=axis)

    return place


PLACES: dict[str, Callable[..., Any]] = {"argmax": _place_of(np.max), "argmin": _place_of(np.min)}
