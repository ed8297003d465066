"""numpy.linalg, and some of SciPy's: `from backsolve.numpy import linalg`.

Tensors reach the former also through `numpy.linalg` itself. `scipy.linalg` asks no protocol, so its
functions refuse Tensors; those here take the same arguments.
"""

from __future__ import annotations

from typing import Any

import numpy as _np

from ._register import OWN as _OWN
from .decompositions import expm as expm
from .decompositions import lu as lu
from .systems import cho_solve as cho_solve
from .systems import solve_triangular as solve_triangular

_SCIPYS = {"cho_solve", "expm", "lu", "solve_triangular"}


def __getattr__(name: str) -> Any:
    return _OWN.get(f"linalg.{name}") or getattr(_np.linalg, name)


def __dir__() -> list[str]:
    return sorted({*dir(_np.linalg), *_SCIPYS})
