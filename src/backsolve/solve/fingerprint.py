"""A number that tells results apart, for a cost far below computing them: what is run again must give the same.

Entries are weighed by where they stand, so that the same ones in another order give another number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tensor import Tensor

_PERIOD = 1021  # a prime: no row or column of a usual array has this length
_WEIGHTS = 1 + 0.5 * np.cos(np.arange(float(_PERIOD)))
_SAME = 1e-6  # beside the sizes: compiled code may take sums in another order


def fingerprint(leaves: Sequence[Any], size: bool = False) -> float:
    """A weighed sum over all numbers, or over their sizes."""
    total = 0.0
    with np.errstate(all="ignore"):
        for y in leaves:
            v: Any = y._v if isinstance(y, Tensor) else y
            if isinstance(v, int | float | complex | np.generic | np.ndarray):
                v = np.asarray(v)
                if v.dtype.kind in "biufc":
                    found = _weighed(np.abs(v) if size else v)
                    total += found.real + (found.imag if size else 0.7 * found.imag)
    return total


def is_same(before: float, leaves: Sequence[Any]) -> bool:
    """Whether this may be what gave the fingerprint before; of infinite numbers nothing is known."""
    found = fingerprint(leaves)
    if found == before or not np.isfinite(before):
        return True
    return abs(found - before) <= _SAME * fingerprint(leaves, size=True)


def _weighed(v: Any) -> complex:
    flat = v.reshape(-1)
    rest = flat.size % _PERIOD
    total = flat[flat.size - rest :] @ _WEIGHTS[:rest]
    if rest != flat.size:
        total += (
            flat[: flat.size - rest].reshape(-1, _PERIOD).sum(axis=0, dtype=total.dtype) @ _WEIGHTS
        )
    return complex(total)
