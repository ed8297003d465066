"""The array namespace: NumPy's names, differentiable.

`import backsolve.numpy as np` is NumPy: arrays go in and out unchanged, and Tensors find their way
here by NumPy's own protocols. Added are the functions NumPy lacks (logsumexp, erf, sigmoid …) and
those that would lose a derivative before a protocol could help: array, asarray, full.
"""

from __future__ import annotations

from typing import Any

import numpy as _np

from ..primitive import FUNCTIONS as _FUNCTIONS
from . import calculus as _calculus
from . import creation as _creation
from . import elementwise as _elementwise
from . import indexing as _indexing
from . import joining as _joining
from . import linalg as linalg
from . import linear as _linear
from . import padding as _padding
from . import products as _products
from . import protocol as _protocol
from . import reductions as _reductions
from . import shapes as _shapes
from . import sorting as _sorting
from . import systems as _systems
from . import writing as _writing
from .creation import OWN as _OWN

# Importing these fills the table of functions.
_ROOMS = (
    _elementwise,
    _indexing,
    _shapes,
    _joining,
    _reductions,
    _products,
    _linear,
    _systems,
    _sorting,
    _calculus,
    _padding,
    _creation,
    _writing,
    _protocol,
)
_INTERNAL = {
    "getitem",
    "setitem",
    "array_ufunc",
    "array_function",
    "ufunc_at",
    "backward",
    "forward",
}


def __getattr__(name: str) -> Any:
    if name in _OWN:
        return _OWN[name]
    if hasattr(_np, name) or name.startswith("__") or name in _INTERNAL or name not in _FUNCTIONS:
        return getattr(_np, name)
    return _FUNCTIONS[name]


def __dir__() -> list[str]:
    return sorted({n for n in _FUNCTIONS if "." not in n} - _INTERNAL | set(dir(_np)))
