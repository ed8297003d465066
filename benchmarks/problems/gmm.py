"""gmm: the gradient of the log posterior of a Gaussian mixture with a Wishart prior on its precisions.

The precision of component k is Qᵀ Q, with Q lower triangular: exp(q) on its diagonal, l below, column by
column. So log det needs no determinant, and a Mahalanobis distance is |Q (x − μ)|².
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import multigammaln

import backsolve as bs

from .base import Function


def triangles(q: Any, l: Any) -> Any:
    """The matrices Q, one per component."""
    k, d = q.shape
    diagonal = np.arange(d)
    column, row = np.triu_indices(d, 1)  # read along rows: what lies below the diagonal, by columns
    Q = np.zeros_like(q, shape=(k, d, d))
    Q[:, diagonal, diagonal] = np.exp(q)
    Q[:, row, column] = l
    return Q


def logsumexp(x: Any, axis: int) -> Any:
    largest = np.max(x, axis=axis, keepdims=True)
    return np.squeeze(largest, axis) + np.log(np.sum(np.exp(x - largest), axis=axis))


def log_posterior(parameters: Any, x: Any, m: int, gamma: float) -> Any:
    alpha, mu, q, l = parameters
    (k, d), n = mu.shape, len(x)
    Q = triangles(q, l)
    log_det = np.sum(q, axis=1)
    scaled = (x - mu[:, None]) @ np.swapaxes(Q, 1, 2)  # component, observation, coordinate
    beta = (alpha + log_det)[:, None] - np.sum(scaled**2, axis=2) / 2
    likelihood = np.sum(logsumexp(beta, axis=0)) - n * (
        d / 2 * np.log(2 * np.pi) + logsumexp(alpha, axis=0)
    )
    freedom = d + m + 1
    constant = freedom * d * np.log(gamma / np.sqrt(2)) - multigammaln(freedom / 2, d)
    prior = k * constant - gamma**2 / 2 * np.sum(Q**2) + m * np.sum(log_det)
    return likelihood + prior


def prepare(message: dict[str, Any]) -> tuple[Any, ...]:
    parameters = tuple(np.array(message[name], dtype=float) for name in ("alpha", "mu", "q", "l"))
    k, d = message["k"], message["d"]
    parameters = (*parameters[:3], parameters[3].reshape(k, d * (d - 1) // 2))
    return parameters, np.array(message["x"], dtype=float), message["m"], float(message["gamma"])


def answer(gradient: Any) -> dict[str, Any]:
    return {name: g.tolist() for name, g in zip(("alpha", "mu", "q", "l"), gradient, strict=True)}


functions = {
    "objective": Function(bs.jit(log_posterior, static_argnums=(2, 3))),
    "jacobian": Function(bs.jit(bs.grad(log_posterior), static_argnums=(2, 3)), answer),
}
derivative = ("jacobian",)
sizes = {
    "small": {"d": 10, "k": 10, "n": 1000},
    "middle": {"d": 64, "k": 25, "n": 1000},
    "large": {"d": 64, "k": 100, "n": 1000},
}


def generate(rng: Any, d: int, k: int, n: int) -> dict[str, Any]:
    return {
        "d": d,
        "k": k,
        "n": n,
        "x": rng.normal(size=(n, d)).tolist(),
        "m": 0,
        "gamma": 1.0,
        "alpha": rng.normal(size=k).tolist(),
        "mu": rng.random((k, d)).tolist(),
        "q": rng.normal(size=(k, d)).tolist(),
        "l": rng.normal(size=(k, d * (d - 1) // 2)).tolist(),
    }
