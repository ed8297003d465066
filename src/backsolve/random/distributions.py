"""Distributions: pure functions of a state, composed of uniform numbers.

Continuous ones are monotone functions of uniform numbers (the inverse of their distribution function), so the
derivative with respect to their parameters is that of the reparameterisation, exact and to any order. Draws
of integers and booleans are piecewise constant: their derivative is 0 by definition.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..primitive import P
from .philox import State, bits, products, split

_TWELVE, _ELEVEN = np.uint64(12), np.uint64(11)
_HALVINGS = 32  # of 2³² numbers


def _shape(shape: Any, *parameters: Any) -> tuple[int, ...]:
    """What is asked for; without that, the shape of the parameters."""
    own = np.broadcast_shapes(*[np.shape(p) for p in parameters])
    if shape is None:
        return own
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    rest = shape[len(shape) - len(own) :]
    if len(own) > len(shape) or any(m not in (1, n) for m, n in zip(own, rest, strict=True)):
        raise ShapeError(f"parameters of shape {own} do not fit draws of shape {shape}")
    return shape


def _open(state: State, shape: Any) -> Any:
    """Uniform in (0, 1), the ends left out: (k + ½) / 2⁵²."""
    return ((bits(state, shape) >> _TWELVE).astype(float) + 0.5) * 2.0**-52


def uniform(state: State, shape: Any = None, low: Any = 0.0, high: Any = 1.0) -> Any:
    """Uniform in [low, high); in [0, 1) the doubles of `numpy.random.Generator(Philox).random`."""
    u = (bits(state, _shape(shape, low, high)) >> _ELEVEN).astype(float) * 2.0**-53
    return low + (high - low) * u


def normal(state: State, shape: Any = None, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Normal, by the inverse of its distribution function."""
    return loc + scale * P.ndtri(_open(state, _shape(shape, loc, scale)))


def exponential(state: State, shape: Any = None, scale: Any = 1.0) -> Any:
    return -scale * np.log(_open(state, _shape(shape, scale)))


def laplace(state: State, shape: Any = None, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    u = _open(state, _shape(shape, loc, scale))
    return loc + scale * np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))


def gumbel(state: State, shape: Any = None, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    return loc - scale * np.log(-np.log(_open(state, _shape(shape, loc, scale))))


def gamma(state: State, a: Any, shape: Any = None, scale: Any = 1.0) -> Any:
    """Gamma with shape parameter `a`; its derivative in `a` is that of the quantile."""
    u = _open(state, _shape(shape, a, scale))
    return scale * P.gammaincinv(a * np.ones_like(u), u)


def beta(state: State, a: Any, b: Any, shape: Any = None) -> Any:
    """Beta, as a quotient of two gamma variables."""
    full = _shape(shape, a, b)
    first, second = split(state)
    x, y = gamma(first, a, full), gamma(second, b, full)
    return x / (x + y)


def dirichlet(state: State, alpha: Any, shape: Any = ()) -> Any:
    """Dirichlet along the last axis; `shape` comes in front of it."""
    x = gamma(state, alpha, (*_shape(shape, 0.0), *np.shape(alpha)))
    return x / np.sum(x, axis=-1, keepdims=True)


def truncated_normal(state: State, lower: Any, upper: Any, shape: Any = None) -> Any:
    """Standard normal between two bounds, drawn in the tail in which Φ is accurate."""
    u = _open(state, _shape(shape, lower, upper))
    mirrored = np.greater(lower + 0.0 * u, 0)
    low, high = np.where(mirrored, -upper, lower), np.where(mirrored, -lower, upper)
    below, above = P.ndtr(low), P.ndtr(high)
    x = P.ndtri(below + (above - below) * u)
    return np.where(mirrored, -x, x)


def multivariate_normal(state: State, mean: Any, cov: Any, shape: Any = ()) -> Any:
    """Normal with a covariance matrix, mean + L z; `shape` comes in front of the mean's."""
    z = normal(state, (*_shape(shape, 0.0), *np.shape(mean)))
    return mean + np.matmul(np.linalg.cholesky(cov), z[..., None])[..., 0]


# ---- integers and booleans


def integers(state: State, low: int, high: int, shape: Any = ()) -> Any:
    """int64 in [low, high), each as likely up to 2⁻⁶⁴ (high − low)."""
    if not low < high:
        raise ValueError(f"`integers` needs low < high, got {low} and {high}")
    shape = _shape(shape, 0)
    numbers = bits(
        state, math.prod(shape)
    )  # a flat array: NumPy warns where numbers wrap, not arrays
    scaled, _ = products(numbers, np.uint64(high - low))
    return np.reshape(scaled.astype(np.int64) + low, shape)


def bernoulli(state: State, p: Any = 0.5, shape: Any = None) -> Any:
    """True with probability p."""
    return np.less(uniform(state, _shape(shape, p)), p)


def categorical(state: State, logits: Any, shape: Any = ()) -> Any:
    """Indices along the last axis, with probabilities softmax(logits)."""
    noise = gumbel(state, (*_shape(shape, 0.0), *np.shape(logits)))
    return np.argmax(logits + noise, axis=-1)


def _smallest(enough: Any, high: Any) -> Any:
    """The smallest k in [0, high] for which `enough(k)`, by halving; `enough(high)` is taken for granted."""
    low = high * 0.0 - 1.0
    for _ in range(_HALVINGS):
        middle = np.floor((low + high) / 2)
        found = np.logical_and(middle >= 0, enough(np.maximum(middle, 0.0)))
        low, high = np.where(found, low, middle), np.where(found, middle, high)
    return high.astype(np.int64)


def poisson(state: State, lam: Any = 1.0, shape: Any = None) -> Any:
    """int64 with mean lam (below 2³¹), by inversion."""
    u = _open(state, _shape(shape, lam))
    mean = P.detach(lam + 0.0 * u)
    top = np.ceil(mean + 12 * np.sqrt(mean) + 60)
    return _smallest(lambda k: P.gammaincc(k + 1.0, mean) >= u, top)


def binomial(state: State, n: Any, p: Any, shape: Any = None) -> Any:
    """int64: successes among n trials (below 2³¹) of probability p, by inversion."""
    u = _open(state, _shape(shape, n, p))
    trials, failure = P.detach(n + 0.0 * u), P.detach(1 - p + 0.0 * u)
    return _smallest(lambda k: P.betainc(trials - k, k + 1.0, failure) >= u, trials)


def permutation(state: State, x: Any) -> Any:
    """The entries of x along its first axis (or of range(x)) in random order."""
    values = np.arange(x) if isinstance(x, int) else x
    return values[np.argsort(bits(state, values.shape[:1]))]


def choice(state: State, x: Any, shape: Any = (), replace: bool = True, p: Any = None) -> Any:
    """Entries of x along its first axis (or of range(x)), with probabilities p."""
    values = np.arange(x) if isinstance(x, int) else x
    shape, n = _shape(shape, 0), values.shape[0]
    if replace:
        places = integers(state, 0, n, shape) if p is None else categorical(state, np.log(p), shape)
        return values[places]
    size = math.prod(shape)
    if size > n:
        raise ShapeError(f"`choice` cannot take {size} of {n} entries without replacement")
    keys = bits(state, (n,)) if p is None else -(np.log(p) + gumbel(state, (n,)))
    return values[np.reshape(np.argsort(keys)[:size], shape)]
