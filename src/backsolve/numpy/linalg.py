"""numpy.linalg, and SciPy's functions for triangular systems: `from backsolve.numpy import linalg`.

Tensors reach the former also through `numpy.linalg` itself. `scipy.linalg` asks no protocol, so its
`solve_triangular` and `cho_solve` refuse Tensors; those here take the same arguments.
"""

from __future__ import annotations

from typing import Any

import numpy as _np

from .systems import cho_solve as cho_solve
from .systems import solve_triangular as solve_triangular


def __getattr__(name: str) -> Any:
    return getattr(_np.linalg, name)


def __dir__() -> list[str]:
    return sorted({*dir(_np.linalg), "cho_solve", "solve_triangular"})
