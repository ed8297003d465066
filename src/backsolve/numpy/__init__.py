"""The array namespace: NumPy's names, differentiable.

It implements the array API standard; what that leaves open is NumPy's. What it makes (zeros, asarray …) are
Tensors. Its other functions are NumPy's own, by whose protocols Tensors find their way here, and ndarrays stay
ndarrays; added are those that NumPy lacks (logsumexp, erf, sigmoid …).
"""

from __future__ import annotations

from typing import Any

import numpy as _np

from ..primitive import FUNCTIONS as _FUNCTIONS
from . import calculus as _calculus
from . import choosing as _choosing
from . import composed as _composed
from . import creation as _creation
from . import decompositions as _decompositions
from . import deviations as _deviations
from . import elementwise as _elementwise
from . import fft as fft
from . import fourier as _fourier
from . import histograms as _histograms
from . import indexing as _indexing
from . import joining as _joining
from . import linalg as linalg
from . import linear as _linear
from . import lists as _lists
from . import making as _making
from . import nans as _nans
from . import padding as _padding
from . import polynomials as _polynomials
from . import products as _products
from . import protocol as _protocol
from . import quantiles as _quantiles
from . import reductions as _reductions
from . import sequences as _sequences
from . import sets as _sets
from . import shapes as _shapes
from . import sorting as _sorting
from . import sparse as _sparse
from . import special as special
from . import standard as _standard
from . import systems as _systems
from . import writing as _writing
from ._register import OWN as _OWN
from ._register import by_name as _by_name

# Importing these fills the table of functions.
_ROOMS = (
    _elementwise,
    _indexing,
    _shapes,
    _joining,
    _reductions,
    _products,
    _sparse,
    _linear,
    _systems,
    _decompositions,
    _fourier,
    _sorting,
    _calculus,
    _composed,
    _deviations,
    _padding,
    _creation,
    _making,
    _lists,
    _writing,
    _protocol,
    _standard,
    _choosing,
    _histograms,
    _nans,
    _polynomials,
    _quantiles,
    _sequences,
    _sets,
)
_INTERNAL = {
    "add_stacks",
    "alias",
    "checkpoint_staged",
    "detach",
    "over_gaps",
    "getitem",
    "setitem",
    "spread_stack",
    "array_ufunc",
    "array_function",
    "ufunc_at",
    "backward",
    "forward",
    "functions_staged",
    "array_namespace",
    "on_cpu",
    "to_dlpack",
}
__array_api_version__ = _standard.VERSION
__array_namespace_info__ = _standard.Inspection


def __getattr__(name: str) -> Any:
    table = _OWN if name in _OWN else _FUNCTIONS
    if table is _FUNCTIONS:
        plain = hasattr(_np, name) or name.startswith("__") or name in _INTERNAL
        if plain or name not in _FUNCTIONS:
            found = getattr(_np, name)
            if callable(found):
                globals()[name] = found
            return found
    globals()[name] = found = _by_name(table, name)  # from now on it is at hand
    return found


def __dir__() -> list[str]:
    return sorted({n for n in _FUNCTIONS if "." not in n} - _INTERNAL | set(dir(_np)))
