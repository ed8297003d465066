"""Random arguments for samples: numbers in an interval, off zero, and matrices that can be solved with."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .references import Shape

ANY, POSITIVE = "any", (0.3, 2.0)
MATRICES = ("definite", "regular", "apart", "bands")


@dataclass(frozen=True)
class Matrices:
    """Matrices: "definite" (and Hermitian), "regular", with values that lie "apart", or the "bands" of one."""

    shape: Shape
    kind: str = "regular"


def spread(dtype: str, kinds: Sequence[Any]) -> list[str]:
    """One dtype per argument: those of a mixture in turn."""
    turn = itertools.cycle(dtype.split("+"))
    return [next(turn) if _is_free(k) else "" for k in kinds]


def _is_free(kind: Any) -> bool:
    if isinstance(kind, np.ndarray):
        return False
    return isinstance(kind, tuple) or kind in (ANY, *MATRICES)


def draw(rng: np.random.Generator, kind: Any, shape: Shape, dtype: str) -> Any:
    """Random values of a kind: ANY keeps off 0, (low, high) is an interval, an array is itself."""
    if isinstance(kind, np.ndarray):
        return kind
    if kind in MATRICES:
        return _draw_matrices(rng, kind, shape, dtype)
    if kind == "bool" or dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)[()]
    if kind in ("integer", "small"):
        return rng.integers(0, 4, shape)
    if "int" in dtype:
        return np.asarray(rng.integers(1, 5, shape)).astype(dtype)[()]
    low, high = POSITIVE if kind == ANY else kind
    x = rng.uniform(low, high, shape)
    if kind == ANY:
        x = x * rng.choice([-1.0, 1.0], shape)
    if "complex" in dtype:  # off the real axis, where branch cuts lie
        x = x + 1j * rng.uniform(0.2, 0.8, shape) * rng.choice([-1.0, 1.0], shape)
    if "python" in dtype:
        return np.asarray(x).item()
    return np.asarray(x).astype(dtype)[()]


def _draw_matrices(rng: np.random.Generator, kind: str, shape: Shape, dtype: str) -> Any:
    x = draw(rng, (-1.0, 1.0), shape, dtype)
    if kind == "bands":
        return (x + 3 * (np.arange(shape[-2]) == shape[-2] // 2)[:, None]).astype(dtype)
    steps = np.arange(1.0, shape[-1] + 1) if kind == "apart" else 1.0
    x = np.asarray(x + 2 * steps * np.eye(shape[-2], shape[-1]))
    if kind == "definite":
        x = x @ np.conjugate(np.swapaxes(x, -1, -2))
    return x.astype(dtype)
