"""scipy.linalg on Tensors: `bs.scipy.linalg.sqrtm`. What is missing here is SciPy's own, for plain arrays."""

from __future__ import annotations

from typing import Any

from ...numpy import linalg as _linalg
from ...primitive import FUNCTIONS as _FUNCTIONS
from .plain import for_tensors as _for_tensors
from .plain import module as _module

_OURS: tuple[str, ...] = (
    "block_diag",
    "cho_factor",
    "cho_solve",
    "expm",
    "lu",
    "solve_banded",
    "solve_continuous_lyapunov",
)
_OURS += ("solve_sylvester", "solve_triangular", "sqrtm", "toeplitz")
# Where NumPy's function has SciPy's name, arguments and answer.
_NUMPYS = ("det", "inv", "norm", "pinv", "svdvals")

for _name in _OURS:
    globals()[_name] = _for_tensors("linalg")(getattr(_linalg, _name))
for _name in _NUMPYS:
    globals()[_name] = _for_tensors("linalg")(_FUNCTIONS[f"linalg.{_name}"])


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_module("linalg"), name)


def __dir__() -> list[str]:
    return sorted(dir(_module("linalg")))
