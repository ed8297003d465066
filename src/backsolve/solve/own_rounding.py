"""What rows of several steps add to the rounding error by themselves: softmax, norms, linear systems.

A composition is bounded by its formula. Of a matrix, the computed result is exact for a matrix nearby (Higham,
Accuracy and Stability of Numerical Algorithms, 2002): |ΔA| ≤ 3 n u P |L| |U| for a system by elimination with
pivots (theorem 9.4), (n + 1) u |L| |Lᵀ| for Cholesky's factor (10.3), n u |T| for a triangular system (8.5);
how the result depends on A takes ΔA to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from ..operators.solve import Solve, TriangularSolve
from ..row import Row
from ..system import System
from .absolute import absolute, factors_of, inverse_of

FUNCTION = 8  # u of an elementary function: four units in the last place, what vectorised libraries promise

Values = dict[Row, Any]


def _axis(row: Row) -> tuple[int, ...]:
    axis: tuple[int, ...] = (row.params or {})["axis"]
    return axis


def _shares(a: Any, axis: tuple[int, ...], u: float) -> tuple[Any, Any, Any]:
    """z = a − max a, softmax of it, and the relative error of Σ exp z (with that of each term)."""
    z = a - np.max(a, axis=axis, keepdims=True)
    e = np.exp(z)
    p = e / np.sum(e, axis=axis, keepdims=True)
    terms = u * (np.abs(z) + FUNCTION)
    count = int(np.prod([a.shape[k] for k in axis]))
    return z, terms, np.sum(p * terms, axis=axis, keepdims=True) + u * (count - 1)


def _softmax(system: System, row: Row, values: Values, u: float) -> Any:
    _, terms, total = _shares(values[row.parents[0]], _axis(row), u)
    return values[row] * (terms + total + u)


def _log_softmax(system: System, row: Row, values: Values, u: float) -> Any:
    z, _, total = _shares(values[row.parents[0]], _axis(row), u)
    y = values[row]
    return u * np.abs(z) + total + FUNCTION * u * np.abs(z - y) + u * np.abs(y)


def _logsumexp(system: System, row: Row, values: Values, u: float) -> Any:
    a, axis = values[row.parents[0]], _axis(row)
    _, _, total = _shares(a, axis, u)
    y = values[row]
    top = np.max(a, axis=axis, keepdims=True)
    size = np.reshape(y, top.shape)
    own = total + FUNCTION * u * np.abs(size - top) + u * np.abs(size)
    return np.reshape(own, np.shape(y))


def _norm(system: System, row: Row, values: Values, u: float) -> Any:
    """Squares do not cancel; 5 roundings more where entries had to be scaled."""
    terms = row.parents[0].size // max(row.size, 1)
    return u * (terms / 2 + 5) * np.abs(values[row])


def _solve(system: System, row: Row, values: Values, u: float) -> Any:
    A = _operator(system, row, Solve).A
    near = 3 * A.shape[-1] * u * _eliminated(A)
    return np.abs(np.linalg.inv(A)) @ near @ np.abs(values[row])


def _triangular(system: System, row: Row, values: Values, u: float) -> Any:
    block = _operator(system, row, TriangularSolve)
    near = block.A.shape[-1] * u * np.abs(block.read())
    return np.abs(inverse_of(block)) @ near @ np.abs(values[row])


def _inverse(system: System, row: Row, values: Values, u: float) -> Any:
    A = values[row.parents[0]]
    size = np.abs(values[row])
    return size @ (3 * A.shape[-1] * u * _eliminated(A)) @ size


def _cholesky(system: System, row: Row, values: Values, u: float) -> Any:
    L = np.abs(values[row])
    near = (L.shape[-1] + 1) * u * (L @ np.swapaxes(L, -1, -2))
    return absolute(system.edges(row)[0][1]).apply(near)


def _log_abs_det(system: System, row: Row, values: Values, u: float) -> Any:
    A = values[row.parents[0]]
    n = A.shape[-1]
    moved = np.sum(np.abs(np.linalg.inv(A)) * np.swapaxes(_eliminated(A), -1, -2), axis=(-2, -1))
    pivots = np.sum(np.abs(np.log(_pivots(A))), axis=-1)
    return n * u * moved + (FUNCTION + n - 1) * u * pivots


OWN: dict[str, Callable[[System, Row, Values, float], Any]] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "norm": _norm,
    "solve": _solve,
    "triangular_solve": _triangular,
    "inv": _inverse,
    "cholesky": _cholesky,
    "log_abs_det": _log_abs_det,
}


def _operator(system: System, row: Row, kind: type) -> Any:
    """The operator of a system that a block of the row begins with."""
    return next(f for _, block in system.edges(row) for f in factors_of(block) if type(f) is kind)


def _eliminated(A: Any) -> Any:
    """P |L| |U| of every matrix of a stack."""
    found = np.empty(A.shape)
    for at in np.ndindex(A.shape[:-2]):
        lower, upper = scipy.linalg.lu(A[at], permute_l=True)
        found[at] = np.abs(lower) @ np.abs(upper)
    return found


def _pivots(A: Any) -> Any:
    found = np.empty(A.shape[:-1])
    for at in np.ndindex(A.shape[:-2]):
        found[at] = np.abs(np.diagonal(scipy.linalg.lu(A[at], permute_l=True)[1]))
    return found
