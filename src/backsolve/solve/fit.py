"""What the engine adds to every block: broadcasting and promotion, in both directions.

An element-wise row reads inputs of other shapes and dtypes than its own. Forward, a differential is
spread and cast like the value was; backward, the adjoints of these two: summed and cast back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..operators.broadcast import any_to, sum_to
from ..operators.cast import convert
from ..row import Row
from .masked import Masked


def fit_back(g: Any, row: Row) -> Any:
    """An adjoint of the shape of a result, as the adjoint of its input `row`."""
    if g.__class__ is Masked:
        if g.value.shape != row.shape:
            g = Masked(sum_to(g.value, row.shape), any_to(g.mask, g.value.shape, row.shape))
        return Masked(convert(g.value, row.dtype), g.mask) if g.value.dtype != row.dtype else g
    if g.shape != row.shape:
        g = sum_to(g, row.shape)
    if g.dtype != row.dtype:
        g = convert(g, row.dtype)
    return g


def fit_ahead(t: Any, row: Row) -> Any:
    """A differential that came out of a block, as the differential of `row`."""
    if t.__class__ is Masked:
        value, mask = fit_ahead(t.value, row), t.mask
        return Masked(value, mask if mask.shape == row.shape else np.broadcast_to(mask, row.shape))
    if t.shape != row.shape:
        t = np.broadcast_to(t, row.shape)
    if t.dtype != row.dtype:
        t = convert(t, row.dtype)
    return t
