"""Numbers that tell runs apart, for a cost far below running: what is run again must be and give the same.

Entries are weighed by where they stand, so that the same ones in another order give another number. Results
alone do not tell: 2 x and 5 x are the same at 0, and their derivatives are not. What determines derivatives is
what the rows of a run are and what they captured: from outside, and of what was computed on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from math import isfinite, log2
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from ..ir import Var
from ..primitive import P
from ..row import Row
from ..tensor import Tensor

_PERIOD = 1021  # a prime: no row or column of a usual array has this length
_WEIGHTS = 1 + 0.5 * np.cos(np.arange(float(_PERIOD)))
_FIRST = _WEIGHTS.tolist()
_MANY = 2048
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


class Prints(NamedTuple):
    """Of the rows of a run; NaN if they are staged, or infinite: then nothing is known."""

    outside: (
        float  # what the rows are, and what they captured that no row made: each by its own scale
    )
    inside: float  # what they captured of each other


def outside_of(rows: Sequence[Row]) -> float:
    total, n = 0.0, 0
    for row in rows:
        primitive = row.primitive
        if primitive.is_leaf or primitive is P.alias:
            continue
        here = _code(primitive.name)
        saved = row.saved
        for k, parent in enumerate(row.parents, 1):
            if parent.__class__ is Row:
                here = 0.9 * here + 1.0
            else:
                here *= 0.9
                if k < len(saved) and saved[k] is not None:
                    here += _by_its_scale(saved[k])
        if row.params:
            here += _of_params(row.params)
        total += _FIRST[n % _PERIOD] * here
        n += 1
    return total


def inside_of(rows: Sequence[Row], size: bool = False) -> float:
    total = 0.0
    for row in rows:
        if _is_start(row) or not row.saved:
            continue
        of_rows = [
            v for v, p in zip(row.saved[1:], row.parents, strict=False) if p.__class__ is Row
        ]
        if any(type(v) is Var for v in (row.saved[0], *of_rows)):
            return float("nan")
        total += fingerprint([_some(row.saved[0]), *map(_some, of_rows)], size)
    return total


def _some(v: Any) -> Any:
    """Of large arrays some entries: where one changes and no result does, it is by what all rest on."""
    if not isinstance(v, np.ndarray) or v.size <= _MANY:
        return v
    entries = v.reshape(-1) if v.flags.c_contiguous else v.flat
    return entries[:: 1 + v.size // _MANY]


def prints_of(rows: Sequence[Row]) -> Prints:
    return Prints(outside_of(rows), inside_of(rows))


def are_same(before: Prints, rows: Sequence[Row]) -> bool:
    """Whether these may be the rows that gave the prints before."""
    if not is_near(before.outside, outside_of(rows)):
        return False
    found = inside_of(rows)
    if found == before.inside or not isfinite(found - before.inside):
        return True
    return abs(found - before.inside) <= _SAME * inside_of(rows, size=True)


def is_near(before: float, found: float) -> bool:
    """Of what `outside_of` gives."""
    return before == found or not abs(found - before) > _SAME


def _is_start(row: Row) -> bool:
    """What a run begins with: of a derivative that is recorded, a row that takes over another's value."""
    return row.primitive.is_leaf or row.primitive is P.alias


@cache
def _code(text: str) -> float:
    return crc32(text.encode()) / 2**32


def _of_params(params: Any) -> float:
    """Numbers, texts and arrays among them; functions and what else is no value say nothing."""
    if isinstance(params, dict):
        return sum(_of_params(v) * (1 + _code(k)) for k, v in params.items())
    if isinstance(params, list | tuple):
        return sum(_of_params(v) * (1 + 0.3 * k) for k, v in enumerate(params, 1))
    if params is None or isinstance(params, str | bytes | slice | np.dtype | type(Ellipsis)):
        return _code(repr(params))
    return _by_its_scale(params)


def _by_its_scale(v: Any) -> float:
    """A number that changes as much if v is 1e-9 as if it is 1e9."""
    if type(v) is Var:
        return float("nan")
    if isinstance(v, np.ndarray) and v.shape == () and v.dtype.kind == "f":
        v = float(v)
    if isinstance(v, float | int):
        return _of_one(v)
    size = fingerprint([v], size=True)
    return fingerprint([v]) / size + log2(size) if isfinite(size) and size else 0.0


@lru_cache(maxsize=1024)
def _of_one(v: float) -> float:
    size = abs(v)
    return (1.0 if v > 0 else -1.0) + log2(size) if isfinite(size) and size else 0.0
