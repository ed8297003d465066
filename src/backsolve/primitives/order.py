"""Orders: where entries stand when sorted. Discrete; reading by them is what has a derivative."""

from __future__ import annotations

import numpy as np

from ..ir import Type
from ..primitive import primitive
from .batching import over_axes

argsort = primitive(
    "argsort",
    lambda a, *, axis: np.argsort(a, axis=axis, stable=True),
    type=lambda a, *, axis: Type(a.shape, np.dtype(np.intp)),
    batch=over_axes,
    code="np.argsort({0}, axis={axis}, stable=True)",
)
searchsorted = primitive(
    "searchsorted",
    lambda a, v, *, side: np.searchsorted(a, v, side),
    type=lambda a, v, *, side: Type(v.shape, np.dtype(np.intp)),
    code="np.searchsorted({0}, {1}, side='{side}')",
)
