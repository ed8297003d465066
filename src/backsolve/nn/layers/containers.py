"""Modules of modules, and those that move or drop entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from ... import random
from ...errors import StructureError
from ...numpy._register import array, shape_of
from ...primitive import P
from .. import functional as F  # noqa: N812 - as everyone writes it
from ..init import next_key
from ..module import Module


class Sequential(Module):
    """One after the other; a function may stand among them.

    >>> import numpy as np
    >>> Sequential(np.sin, Flatten())(np.zeros((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, *layers: Callable[[Any], Any]):
        for k, layer in enumerate(layers):
            if isinstance(layer, type) or not callable(layer):
                raise StructureError(
                    f"Sequential takes modules and functions one by one, Linear(2, 3), ReLU(); layer {k} is "
                    f"{layer!r:.60}"
                )
            self.__dict__[str(k)] = layer

    def __call__(self, x: Any) -> Any:
        for layer in self:
            x = layer(x)
        return x

    def __iter__(self) -> Iterator[Any]:
        return (v for k, v in vars(self).items() if k.isdigit())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, k: int) -> Any:
        return list(self)[k]


class Identity(Module):
    """x itself: stands where a layer is left out."""

    def __call__(self, x: Any) -> Any:
        return x


class Flatten(Module):
    """Axes start_dim to end_dim as one."""

    start_dim: int = 1
    end_dim: int = -1

    def __call__(self, x: Any) -> Any:
        x = array(x)
        shape = shape_of(x)
        first, last = self.start_dim % len(shape), self.end_dim % len(shape)
        joined = 1
        for s in shape[first : last + 1]:
            joined *= s
        return P.reshape(x, shape=(*shape[:first], joined, *shape[last + 1 :]))


class Unflatten(Module):
    """One axis as several."""

    dim: int
    unflattened_size: tuple[int, ...]

    def __call__(self, x: Any) -> Any:
        x = array(x)
        shape = shape_of(x)
        k = self.dim % len(shape)
        sizes = list(self.unflattened_size)
        if -1 in sizes:
            known = 1
            for s in sizes:
                known *= s if s != -1 else 1
            sizes[sizes.index(-1)] = shape[k] // max(known, 1)
        return P.reshape(x, shape=(*shape[:k], *sizes, *shape[k + 1 :]))


class Dropout(Module):
    """dropout while training; its random state moves with every call."""

    buffers: ClassVar[tuple[str, ...]] = ("key",)
    function: ClassVar[Callable[..., Any]] = F.dropout

    def __init__(self, p: float = 0.5, *, key: Any = None):
        self.p, self.key = p, next_key(key)

    def __call__(self, x: Any) -> Any:
        if not self.training or not self.p:
            return x
        self.key, own = random.split(self.key)
        return type(self).function(x, self.p, generator=own)


class Dropout1d(Dropout):
    """Whole channels of (N, C, L) are 0 with probability p while training, the others scaled by 1 / (1 − p)."""

    function = F.dropout1d


class Dropout2d(Dropout):
    """Whole channels of (N, C, H, W) are 0 with probability p while training; see Dropout1d."""

    function = F.dropout2d


class Dropout3d(Dropout):
    """Whole channels of (N, C, D, H, W) are 0 with probability p while training; see Dropout1d."""

    function = F.dropout3d


class AlphaDropout(Dropout):
    """Dropout beside SELU: entries left out get SELU's limit, then all is scaled to mean 0 and variance 1."""

    def __call__(self, x: Any) -> Any:
        if not self.training or not self.p:
            return x
        self.key, own = random.split(self.key)
        return F.alpha_dropout(x, self.p, True, generator=own)
