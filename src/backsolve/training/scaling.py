"""Layers that hold the scale of the data trained on, so that a model takes and gives their units."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..nn.module import Module


class Standardise(Module):
    """(x − mean) / spread of the data trained on.

    >>> import numpy as np
    >>> layer = Standardise(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> layer(np.array([[3.0, 6.0]]))
    array([[1., 1.]])
    """

    buffers: ClassVar[tuple[str, ...]] = ("mean", "spread")

    def __init__(self, x: Any):
        self.mean, self.spread = _scale(x)

    def __call__(self, x: Any) -> Any:
        return (x - self.mean) / self.spread


class Rescale(Module):
    """x · spread + mean of the targets trained on; of targets (N,) one number, of (N, k) k numbers."""

    buffers: ClassVar[tuple[str, ...]] = ("mean", "spread")

    def __init__(self, y: Any):
        self.mean, self.spread = _scale(y)

    def __call__(self, x: Any) -> Any:
        return (x[:, 0] if self.mean.shape == () else x) * self.spread + self.mean


def _scale(a: Any) -> tuple[Any, Any]:
    a = np.asarray(a)
    kind = a.dtype if a.dtype.kind == "f" else np.dtype(np.float32)
    mean, spread = a.mean(0, dtype=np.float64), a.std(0, dtype=np.float64)
    return np.asarray(mean, kind), np.asarray(np.where(spread > 0, spread, 1.0), kind)
