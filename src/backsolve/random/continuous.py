"""Continuous distributions: monotone functions of uniform numbers, the inverse of a distribution function.

So the derivative with respect to their parameters is that of the reparameterisation, exact and to any order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..primitive import P
from .philox import State, split
from .uniforms import check, full_shape, half_open, in_precision, inside, precision

_Float: Any = np.float64


def _not_negative(x: Any) -> Any:
    return x >= 0


def _positive(x: Any) -> Any:
    return x > 0


def uniform(
    state: State, shape: Any = None, low: Any = 0.0, high: Any = 1.0, dtype: Any = _Float
) -> Any:
    """Uniform in [low, high); in [0, 1) the numbers of `numpy.random.Generator(Philox).random`."""
    kind = precision(dtype)
    low, high = in_precision(kind, low, high)
    return low + (high - low) * half_open(state, full_shape(shape, low, high), kind)


def normal(
    state: State, shape: Any = None, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = _Float
) -> Any:
    """Normal, by the inverse of its distribution function."""
    check("normal", "scale", scale, _not_negative, "≥ 0")
    kind = precision(dtype)
    loc, scale = in_precision(kind, loc, scale)
    return loc + scale * P.ndtri(inside(state, full_shape(shape, loc, scale), kind))


def exponential(state: State, shape: Any = None, scale: Any = 1.0, dtype: Any = _Float) -> Any:
    """Exponential with mean `scale`."""
    check("exponential", "scale", scale, _not_negative, "≥ 0")
    kind = precision(dtype)
    (scale,) = in_precision(kind, scale)
    return -scale * np.log(inside(state, full_shape(shape, scale), kind))


def laplace(
    state: State, shape: Any = None, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = _Float
) -> Any:
    """Laplace's e^(−|x − loc| / scale) / (2 scale)."""
    check("laplace", "scale", scale, _not_negative, "≥ 0")
    kind = precision(dtype)
    loc, scale = in_precision(kind, loc, scale)
    u = inside(state, full_shape(shape, loc, scale), kind)
    return loc + scale * np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))


def gumbel(
    state: State, shape: Any = None, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = _Float
) -> Any:
    """Gumbel: what the largest of many draws tends to, P(X < x) = e^(−e^(−(x − loc) / scale))."""
    check("gumbel", "scale", scale, _not_negative, "≥ 0")
    kind = precision(dtype)
    loc, scale = in_precision(kind, loc, scale)
    return loc - scale * np.log(-np.log(inside(state, full_shape(shape, loc, scale), kind)))


def gamma(state: State, a: Any, shape: Any = None, scale: Any = 1.0, dtype: Any = _Float) -> Any:
    """Gamma with shape parameter `a`; its derivative in `a` is that of the quantile."""
    check("gamma", "a", a, _positive, "> 0")
    kind = precision(dtype)
    a, scale = in_precision(kind, a, scale)
    u = inside(state, full_shape(shape, a, scale), kind)
    return scale * P.gammaincinv(a * np.ones_like(u), u)


def _log_gamma(state: State, a: Any, shape: Any, dtype: Any) -> Any:
    """The logarithm of what `gamma` draws: for small `a` that is often smaller than any number.

    P(a, x) = xᵃ / Γ(a + 1) · (1 − x a / (a + 1) + …), of which the first factor is enough for a small x.
    """
    check("gamma", "a", a, _positive, "> 0")
    kind = precision(dtype)
    (a,) = in_precision(kind, a)
    u = inside(state, full_shape(shape, a), kind)
    a = a * np.ones_like(u)
    x = P.gammaincinv(a, u)
    small = np.less(x, 1e-20 if kind == np.float64 else 1e-10)
    return np.where(small, (np.log(u) + P.gammaln(a + 1)) / a, np.log(np.where(small, 1, x)))


def beta(state: State, a: Any, b: Any, shape: Any = None, dtype: Any = _Float) -> Any:
    """Beta, as a quotient of two gamma variables."""
    full = full_shape(shape, a, b)
    first, second = split(state)
    x, y = _log_gamma(first, a, full, dtype), _log_gamma(second, b, full, dtype)
    return P.sigmoid(x - y)


def dirichlet(state: State, alpha: Any, shape: Any = (), dtype: Any = _Float) -> Any:
    """Dirichlet along the last axis; `shape` comes in front of it."""
    x = _log_gamma(state, alpha, (*full_shape(shape, 0.0), *np.shape(alpha)), dtype)
    return P.softmax(x, axis=(x.ndim - 1,))


def truncated_normal(
    state: State, lower: Any, upper: Any, shape: Any = None, dtype: Any = _Float
) -> Any:
    """Standard normal between two bounds, drawn in the tail in which Φ is accurate."""
    kind = precision(dtype)
    lower, upper = in_precision(kind, lower, upper)
    u = inside(state, full_shape(shape, lower, upper), kind)
    lower, upper = lower + 0 * u, upper + 0 * u
    mirrored = np.greater(lower, 0)
    low, high = np.where(mirrored, -upper, lower), np.where(mirrored, -lower, upper)
    below, above = P.ndtr(low), P.ndtr(high)
    x = P.ndtri(below + (above - below) * u)
    return np.where(mirrored, -x, x)


def multivariate_normal(
    state: State, mean: Any, cov: Any, shape: Any = (), dtype: Any = _Float
) -> Any:
    """Normal with a covariance matrix, mean + L z; `shape` comes in front of the mean's."""
    kind = precision(dtype)
    mean, cov = in_precision(kind, mean, cov)
    z = normal(state, (*full_shape(shape, 0.0), *np.shape(mean)), dtype=dtype)
    return mean + np.matmul(np.linalg.cholesky(cov), z[..., None])[..., 0]
