"""np.pad in all its modes.

Constant padding places the array among zeros. The modes that copy entries read by index. The rest
(mean, median, maximum, minimum, linear_ramp, odd reflection) go axis by axis and join the edges.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..primitive import FUNCTIONS, P
from ..tensor import Tensor
from ._register import array, dtype_of, function, shape_of
from .indexing import getitem, take
from .joining import concatenate

_READS = ("edge", "reflect", "symmetric", "wrap")
_STATISTICS = {"mean": "mean", "median": "median", "maximum": "max", "minimum": "min"}


@function
def pad(array_: Any, /, pad_width: Any, mode: Any = "constant", **options: Any) -> Any:
    a = array(array_)
    if not shape_of(a):
        return P.alias(a)
    widths = _pairs(pad_width, len(shape_of(a)))
    np.pad(np.broadcast_to(0.0, shape_of(a)), widths, mode, **_checked(mode, options))  # its errors
    if mode in ("constant", "empty"):
        return _constant(a, widths, options.get("constant_values", 0))
    if mode in _READS and options.get("reflect_type", "even") == "even":
        for k, width in enumerate(widths):
            a = take(a, np.pad(np.arange(shape_of(a)[k]), width, mode), axis=k)
        return a
    for k, width in enumerate(widths):
        a = _edges(a, k, width, mode, len(widths), options)
    return a


def _checked(mode: Any, options: dict[str, Any]) -> dict[str, Any]:
    if callable(mode):
        raise UnsupportedError("`pad` on a tensor takes the name of a mode, not a function")
    return {k: 0 if isinstance(v, Tensor) else v for k, v in options.items()}


def _pairs(given: Any, n: int) -> list[tuple[Any, Any]]:
    """NumPy's ways to write (before, after) per axis."""
    if isinstance(given, dict):
        pairs = [(0, 0)] * n
        for k, width in given.items():
            pairs[k] = width if isinstance(width, tuple) else (width, width)
        return pairs
    table = np.broadcast_to(np.asarray(given), (n, 2))
    return [(before, after) for before, after in table.tolist()]


def _constant(a: Any, widths: list[tuple[int, int]], constant: Any) -> Any:
    shape = shape_of(a)
    spec = tuple((b, b + s, 1) for s, (b, _) in zip(shape, widths, strict=True))
    full = tuple(b + s + e for s, (b, e) in zip(shape, widths, strict=True))
    padded = P.unslice(a, spec=spec, shape=full)
    if isinstance(constant, Tensor):
        inside = np.pad(np.ones(shape, bool), widths)
        return P.where(inside, padded, FUNCTIONS["astype"](constant, dtype_of(a)))
    if np.any(constant):
        fill = np.pad(np.zeros(shape, dtype_of(a)), widths, constant_values=constant)
        padded = padded + fill
    return padded


def _edges(a: Any, k: int, width: tuple[int, int], mode: str, n: int, options: Any) -> Any:
    """`a` with both edges of axis k put on."""
    full = (slice(None),) * k
    size = shape_of(a)[k]

    def part(start: int, stop: int, step: int = 1) -> Any:
        return getitem(a, (*full, slice(start, stop if stop >= 0 else None, step)))

    first, last = part(0, 1), part(size - 1, size)
    before, after = width
    if mode == "linear_ramp":
        ends = _pairs(options.get("end_values", 0), n)[k]
        left = _ramp(first, ends[0], before, k, len(shape_of(a)), reverse=False)
        right = _ramp(last, ends[1], after, k, len(shape_of(a)), reverse=True)
        return concatenate([left, a, right], k)
    if mode in _STATISTICS:
        lengths = options.get("stat_length")
        counts = (size, size) if lengths is None else _pairs(lengths, n)[k]
        statistic = FUNCTIONS[_STATISTICS[mode]]
        sides = []
        for reach, chosen in (
            (before, part(0, min(counts[0], size))),
            (after, part(max(size - counts[1], 0), size)),
        ):
            edge = statistic(chosen, axis=k, keepdims=True)
            shape = tuple(reach if j == k else s for j, s in enumerate(shape_of(a)))
            sides.append(P.broadcast_to(edge, shape=shape))
        return concatenate([sides[0], a, sides[1]], k)
    # Odd reflection: 2·edge − mirror image, as often as it takes.
    skip = 1 if mode == "reflect" else 0
    while before or after:
        size = shape_of(a)[k]
        take_before, take_after = min(before, size - skip), min(after, size - skip)
        first, last = part(0, 1), part(size - 1, size)
        left = 2 * first - part(skip + take_before - 1, skip - 1, -1)
        right = 2 * last - part(size - 1 - skip, size - 1 - skip - take_after, -1)
        pieces = ([left] if take_before else []) + [a] + ([right] if take_after else [])
        a = concatenate(pieces, k)
        before, after = before - take_before, after - take_after
    return a


def _ramp(edge: Any, end: Any, width: int, k: int, n: int, *, reverse: bool) -> Any:
    """From `end` (outside) to the edge, which is not repeated."""
    steps = np.arange(width) / max(width, 1)
    steps = steps[::-1] if reverse else steps
    t = steps.reshape([-1 if j == k else 1 for j in range(n)]).astype(dtype_of(edge))
    return end * (1 - t) + edge * t
