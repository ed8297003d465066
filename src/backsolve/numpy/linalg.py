"""numpy.linalg, and some of SciPy's: `from backsolve.numpy import linalg`.

Tensors reach the former also through `numpy.linalg` itself. `scipy.linalg` asks no protocol, so its
functions refuse Tensors; those here take the same arguments.
"""

from __future__ import annotations

from typing import Any

import numpy as _np

from . import decompositions as _decompositions
from . import equations as _equations
from . import systems as _systems
from ._register import OWN as _OWN
from ._register import by_name as _by_name

_SCIPYS = {
    f"linalg.{f.__name__}": f
    for f in (
        *(_decompositions.expm, _decompositions.lu, _systems.cho_solve, _systems.solve_triangular),
        *(_equations.block_diag, _equations.cho_factor, _equations.solve_banded, _equations.sqrtm),
        *(_equations.solve_continuous_lyapunov, _equations.solve_sylvester, _equations.toeplitz),
    )
}


def __getattr__(name: str) -> Any:
    full = f"linalg.{name}"
    tables = [table for table in (_OWN, _SCIPYS) if full in table]
    found = _by_name(tables[0], full) if tables else getattr(_np.linalg, name)
    if callable(found):
        globals()[name] = found  # from now on it is at hand
    return found


def __dir__() -> list[str]:
    return sorted({*dir(_np.linalg), *[name.rpartition(".")[2] for name in _SCIPYS]})
