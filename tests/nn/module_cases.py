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
_BLOCK = {"dim_feedforward": 12, "dropout": 0.0}
# name, arguments, settings, shape of the input, of each of them where there are several
MODULES: list[tuple[str, tuple[int, ...], dict[str, Any], Any]] = [
    *[(name, (3, 5), s, (6, 4, 3)) for name in ("RNN", "LSTM", "GRU") for s in _RECURRENT],
    ("RNN", (3, 5), {"nonlinearity": "relu"}, (6, 4, 3)),
    ("LSTM", (3, 5), {}, (6, 3)),  # without batch
    ("MultiheadAttention", (8, 2), {}, [(5, 3, 8), (6, 3, 8), (6, 3, 8)]),
    ("MultiheadAttention", (8, 4), {"batch_first": True, "bias": False}, [(3, 5, 8)] * 3),
    ("MultiheadAttention", (8, 2), {}, [(5, 8)] * 3),
    ("MultiheadAttention", (8, 2), {"kdim": 3, "vdim": 5}, [(5, 3, 8), (6, 3, 3), (6, 3, 5)]),
    (
        "MultiheadAttention",
        (8, 4),
        {"kdim": 3, "add_bias_kv": True, "add_zero_attn": True, "bias": False},
        [(5, 2, 8), (6, 2, 3), (6, 2, 8)],
    ),
    ("MultiheadAttention", (8, 2), {"add_bias_kv": True, "batch_first": True}, [(3, 5, 8)] * 3),
    ("TransformerEncoderLayer", (8, 2), _BLOCK, (5, 3, 8)),
    (
        "TransformerEncoderLayer",
        (8, 2),
        {**_BLOCK, "norm_first": True, "activation": "gelu"},
        (5, 3, 8),
    ),
    ("TransformerDecoderLayer", (8, 2), {**_BLOCK, "batch_first": True}, [(3, 5, 8), (3, 4, 8)]),
    ("Transformer", (8, 2, 2, 1, 12), {"dropout": 0.0}, [(5, 3, 8), (4, 3, 8)]),
    ("LSTM", (3, 5), {"proj_size": 2}, (6, 4, 3)),
    ("LSTM", (3, 5), {"proj_size": 4, "num_layers": 2, "bidirectional": True}, (6, 4, 3)),
    ("Linear", (3, 4), {"with": ("weight_norm", {})}, (5, 3)),
    ("Conv2d", (3, 4, 3), {"with": ("weight_norm", {"dim": 1})}, (2, 3, 5, 5)),
    ("Linear", (3, 4), {"with": ("weight_norm", {"dim": None})}, (5, 3)),
    ("LSTM", (3, 5), {"with": ("weight_norm", {"name": "weight_hh_l0"})}, (6, 4, 3)),
    ("Linear", (3, 4), {"with": ("spectral_norm", {})}, (5, 3)),
    ("Conv1d", (3, 4, 3), {"with": ("spectral_norm", {"n_power_iterations": 3})}, (2, 3, 6)),
    ("ConvTranspose2d", (3, 4, 3), {"with": ("spectral_norm", {})}, (2, 3, 4, 4)),
    ("Linear", (3, 4), {"with": ("spectral_norm", {"name": "bias"})}, (5, 3)),
    ("Bilinear", (3, 4, 5), {}, [(6, 3), (6, 4)]),
    ("PReLU", (3,), {}, (2, 3, 4)),
    *[(f"{name}Cell", (3, 5), {}, (4, 3)) for name in ("RNN", "LSTM", "GRU")],
]


def label_of(name: str, arguments: Any, settings: Any, shape: Any) -> str:
    options = "".join(f", {k}={v}" for k, v in settings.items())
    return f"{name}({', '.join(map(str, arguments))}{options}) of {shape}"


def numbers(name: str, shape: Any) -> Any:
    """The same for both libraries."""
    seed = sum(map(ord, name))
    return np.random.default_rng(seed).normal(size=shape) * 0.5


def made(layers: Any, wrappers: Any, name: str, arguments: Any, settings: Any, dtype: Any) -> Any:
    """A module of either library, with what is done to it (`with`)."""
    settings = dict(settings)
    wrapper, options = settings.pop("with", (None, {}))
    module = getattr(layers, name)(*arguments, **settings, dtype=dtype)
    return module if wrapper is None else getattr(wrappers, wrapper)(module, **options)


def direction(name: str, shape: Any) -> Any:
    """A vector of length 1: where a power method begins."""
    v = numbers(name, shape)
    return v / np.sqrt(np.sum(v * v))


def inputs_of(shape: Any) -> list[Any]:
    shapes = shape if isinstance(shape, list) else [shape]
    return [numbers(f"input {k}", s) for k, s in enumerate(shapes)]


def arrays_of(result: Any) -> list[Any]:
    """All arrays of nested tuples."""
    if result is None:
        return []
    if isinstance(result, tuple | list):
        return [a for part in result for a in arrays_of(part)]
    return [result]


def kept(results: list[Any], gradients: dict[str, Any]) -> dict[str, Any]:
    found = {f"value{k}": sketch(a) for k, a in enumerate(results)}
    return found | {f"gradient of {name}": sketch(g) for name, g in gradients.items()}
