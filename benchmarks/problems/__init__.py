"""The twelve problems of the public GradBench suite, written from their mathematics.

Each file holds one: its function as plain NumPy or plain Python, its derivative by Backsolve. base.py says
what a file must offer.
"""

from __future__ import annotations

import importlib
from typing import Any

NAMES = (
    "hello",
    "gmm",
    "ba",
    "lstm",
    "ht",
    "kmeans",
    "lse",
    "particle",
    "saddle",
    "ode",
    "llsq",
    "det",
)


def load(name: str) -> Any:
    """The module of a problem, imported when it is asked for."""
    if name not in NAMES:
        raise KeyError(f"there is no problem {name!r}; there are {', '.join(NAMES)}")
    return importlib.import_module(f"{__name__}.{name}")
