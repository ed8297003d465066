"""Factors of matrices and linear systems, by columns: the graph has a few operators for each of them.

What LAPACK would refuse (a singular matrix, one that is not positive definite) is not finite here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import formula


def _at(a: Any, rows: int, columns: int) -> Any:
    """With zeros above and to the left."""
    return np.pad(a, [(0, 0)] * (a.ndim - 2) + [(rows, 0), (columns, 0)])


def _turned(a: Any) -> Any:
    return np.swapaxes(a, -1, -2)


@formula("cholesky")
def cholesky(a: Any) -> Any:
    """The first column of what is left, by the root of its first entry; its square is taken off the rest."""
    columns = []
    for j in range(a.shape[-1]):
        c = a[..., :, :1] / np.sqrt(a[..., :1, :1])
        columns.append(_at(c, j, 0))
        below = c[..., 1:, :]
        a = a[..., 1:, 1:] - below * _turned(below)
    return np.concatenate(columns, -1)


@formula("triangular_solve")
def triangular_solve(a: Any, b: Any, *, lower: bool, unit: bool) -> Any:
    """One unknown after the other, from the corner where an equation has but one."""
    n = a.shape[-1]
    found = []
    for j in range(n) if lower else range(n - 1, -1, -1):
        own, others = (slice(0, 1), slice(1, None)) if lower else (slice(-1, None), slice(0, -1))
        x = b[..., own, :]
        if not unit:
            x = x / a[..., j : j + 1, j : j + 1]
        found.append(x)
        rest = slice(j + 1, n) if lower else slice(0, j)
        b = b[..., others, :] - a[..., rest, j : j + 1] * x
    return np.concatenate(found if lower else found[::-1], -2)


class _Elimination:
    """Elimination with the largest pivot of each column: the rows it leaves, and where each was taken from."""

    def __init__(self, a: Any):
        m, n = a.shape[-2:]
        places = np.broadcast_to(np.arange(m)[:, None], (*a.shape[:-1], 1))
        self.rows, self.order, self.pivots = [], [], []
        for j in range(min(m, n)):
            chosen = np.argmax(np.abs(a[..., :, 0]), axis=-1)[..., None, None]
            is_chosen = np.arange(m - j)[:, None] == chosen
            row, rest = _exchanged(a, is_chosen)
            place, places = _exchanged(places, is_chosen)
            pivot = row[..., :1]
            self.rows.append(_at(row, 0, j))
            self.order.append(place)
            self.pivots.append(np.where(chosen == 0, pivot, -pivot))
            factors = rest[..., :1] / np.where(pivot == 0, 1, pivot)
            a = rest[..., 1:] - factors * row[..., 1:]
        if m > n:
            self.order.append(places)


def _exchanged(a: Any, is_chosen: Any) -> tuple[Any, Any]:
    """One row, and the others, of which the first stands in its place."""
    return (
        np.sum(np.where(is_chosen, a, 0), axis=-2, keepdims=True),
        np.where(is_chosen, a[..., :1, :], a)[..., 1:, :],
    )


@formula("pivots")
def pivots(a: Any) -> Any:
    return np.concatenate(_Elimination(a).order, -2)[..., 0]


@formula("lu_diagonal")
def lu_diagonal(a: Any) -> Any:
    """Each with the sign of its exchange of rows."""
    return np.concatenate(_Elimination(a).pivots, -2)[..., 0]


@formula("lu")
def lu(a: Any) -> Any:
    """L below the diagonal, U on it and above; no rows are exchanged."""
    n = a.shape[-1]
    parts = []
    for j in range(n):
        row, factors = a[..., :1, :], a[..., 1:, :1] / a[..., :1, :1]
        parts.append((_at(row, 0, j), _at(factors, j + 1, 0)))
        a = a[..., 1:, 1:] - factors * row[..., 1:]
    upper, lower = zip(*parts, strict=True)
    return np.concatenate(upper, -2) + np.concatenate(lower, -1)


@formula("solve")
def solve(a: Any, b: Any, tiny: Any = None) -> Any:
    n = a.shape[-1]
    rows = np.concatenate(_Elimination(np.concatenate([a, b], -1)).rows, -2)
    U = rows[..., :n]
    if tiny is not None:
        U = np.where(np.logical_and(np.eye(n, dtype=bool), U == 0), tiny, U)
    return triangular_solve(U, rows[..., n:], lower=False, unit=False)


@formula("inv", "inv_of_pivots")
def inv(a: Any, tiny: Any = None) -> Any:
    """With `tiny` in place of pivots that are 0."""
    return solve(a, np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape), tiny)


@formula("qr")
def qr(a: Any) -> Any:
    """Q above R: reflections I − t v vᵀ, v starting with 1, leave one entry of each column, as LAPACK's do."""
    m, n = a.shape[-2:]
    rows, reflections = [], []
    for j in range(n):
        if j < m - 1:
            t, v = _reflection(a[..., :, :1])
            a = a - t * v * np.matmul(_turned(v), a)
            reflections.append((t, _at(v, j, 0)))
        rows.append(_at(a[..., :1, :], 0, j))
        a = a[..., 1:, 1:]
    Q = np.broadcast_to(np.eye(m, n, dtype=a.dtype), (*a.shape[:-2], m, n))
    for t, v in reversed(reflections):
        Q = Q - t * v * np.matmul(_turned(v), Q)
    return np.concatenate([Q, *rows], -2)


def _reflection(x: Any) -> tuple[Any, Any]:
    first, others = x[..., :1, :], x[..., 1:, :]
    size = np.sqrt(np.sum(x * x, axis=-2, keepdims=True))
    is_done = np.sum(np.abs(others), axis=-2, keepdims=True) == 0
    left = np.where(is_done, 1, np.where(first < 0, size, -size))  # what it leaves of the column
    v = others / np.where(is_done, 1, first - left)
    return np.where(is_done, 0, 1 - first / left), np.concatenate([np.ones_like(first), v], -2)
