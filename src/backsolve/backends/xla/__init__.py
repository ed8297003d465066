"""The XLA backend: a Program, derivative included, as one function of JAX's, on whatever device JAX has.

Equations become `jax.lax` one by one (rows/), regions its control flow (regions.py). JAX differentiates nothing
here: derivatives are Programs already.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .library import jax

if TYPE_CHECKING:
    from .compile import Compiled as Compiled
    from .compile import compile_program as compile_program


def __getattr__(name: str) -> Any:
    if name not in ("Compiled", "compile_program"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    jax()  # before all else: it says what to install
    return getattr(importlib.import_module(".compile", __name__), name)
