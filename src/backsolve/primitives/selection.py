"""Element-wise functions that select: maximum, where, clip.

Their blocks are masks, so that what was not selected stays zero whatever it meets. Ties of maximum and minimum
are shared in halves; clip counts its bounds as inside.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ..hooks import hooks
from ..operators import Diagonal, Mask, Product
from .elementwise import binary, elementwise, holds_nowhere
from .large import where as large_where


def _wins(mine: Any, other: Any, better: Any) -> Any:
    tie = np.equal(mine, other)
    if holds_nowhere(tie):
        return Mask(better(mine, other))
    return Product(
        [
            Diagonal(
                np.where(tie, 0.5, 1.0).astype(mine.dtype if hasattr(mine, "dtype") else float)
            ),
            Mask(np.logical_or(better(mine, other), tie)),
        ]
    )


def _wins_or_nan(mine: Any, other: Any, better: Any) -> Any:
    tie = np.equal(mine, other)
    valid = np.logical_or(better(mine, other), np.isnan(other))
    return Product([Diagonal(np.where(tie, 0.5, 1.0)), Mask(np.logical_or(valid, tie))])


maximum = binary(
    "maximum", lambda a, b: _wins(a, b, np.greater), lambda a, b: _wins(b, a, np.greater)
)
minimum = binary("minimum", lambda a, b: _wins(a, b, np.less), lambda a, b: _wins(b, a, np.less))
fmax = binary(
    "fmax", lambda a, b: _wins_or_nan(a, b, np.greater), lambda a, b: _wins_or_nan(b, a, np.greater)
)
fmin = binary(
    "fmin", lambda a, b: _wins_or_nan(a, b, np.less), lambda a, b: _wins_or_nan(b, a, np.less)
)
hooks.where = large_where
where = elementwise(
    "where", large_where, (None, lambda a: Mask(a), lambda a: Mask(np.logical_not(a))), ufunc=()
)


# The ufunc below np.clip, without the long way there.
_CLIP = getattr(importlib.import_module("numpy._core.umath"), "clip", np.clip)
clip = elementwise(
    "clip",
    _CLIP,
    (
        lambda a, b, c: Mask(np.logical_and(np.greater_equal(a, b), np.less_equal(a, c))),
        lambda a, b, c: Mask(np.logical_and(np.less(a, b), np.less_equal(b, c))),
        lambda a, b, c: Mask(np.logical_or(np.greater(a, c), np.greater(b, c))),
    ),
    ufunc=(),
    code="np.clip({args})",
)
heaviside = binary("heaviside", None, lambda a: Mask(np.equal(a, 0)))
