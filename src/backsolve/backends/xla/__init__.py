"""The XLA backend: a Program, derivative included, as one function of JAX's, on whatever device JAX has.

Equations become `jax.lax` one by one (rows/), regions its control flow (regions.py). JAX differentiates nothing
here: derivatives are Programs already.
"""

from __future__ import annotations

from .library import jax

jax()  # before all else: it says what to install

from .compile import Compiled as Compiled  # noqa: E402
from .compile import compile_program as compile_program  # noqa: E402
