"""Running sums and products along an axis.

cumprod: y_j = a_j y_{j−1}, so dy_j = a_j dy_{j−1} + y_{j−1} da_j: a linear recurrence in dy. Its
block is Recurrence(a) @ Diagonal(y shifted), which is right also where entries are zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..operators import Cumsum, Diagonal, Product, Recurrence
from ..operators.recurrence import RUNNING, sum_ahead, sum_back
from ..primitive import primitive
from .batching import over_axes
from .chains import in_log_depth, pays_for_entries
from .large import large


def _same(a: Type, *, axis: int) -> Type:
    return Type(a.shape, np.cumsum(np.ones(1, a.dtype)).dtype)


def shifted(y: Any, axis: int, first: float, reverse: bool = False) -> Any:
    """y_{j−1} at place j (y_{j+1} when reversed), `first` where nothing stands before."""
    n = y.shape[axis]
    if n == 0:
        return y
    whole = (slice(None),) * axis
    edge = np.full((*y.shape[:axis], 1, *y.shape[axis + 1 :]), first, y.dtype)
    if reverse:
        return np.concatenate([y[(*whole, slice(1, None))], edge], axis=axis)
    return np.concatenate([edge, y[(*whole, slice(0, n - 1))]], axis=axis)


def _run_recurrence(a: Any, t: Any, *, axis: int, reverse: bool) -> Any:
    """s_j = t_j + a_j s_{j−1}, from the other end when reversed."""
    shape = np.broadcast_shapes(a.shape, t.shape)
    a = np.moveaxis(np.broadcast_to(a, shape), axis, 0)
    s = np.moveaxis(np.array(np.broadcast_to(t, shape), dtype=np.result_type(a, t)), axis, 0)
    if s.dtype.kind in "fc" and pays_for_entries(len(s), s[:1].size):
        way = slice(None, None, -1 if reverse else 1)
        found = in_log_depth(a[way], s[way], np.multiply, np.multiply)
        if found is not None:
            return np.ascontiguousarray(np.moveaxis(found[way], 0, axis))
    order = range(s.shape[0] - 2, -1, -1) if reverse else range(1, s.shape[0])
    step = 1 if reverse else -1
    if s.ndim == 1:  # numbers: Python's own are the fastest to loop over
        values, factors = s.tolist(), a.tolist()
        for j in order:
            values[j] += factors[j] * values[j + step]
        return np.array(values, dtype=s.dtype).reshape(s.shape)
    for j in order:
        s[j] += a[j] * s[j + step]
    return np.ascontiguousarray(np.moveaxis(s, 0, axis))


RUNNING["ahead"] = large(sum_ahead, "cumsum")
RUNNING["reverse"] = large(sum_back, "cumsum_reverse")


def _run_cumsum(a: Any, *, axis: int) -> Any:
    if a.ndim == 1 and a.dtype.char in "fd":
        return RUNNING["ahead"](a)
    return np.add.accumulate(a, axis=axis) if a.dtype.kind in "fc" else np.cumsum(a, axis=axis)


cumsum = primitive(
    "cumsum",
    _run_cumsum,
    blocks=(lambda A, *, axis: Cumsum(A, axis),),
    type=_same,
    batch=over_axes,
    code="np.cumsum({0}, axis={axis})",
)
cumprod = primitive(
    "cumprod",
    lambda a, *, axis: np.cumprod(a, axis=axis),
    blocks=(lambda y, a, *, axis: Product([Recurrence(a, axis), Diagonal(shifted(y, axis, 1.0))]),),
    type=_same,
    batch=over_axes,
    code="np.cumprod({0}, axis={axis})",
)
# ds_j = dt_j + a_j ds_{j−1} + s_{j−1} da_j
recurrence = primitive(
    "recurrence",
    _run_recurrence,
    blocks=(
        lambda y, a, *, axis, reverse: Product(
            [Recurrence(a, axis, reverse), Diagonal(shifted(y, axis, 0.0, reverse))]
        ),
        lambda a, *, axis, reverse: Recurrence(a, axis, reverse),
    ),
    type=lambda a, t, *, axis, reverse: Type(t.shape, np.result_type(a.dtype, t.dtype)),
    batch=over_axes,
)
