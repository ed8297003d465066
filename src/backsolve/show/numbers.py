"""Arrays as a page shows them: all numbers of a small one, a summary of a large one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..system_text import show_value

_SHOWN = 64  # entries of an array that a page lists
_BINS = 24


def array_data(a: Any) -> dict[str, Any]:
    """Every number: {"shape", "dtype", "data"}."""
    a = np.asarray(a)
    return {"shape": list(a.shape), "dtype": a.dtype.name, "data": numbers(a)}


def numbers(a: Any) -> list[Any]:
    """A flat list as JSON has it, which knows no infinities."""
    flat = np.asarray(a).reshape(-1)
    if flat.dtype.kind == "c":
        return [[number(z.real), number(z.imag)] for z in flat.tolist()]
    listed = flat.tolist()
    if flat.dtype.kind != "f" or bool(np.isfinite(flat).all()):
        return listed
    return [number(x) for x in listed]


def number(x: Any) -> Any:
    x = float(x)
    return x if np.isfinite(x) else repr(x)  # "nan", "inf", "-inf"


def norm(a: Any) -> float:
    """√Σ|a|², also of numbers whose squares are too large or too small.

    >>> norm([3e200]), norm([3e-200])
    (3e+200, 3e-200)
    """
    flat = np.asarray(a).reshape(-1)
    if flat.dtype.kind != "f" or flat.dtype.itemsize > 8:
        flat = np.abs(flat).astype(np.float64)
    with np.errstate(all="ignore"):
        found = float(np.sqrt(np.einsum("i,i->", flat, flat, dtype=np.float64)))
        if 1e-150 < found < 1e150 or not flat.size:
            return found
        most = float(np.abs(flat).max())
        return most * norm(flat / most) if 0 < most < np.inf else most


def summary(a: Any) -> dict[str, Any]:
    """What a page says of an array: its text, its numbers if they are few, else how they are spread."""
    if a is None:  # a row of another thread, or several results in one
        return {"text": show_value(None), "shape": [0], "dtype": "", "norm": 0.0, "data": []}
    a = np.asarray(a)
    found: dict[str, Any] = {
        "text": show_value(a),
        "shape": list(a.shape),
        "dtype": a.dtype.name,
        "norm": number(norm(a)),
    }
    if a.size <= _SHOWN:
        found["data"] = numbers(a)
        return found
    size = np.abs(a) if a.dtype.kind == "c" else a.astype(np.float64)
    good = size.reshape(-1)
    is_good = np.isfinite(good)
    if not is_good.all():
        good = good[is_good]
    found["bad"] = int(a.size - good.size)
    if good.size:
        least, most = good.min(), good.max()
        counts, edges = (
            np.histogram(good, _BINS, (least, most)) if least < most else ([good.size], good[:1])
        )
        found["least"], found["most"] = number(least), number(most)
        found["mean"] = number(good.mean())
        found["histogram"] = [int(c) for c in counts]
        found["edges"] = numbers(np.asarray(edges))
    return found
