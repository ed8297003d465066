"""Models of the command line: linear, mlp and cnn, with the scaling of their data inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import nn, optim
from ..optim.base import Rate
from ..training.scaling import Rescale, Standardise


def build(kind: str, x: Any, y: Any, outputs: int, hidden: tuple[int, ...], dropout: float) -> Any:
    """A model for inputs and targets like these; `outputs` is the number of classes, 0 for a number.

    Of images only the shape counts, of tables the scale, too.
    """
    end: list[Any] = [] if outputs else [Rescale(y)]
    width = outputs or 1
    if kind == "cnn":
        if x.ndim != 4:
            raise ValueError("a cnn takes images; this is a table: take --model mlp or linear")
        return nn.Sequential(*_convolutions(x.shape[1:], width, dropout), *end)
    start: list[Any] = [nn.Flatten()] if x.ndim == 4 else [Standardise(x)]
    features = int(np.prod(x.shape[1:]))
    if kind == "linear":
        return nn.Sequential(*start, nn.Linear(features, width), *end)
    layers: list[Any] = []
    for size in hidden:
        layers += [nn.Linear(features, size), nn.ReLU()]
        layers += [nn.Dropout(dropout)] if dropout else []
        features = size
    return nn.Sequential(*start, *layers, nn.Linear(features, width), *end)


def _convolutions(shape: tuple[int, ...], outputs: int, dropout: float) -> list[Any]:
    """Two convolutions, then one and a halving at a time until 2 or 3 pixels are left on a side."""
    channels, height, width = shape
    halved: Any = nn.MaxPool2d
    wide = 32
    layers: list[Any] = [nn.Conv2d(channels, wide, 3, padding=1), nn.ReLU()]
    layers += [nn.Conv2d(wide, wide, 3, padding=1), nn.ReLU()]
    while min(height, width) > 3:
        layers.append(halved(2))
        height, width = height // 2, width // 2
        if min(height, width) > 3:
            next_wide = min(2 * wide, 128)
            layers += [nn.Conv2d(wide, next_wide, 3, padding=1), nn.ReLU()]
            wide = next_wide
    layers += [nn.Flatten(), *([nn.Dropout(dropout)] if dropout else [])]
    return [*layers, nn.Linear(wide * height * width, outputs)]


def optimiser(name: str, lr: float, schedule: str, steps: int) -> optim.Optimizer:
    rates: dict[str, Rate] = {
        "constant": lr,
        "cosine": optim.schedules.cosine(lr, steps),
        "one-cycle": optim.schedules.one_cycle(lr, max(steps, 4)),
    }
    rate = rates[schedule]
    if name == "sgd":
        return optim.SGD(rate, momentum=0.9, nesterov=True)
    return {"adam": optim.Adam, "adamw": optim.AdamW, "lion": optim.Lion}[name](rate)


def warped(batch: Any, rng: np.random.Generator) -> Any:
    """Images turned by up to 0.2, stretched by up to a tenth and moved by up to one pixel, at random."""
    x, y = batch
    n, _, height, width = x.shape
    angle = rng.uniform(-0.2, 0.2, (n, 1, 1))
    stretch = np.exp(rng.uniform(-0.1, 0.1, (2, n, 1, 1)))
    move = rng.uniform(-1, 1, (2, n, 1, 1))
    down, right = np.arange(height)[:, None], np.arange(width)
    middle = (height - 1) / 2, (width - 1) / 2
    v, u = down - middle[0], right - middle[1]
    rows = middle[0] + move[0] + stretch[0] * (np.cos(angle) * v - np.sin(angle) * u)
    columns = middle[1] + move[1] + stretch[1] * (np.sin(angle) * v + np.cos(angle) * u)
    return _between(x, rows, columns), y


def _between(x: Any, rows: Any, columns: Any) -> Any:
    """Images (N, C, H, W) at places (N, H, W) between their pixels, 0 outside."""
    n, channels, height, width = x.shape
    rows, columns = np.clip(rows, -1, height), np.clip(columns, -1, width)
    top, left = np.floor(rows).astype(np.intp), np.floor(columns).astype(np.intp)
    below = (rows - top).astype(x.dtype)[:, None]
    beside = (columns - left).astype(x.dtype)[:, None]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 2), (1, 2)))
    which = np.arange(n)[:, None, None, None], np.arange(channels)[:, None, None]

    def at(i: int, j: int) -> Any:
        return padded[(*which, (top + 1 + i)[:, None], (left + 1 + j)[:, None])]

    upper = at(0, 0) + beside * (at(0, 1) - at(0, 0))
    lower = at(1, 0) + beside * (at(1, 1) - at(1, 0))
    return upper + below * (lower - upper)
