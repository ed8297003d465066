"""How the numbers of an array are spread, as a log has it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

BINS = 40


def histogram(values: Any, bins: int = BINS) -> dict[str, Any]:
    """Counts in bins of one width from `low` to `high`, fewer for few numbers, and what they leave out.

    Of complex numbers the magnitudes are counted. `bad` entries are not finite, and in nothing else.

    >>> histogram([0.0, 1.0, 1.0, 4.0, float("nan")], bins=4)
    {'size': 5, 'bad': 1, 'zeros': 1, 'low': 0.0, 'high': 4.0, 'mean': 1.5, 'std': 1.5, 'counts': [1, 2, 0, 1]}
    """
    v = np.asarray(values).reshape(-1)
    v = np.abs(v) if v.dtype.kind == "c" else v
    v = v.astype(np.float64) if v.dtype != np.float32 else v
    finite = np.isfinite(v)
    good = v if finite.all() else v[finite]
    found: dict[str, Any] = {"size": v.size, "bad": v.size - good.size}
    if not good.size:
        return found
    low, high = float(good.min()), float(good.max())
    with np.errstate(over="ignore", invalid="ignore"):
        mean, std = good.mean(dtype=np.float64), good.std(dtype=np.float64)
    found["zeros"] = int(good.size - np.count_nonzero(good))
    found |= {"low": short(low), "high": short(high), "mean": short(mean), "std": short(std)}
    if low == high:
        return found | {"counts": [good.size]}
    if not np.isfinite(high - low):
        return found
    bins = min(bins, math.ceil(2 * math.sqrt(good.size)))
    place = ((good - low) * (bins / (high - low))).astype(np.intp)
    counts = np.bincount(np.minimum(place, bins - 1), minlength=bins)  # faster than np.histogram
    return found | {"counts": counts.tolist()}


def short(x: Any) -> float:
    """Six digits: more are not looked at, and lines stay short."""
    return float(f"{float(x):.6g}")
