"""Models that PyTorch users have, too: how ours are made, inputs, and numbers for their weights."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from references import DATA as FOLDER

from backsolve.nn import models

DATA = FOLDER / "models.npz"
MODELS: dict[str, Any] = {
    "lenet": lambda: models.LeNet(),
    "resnet18": lambda: models.resnet18(),
    "resnet18 for 32 × 32": lambda: models.resnet18(10, small_images=True),
    "lstm": lambda: models.LSTMLanguageModel(53, 24, 32, 2),
    "lstm, tied": lambda: models.LSTMLanguageModel(53, 24, 24, 1, tie_weights=True),
    "gpt2": lambda: models.GPT2(97, 32, 48, 3, 4),
}
_INPUTS: dict[str, Any] = {
    "lenet": (4, 1, 28, 28),
    "resnet18": (1, 3, 64, 64),
    "resnet18 for 32 × 32": (2, 3, 32, 32),
    "lstm": (7, 3),
    "lstm, tied": (7, 3),
    "gpt2": (2, 19),
}
_TOKENS = {"lstm": 53, "lstm, tied": 53, "gpt2": 97}


def inputs_of(name: str) -> Any:
    rng = np.random.default_rng(5)
    if name in _TOKENS:
        return rng.integers(0, _TOKENS[name], _INPUTS[name])
    return rng.normal(size=_INPUTS[name]).astype(np.float32)


def weights(name: str, shape: tuple[int, ...]) -> Any:
    """The same for both libraries, of a size that keeps numbers near 1 on their way."""
    if name.endswith("num_batches_tracked"):
        return np.array(7)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    drawn = rng.normal(size=shape).astype(np.float32)
    if name.endswith("running_var"):
        return np.abs(drawn) + np.float32(0.5)
    if len(shape) > 1:
        return drawn / np.float32(np.sqrt(np.prod(shape[1:])))
    is_scale = any(part in name for part in ("bn", "ln_", "downsample.1")) and "weight" in name
    return np.float32(is_scale) + np.float32(0.1) * drawn


def state_of(own: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    return {name: weights(name, shape) for name, shape in own.items()}
