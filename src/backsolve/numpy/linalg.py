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
from .equations import block_diag as block_diag
from .equations import cho_factor as cho_factor
from .equations import solve_banded as solve_banded
from .equations import solve_continuous_lyapunov as solve_continuous_lyapunov
from .equations import solve_sylvester as solve_sylvester
from .equations import sqrtm as sqrtm
from .equations import toeplitz as toeplitz
from .systems import cho_solve as cho_solve
from .systems import solve_triangular as solve_triangular

_SCIPYS = {
    "block_diag",
    "cho_factor",
    "cho_solve",
    "expm",
    "lu",
    "solve_banded",
    "solve_continuous_lyapunov",
}
_SCIPYS |= {"solve_sylvester", "solve_triangular", "sqrtm", "toeplitz"}


def __getattr__(name: str) -> Any:
    return _OWN.get(f"linalg.{name}") or getattr(_np.linalg, name)


def __dir__() -> list[str]:
    return sorted({*dir(_np.linalg), *_SCIPYS})
