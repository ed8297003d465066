"""Draws of integers and booleans, and choices: piecewise constant, so their derivative is 0 by definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..control import while_loop
from ..errors import DTypeError, ShapeError
from ..numpy._register import array
from ..primitive import P
from .continuous import gumbel, uniform
from .philox import State, bits, products
from .uniforms import check, full_shape, inside

_U = np.uint64
_DOUBLE = np.dtype(np.float64)


def integers(state: State, low: int, high: int, shape: Any = (), dtype: Any = np.int64) -> Any:
    """Integers in [low, high), each as likely up to 2⁻³²."""
    kind = np.dtype(dtype)
    if kind.kind not in "iu":
        raise DTypeError(f"`integers` draws integers, got dtype={dtype!r}")
    if not low < high:
        raise ValueError(f"`integers` needs low < high, got {low} and {high}")
    if low < np.iinfo(kind).min or high - 1 > np.iinfo(kind).max:
        raise ValueError(f"`integers` from {low} to {high} are not all of dtype {kind}")
    shape = full_shape(shape, 0)
    numbers = _below(state, high - low, math.prod(shape))
    return np.reshape((numbers + _U(low % 2**64)).astype(kind), shape)


def _below(state: State, count: int, size: int) -> Any:
    """Flat (NumPy warns where numbers wrap, not arrays): the upper part of count · bits / 2⁶⁴, or / 2¹²⁸."""
    if count == 2**64:
        return bits(state, size)
    if count <= 2**32:
        return products(bits(state, size), _U(count))[0]
    pairs = np.reshape(bits(state, 2 * size), (size, 2))
    high, low = products(pairs[:, 0], _U(count))
    more, _ = products(pairs[:, 1], _U(count))
    return high + (low + more < low).astype(_U)


def bernoulli(state: State, p: Any = 0.5, shape: Any = None) -> Any:
    """True with probability p."""
    check("bernoulli", "p", p, _is_probability, "in [0, 1]")
    return np.less(uniform(state, full_shape(shape, p)), p)


def _is_count(x: Any) -> Any:
    return (x >= 0) & (x < 2.0**62)


def _is_probability(p: Any) -> Any:
    return (p >= 0) & (p <= 1)


def categorical(state: State, logits: Any, shape: Any = ()) -> Any:
    """Indices along the last axis, with probabilities softmax(logits)."""
    logits = array(logits)
    noise = gumbel(state, (*full_shape(shape, 0.0), *np.shape(logits)))
    return np.argmax(logits + noise, axis=-1)


# ---- counts: the smallest k at which the distribution function reaches a uniform number


def _smallest(reached: Any, guess: Any, top: Any) -> Any:
    """The smallest k in [0, top] with `reached(k)`; that of top is taken for granted.

    From the guess on in steps that double, then between the two that are known to lie around it by halving:
    whatever the guess, the same k, and after two rounds if the guess is right.
    """

    def search(state: Any) -> Any:
        low, high, k, step = state
        found, open_ = reached(k), _are_apart(low, high)
        low = np.where(np.logical_and(open_, np.logical_not(found)), k, low)
        high = np.where(np.logical_and(open_, found), k, high)
        onwards = np.where(found, k - step, k + step)
        between = np.floor((low + high) / 2)
        outside = np.logical_or(onwards <= low, onwards >= high)
        return low, high, np.where(outside, between, onwards), 2 * step

    first = np.clip(np.floor(guess), 0.0, np.maximum(top - 1, 0.0))
    start = (top * 0.0 - 1.0, top, first, top * 0.0 + 1.0)
    _, high, _, _ = while_loop(lambda s: np.any(_are_apart(s[0], s[1])), search, start)
    return high.astype(np.int64)


def _are_apart(low: Any, high: Any) -> Any:
    """Whether a whole number lies between; beyond 2⁵³, another number."""
    return high - low > np.maximum(high * 2.0**-52, 1.0)


def _near(u: Any, mean: Any, deviation: Any, skew: Any) -> Any:
    """The quantile of a distribution that is close to normal, by Cornish and Fisher."""
    z = P.ndtri(u)
    return mean + deviation * z + skew * (z * z - 1) / 6


def poisson(state: State, lam: Any = 1.0, shape: Any = None) -> Any:
    """int64 with mean lam, by inversion."""
    check("poisson", "lam", lam, _is_count, "≥ 0 and below 2⁶²")
    u = inside(state, full_shape(shape, lam), _DOUBLE)
    mean = P.detach(lam + 0.0 * u)
    deviation = np.sqrt(mean)
    top = np.ceil(mean + 12 * deviation + 60)
    guess = _near(u, mean, deviation, 1.0)
    return _smallest(lambda k: P.gammaincc(k + 1.0, mean) >= u, guess, top)


def binomial(state: State, n: Any, p: Any, shape: Any = None) -> Any:
    """int64: successes among n trials of probability p, by inversion."""
    check("binomial", "n", n, _is_count, "≥ 0 and below 2⁶²")
    check("binomial", "p", p, _is_probability, "in [0, 1]")
    u = inside(state, full_shape(shape, n, p), _DOUBLE)
    trials, failure = P.detach(n + 0.0 * u), P.detach(1 - p + 0.0 * u)
    mean = trials * (1 - failure)
    guess = _near(u, mean, np.sqrt(mean * failure), 2 * failure - 1)
    return _smallest(lambda k: P.betainc(trials - k, k + 1.0, failure) >= u, guess, trials)


# ---- entries of an array


def _entries(name: str, x: Any) -> Any:
    values = np.arange(x) if isinstance(x, int) else array(x)
    if np.ndim(values) == 0:
        raise ShapeError(f"`{name}` needs an array or a number of entries, got {x!r}")
    return values


def permutation(state: State, x: Any) -> Any:
    """The entries of x along its first axis (or of range(x)) in random order."""
    values = _entries("permutation", x)
    return values[np.argsort(bits(state, values.shape[:1]))]


def choice(state: State, x: Any, shape: Any = (), replace: bool = True, p: Any = None) -> Any:
    """Entries of x along its first axis (or of range(x)), with probabilities p."""
    values = _entries("choice", x)
    shape, n = full_shape(shape, 0), values.shape[0]
    if p is not None:
        if np.shape(p) != (n,):
            raise ShapeError(
                f"`choice` needs one probability `p` for each of {n}, got shape {np.shape(p)}"
            )
        check("choice", "p", p, lambda x: x >= 0, "≥ 0")
    if replace:
        places = integers(state, 0, n, shape) if p is None else categorical(state, np.log(p), shape)
        return values[places]
    size = math.prod(shape)
    if size > n:
        raise ShapeError(f"`choice` cannot take {size} of {n} entries without replacement")
    keys = bits(state, (n,)) if p is None else -(np.log(p) + gumbel(state, (n,)))
    return values[np.reshape(np.argsort(keys)[:size], shape)]
