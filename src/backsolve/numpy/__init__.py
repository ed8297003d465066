"""The array namespace: NumPy's names, differentiable.

`import backsolve.numpy as np` works like NumPy on arrays and like Backsolve on Tensors. Names that are
not functions of tensors (dtypes, constants, creation) are NumPy's own.
"""

from __future__ import annotations

from typing import Any

import numpy as _np

from ..primitive import FUNCTIONS as _FUNCTIONS
from . import elementwise as _elementwise
from . import indexing as _indexing
from . import products as _products
from . import protocol as _protocol
from . import reductions as _reductions
from . import shapes as _shapes

_INTERNAL = {"getitem", "setitem", "array_ufunc", "array_function", "backward", "forward"}


def __getattr__(name: str) -> Any:
    found = _FUNCTIONS.get(name)
    if found is not None and name not in _INTERNAL:
        return found
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_np, name)


def __dir__() -> list[str]:
    return sorted({n for n in _FUNCTIONS if "." not in n} - _INTERNAL | set(dir(_np)))
