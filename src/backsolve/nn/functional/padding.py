"""Padding, with PyTorch's order of widths: from the last axis to the first."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ...errors import ShapeError
from ...numpy._register import array, dtype_of, integers, ndim_of, shape_of
from ...primitive import P
from ._arguments import place

# By NumPy's names.
_READS: dict[str, Literal["reflect", "edge", "wrap"]] = {
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "wrap",
}


def pad(input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    """`pad` is (left, right) of the last axis, then of the one before it, and so on.

    Modes: "constant" (negative widths cut), "reflect", "replicate", "circular".

    >>> import numpy as np
    >>> pad(np.array([1.0, 2.0, 3.0]), (2, 1), value=9)
    array([9., 9., 1., 2., 3., 9.])
    >>> pad(np.array([[1.0, 2.0, 3.0]]), (1, 2), mode="circular")
    array([[3., 1., 2., 3., 1., 2.]])
    """
    x, widths = array(input), integers(pad)
    n, rest = divmod(len(widths), 2)
    if rest or n > ndim_of(x):
        raise ShapeError(
            f"pad takes two widths for each of at most {ndim_of(x)} axes, got pad={pad!r}"
        )
    before, after = tuple(widths[0::2][::-1]), tuple(widths[1::2][::-1])
    if mode == "constant":
        return _constant(x, before, after, 0 if value is None else value)
    if mode not in _READS:
        raise ValueError(
            f'pad takes mode "constant", "reflect", "replicate" or "circular", got {mode!r}'
        )
    if value is not None:
        raise ValueError(f"pad: value={value!r} has no meaning in mode {mode!r}")
    for axis, b, a in zip(range(ndim_of(x) - n, ndim_of(x)), before, after, strict=True):
        x = _read(x, axis, b, a, mode)
    return x


def _constant(x: Any, before: tuple[int, ...], after: tuple[int, ...], value: Any) -> Any:
    y = place(x, before, after)
    if value == 0:
        return y
    inside = place(np.ones(shape_of(x), bool), before, after)
    return P.where(inside, y, dtype_of(x).type(value))


def _read(x: Any, axis: int, before: int, after: int, mode: str) -> Any:
    size = shape_of(x)[axis]
    most = size - 1 if mode == "reflect" else size if mode == "circular" else max(before, after)
    if max(before, after) > most or (size == 0 and (before or after)):
        raise ShapeError(
            f"pad: widths {(before, after)} are too large for {size} entries in mode {mode!r}"
        )
    if before < 0 or after < 0:
        lead = ((None, None, None),) * axis
        x = P.slice(x, spec=(*lead, (max(-before, 0), size - max(-after, 0), 1)))
        before, after = max(before, 0), max(after, 0)
    if not before and not after:
        return x
    places = np.pad(np.arange(shape_of(x)[axis]), (before, after), _READS[mode])
    return np.take(x, places, axis=axis)
