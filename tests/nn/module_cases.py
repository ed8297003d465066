"""Modules that PyTorch has, too: how to make them, what to give them, and numbers for their parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from references import sketch

_RECURRENT: list[dict[str, Any]] = [
    {},
    {"num_layers": 2, "bidirectional": True},
    {"bias": False},
    {"batch_first": True, "num_layers": 2},
]
# name, arguments, settings, shape of the input
MODULES: list[tuple[str, tuple[int, ...], dict[str, Any], tuple[int, ...]]] = [
    *[(name, (3, 5), s, (6, 4, 3)) for name in ("RNN", "LSTM", "GRU") for s in _RECURRENT],
    ("RNN", (3, 5), {"nonlinearity": "relu"}, (6, 4, 3)),
    ("LSTM", (3, 5), {}, (6, 3)),  # without batch
    *[(f"{name}Cell", (3, 5), {}, (4, 3)) for name in ("RNN", "LSTM", "GRU")],
]


def label_of(name: str, arguments: Any, settings: Any, shape: Any) -> str:
    options = "".join(f", {k}={v}" for k, v in settings.items())
    return f"{name}({', '.join(map(str, arguments))}{options}) of {shape}"


def numbers(name: str, shape: Any) -> Any:
    """The same for both libraries."""
    seed = sum(map(ord, name))
    return np.random.default_rng(seed).normal(size=shape) * 0.5


def arrays_of(result: Any) -> list[Any]:
    """All arrays of nested tuples."""
    if isinstance(result, tuple | list):
        return [a for part in result for a in arrays_of(part)]
    return [result]


def kept(results: list[Any], gradients: dict[str, Any]) -> dict[str, Any]:
    found = {f"value{k}": sketch(a) for k, a in enumerate(results)}
    return found | {f"gradient of {name}": sketch(g) for name, g in gradients.items()}
