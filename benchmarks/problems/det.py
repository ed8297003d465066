"""det: the determinant by expansion along the first row, minor by minor, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

import backsolve as bs

from .base import Function


def determinant(A: Any) -> Any:
    if len(A) == 1:
        return A[0, 0]
    total, sign = 0.0, 1.0
    for j in range(len(A)):
        minor = np.delete(A[1:], j, axis=1)
        total = total + sign * A[0, j] * determinant(minor)
        sign = -sign
    return total


def minors(rows: Any, columns: np.ndarray) -> Any:
    """The determinants of `rows`, of either library, restricted to each line of `columns`.

    All minors of a size are one array, of all ordered choices.
    """
    m = columns.shape[1]
    if m == 1:
        return rows[0][columns[:, 0]]
    others = np.array([[c for c in range(m) if c != j] for j in range(m)])
    smaller = minors(rows[1:], columns[:, others].reshape(-1, m - 1)).reshape(-1, m)
    return ((-1.0) ** np.arange(m) * rows[0][columns] * smaller).sum(axis=1)


def by_size(A: Any) -> Any:
    return minors(A, np.arange(len(A))[None])[0]


def prepare(message: dict[str, Any]) -> tuple[np.ndarray]:
    ell = message["ell"]
    return (np.array(message["A"], dtype=float).reshape(ell, ell),)


functions = {
    "primal": Function(bs.jit(determinant)),
    "gradient": Function(bs.jit(bs.grad(determinant)), lambda g: g.ravel().tolist()),
    "gradient by sizes": Function(bs.jit(bs.grad(by_size)), lambda g: g.ravel().tolist()),
}
derivative = ("gradient",)
on_gpus = ("gradient by sizes",)
sizes = {"small": {"ell": 5}, "middle": {"ell": 9}, "large": {"ell": 11}}


def generate(rng: Any, ell: int) -> dict[str, Any]:
    return {"A": rng.random(ell * ell).tolist(), "ell": ell}
