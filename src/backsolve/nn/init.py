"""First values of parameters, under PyTorch's names: functions of a key and a shape.

Where no key is given, layers take the next one of a stream of this process, which begins at `manual_seed(0)`.

>>> import backsolve as bs
>>> xavier_uniform((2, 3), key=bs.random.key(0)).shape
(2, 3)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import random
from ..errors import ShapeError

Shape = tuple[int, ...]

_stream = {"key": random.key(0)}


def manual_seed(seed: int) -> None:
    """Begin the stream of keys anew, for all layers made after this without a key."""
    _stream["key"] = random.key(seed)


def next_key(key: Any = None) -> Any:
    """The key that was given, or the next one of the stream."""
    if key is not None:
        return key
    _stream["key"], key = random.split(_stream["key"])
    return key


def uniform(
    shape: Shape, a: float = 0.0, b: float = 1.0, *, key: Any, dtype: Any = np.float32
) -> Any:
    """Uniform between a and b."""
    return np.asarray(random.uniform(key, shape, a, b), dtype)


def normal(
    shape: Shape, mean: float = 0.0, std: float = 1.0, *, key: Any, dtype: Any = np.float32
) -> Any:
    """Normal, with mean and standard deviation."""
    return np.asarray(random.normal(key, shape, mean, std), dtype)


def trunc_normal(
    shape: Shape,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    *,
    key: Any,
    dtype: Any = np.float32,
) -> Any:
    """Normal, cut off below a and above b."""
    low, high = (a - mean) / std, (b - mean) / std
    return np.asarray(mean + std * random.truncated_normal(key, low, high, shape), dtype)


def constant(shape: Shape, val: float, *, key: Any = None, dtype: Any = np.float32) -> Any:
    """`val` everywhere."""
    return np.full(shape, val, dtype)


def zeros(shape: Shape, *, key: Any = None, dtype: Any = np.float32) -> Any:
    """0 everywhere."""
    return np.zeros(shape, dtype)


def ones(shape: Shape, *, key: Any = None, dtype: Any = np.float32) -> Any:
    """1 everywhere."""
    return np.ones(shape, dtype)


def eye(shape: Shape, *, key: Any = None, dtype: Any = np.float32) -> Any:
    """1 on the diagonal of a matrix, 0 elsewhere."""
    return np.eye(*shape, dtype=dtype)


def dirac(shape: Shape, groups: int = 1, *, key: Any = None, dtype: Any = np.float32) -> Any:
    """Weights of a convolution that passes its channels on as they are."""
    if len(shape) not in (3, 4, 5) or shape[0] % groups:
        raise ShapeError(f"dirac takes weights of a convolution, (O, C, …), got {shape}")
    w = np.zeros(shape, dtype)
    out = shape[0] // groups
    middle = tuple(s // 2 for s in shape[2:])
    for g in range(groups):
        for k in range(min(out, shape[1])):
            w[(g * out + k, k, *middle)] = 1
    return w


def xavier_uniform(shape: Shape, gain: float = 1.0, *, key: Any, dtype: Any = np.float32) -> Any:
    """Uniform between ±gain √(6 / (fan_in + fan_out)), after Glorot and Bengio."""
    bound = gain * math.sqrt(6 / sum(fans(shape)))
    return uniform(shape, -bound, bound, key=key, dtype=dtype)


def xavier_normal(shape: Shape, gain: float = 1.0, *, key: Any, dtype: Any = np.float32) -> Any:
    """Normal with deviation gain √(2 / (fan_in + fan_out)), after Glorot and Bengio."""
    return normal(shape, 0.0, gain * math.sqrt(2 / sum(fans(shape))), key=key, dtype=dtype)


def kaiming_uniform(
    shape: Shape,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    *,
    key: Any,
    dtype: Any = np.float32,
) -> Any:
    """Uniform between ±gain √(3 / fan), after He et al.; `a` is the slope of a leaky ReLU."""
    bound = math.sqrt(3) * _kaiming(shape, a, mode, nonlinearity)
    return uniform(shape, -bound, bound, key=key, dtype=dtype)


def kaiming_normal(
    shape: Shape,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    *,
    key: Any,
    dtype: Any = np.float32,
) -> Any:
    """Normal with deviation gain / √fan, after He et al.; `a` is the slope of a leaky ReLU."""
    return normal(shape, 0.0, _kaiming(shape, a, mode, nonlinearity), key=key, dtype=dtype)


def orthogonal(shape: Shape, gain: float = 1.0, *, key: Any, dtype: Any = np.float32) -> Any:
    """Rows (or columns, if there are fewer) that are orthonormal, as drawn by Haar's measure."""
    rows, columns = shape[0], math.prod(shape[1:])
    tall = np.asarray(random.normal(key, (max(rows, columns), min(rows, columns))))
    q, r = np.linalg.qr(tall)
    q = q * np.sign(np.diagonal(r))
    return np.asarray(gain * (q.T if rows < columns else q).reshape(shape), dtype)


def sparse(
    shape: Shape, sparsity: float, std: float = 0.01, *, key: Any, dtype: Any = np.float32
) -> Any:
    """Normal, with a share of each column at 0."""
    numbers, order = random.split(key)
    w = normal(shape, 0.0, std, key=numbers, dtype=dtype)
    ranks = np.argsort(np.argsort(np.asarray(random.uniform(order, shape)), axis=0), axis=0)
    return np.where(ranks < math.ceil(sparsity * shape[0]), dtype(0), w)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much weights grow so that what passes a non-linearity keeps its spread."""
    plain = ("linear", "sigmoid", *[f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)])
    if nonlinearity in plain:
        return 1.0
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    gains = {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}
    if nonlinearity not in gains:
        raise ValueError(f"no gain is known for {nonlinearity!r}")
    return gains[nonlinearity]


def fans(shape: Shape) -> tuple[int, int]:
    """How many numbers go into an output, and how many an input goes into."""
    if len(shape) < 2:
        raise ShapeError(f"fans are those of weights with two axes or more, got shape {shape}")
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def _kaiming(shape: Shape, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f'mode must be "fan_in" or "fan_out", got {mode!r}')
    fan = fans(shape)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)
