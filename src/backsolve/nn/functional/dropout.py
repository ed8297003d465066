"""Dropout: entries or whole channels that are left out at random while training.

Which are left out is drawn from `generator`, a state of backsolve.random: the same state leaves out the same,
so a training loop hands a new one (`bs.random.split`, `bs.random.fold_in`) to each step. Inside `bs.jit` it is
an argument like others. `inplace` has no effect: arrays are not changed.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...numpy._register import array, ndim_of, shape_of
from ...random import State, bits
from ._arguments import Shape, needed

_ALPHA = 1.7580993408473766  # −(the limit of selu at −∞)


def dropout(
    input: Any,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: State | None = None,
) -> Any:
    """Each entry is 0 with probability p, else x / (1 − p); x itself if not training.

    >>> import numpy as np, backsolve as bs
    >>> dropout(np.ones(8), 0.5, generator=bs.random.key(0)).max()
    np.float64(2.0)
    """
    x = array(input)
    return _dropped("dropout", x, p, training, generator, shape_of(x))


def dropout1d(
    input: Any,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: State | None = None,
) -> Any:
    """Each channel of (N, C, L) or (C, L) is 0 with probability p; see dropout."""
    return _channels("dropout1d", input, p, training, generator, {3: 2, 2: 1})


def dropout2d(
    input: Any,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: State | None = None,
) -> Any:
    """Each channel of (N, C, H, W) is 0 with probability p; rank 3 is (N, C, L), as in PyTorch."""
    return _channels("dropout2d", input, p, training, generator, {4: 2, 3: 2})


def dropout3d(
    input: Any,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: State | None = None,
) -> Any:
    """Each channel of (N, C, D, H, W) or (C, D, H, W) is 0 with probability p; see dropout."""
    return _channels("dropout3d", input, p, training, generator, {5: 2, 4: 1})


def alpha_dropout(
    input: Any,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: State | None = None,
) -> Any:
    """Entries left out get the limit of selu; then all is scaled so that mean 0 and variance 1 stay."""
    x = array(input)
    return _alpha("alpha_dropout", x, p, training, generator, shape_of(x))


def feature_alpha_dropout(
    input: Any,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: State | None = None,
) -> Any:
    """alpha_dropout of whole channels of (N, C, …)."""
    x = array(input)
    if ndim_of(x) < 2:
        raise ShapeError(f"feature_alpha_dropout takes (N, C, …), got shape {shape_of(x)}")
    shape = (*shape_of(x)[:2], *[1] * (ndim_of(x) - 2))
    return _alpha("feature_alpha_dropout", x, p, training, generator, shape)


def _channels(
    name: str, x: Any, p: float, training: bool, generator: State | None, ranks: dict[int, int]
) -> Any:
    """One draw for each entry of the leading axes, as many as the rank says."""
    x = array(x)
    rank = ndim_of(x)
    if rank not in ranks:
        raise ShapeError(f"{name} takes arrays of rank {sorted(ranks)}, got shape {shape_of(x)}")
    shape = (*shape_of(x)[: ranks[rank]], *[1] * (rank - ranks[rank]))
    return _dropped(name, x, p, training, generator, shape)


def _dropped(
    name: str, x: Any, p: float, training: bool, generator: State | None, shape: Shape
) -> Any:
    _check(name, p)
    if not training or p == 0:
        return x
    if p == 1:
        return np.where(np.zeros(shape, bool), x, 0)
    kept = _kept(needed(name, generator), p, shape)
    return np.where(kept, x * (1 / (1 - p)), 0)


def _alpha(
    name: str, x: Any, p: float, training: bool, generator: State | None, shape: Shape
) -> Any:
    _check(name, p)
    if not training or p == 0:
        return x
    if p == 1:
        return np.where(np.zeros(shape, bool), x, 0)
    scale = 1 / sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
    kept = _kept(needed(name, generator), p, shape)
    return np.where(kept, scale * x, -_ALPHA * scale) + _ALPHA * scale * p


def _kept(state: State, p: float, shape: Shape) -> Any:
    """True with probability 1 − p, up to 2⁻³²: each random word decides about two entries."""
    size = prod(shape)
    words = bits(state, -(-size // 2))
    halves = np.concatenate([words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)])
    return np.reshape(halves[:size] >= np.uint64(round(p * 2**32)), shape)


def _check(name: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: p must be between 0 and 1, got {p}")
