"""numpy.fft: `from backsolve.numpy import fft`. Tensors reach it also through `numpy.fft` itself."""

from __future__ import annotations

from typing import Any

import numpy as _np

from . import fourier as _fourier  # noqa: F401  (fills the table of functions)
from ._register import OWN as _OWN
from ._register import by_name as _by_name


def __getattr__(name: str) -> Any:
    full = f"fft.{name}"
    found = _by_name(_OWN, full) if full in _OWN else getattr(_np.fft, name)
    if callable(found):
        globals()[name] = found  # from now on it is at hand
    return found


def __dir__() -> list[str]:
    return dir(_np.fft)
