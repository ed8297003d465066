"""Rounding errors of rows that take a matrix apart: exact for A + E, with a bound of E (Higham, 2002).

By elimination with pivots, |E| ≤ n u P |L| |U| (theorem 9.3) and 3 n u P |L| |U| of a system (9.4); by
Cholesky's factor (n + 1) u |L| |Lᵀ| (10.3); of a triangular system n u |T| (8.5). By reflections, E is
bounded in its length, that of QR column by column (19.4), with a factor that the theorems leave open: ten
times the larger side is taken here, and for singular values the tolerance of LAPACK's iteration more, which
drops entries of min(100, u^(−1/8)) u beside their neighbours. Computed vectors are as near to orthonormal
ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from ..ir import Type
from ..operators import Operator
from ..operators.solve import Solve, TriangularSolve
from ..row import Row
from ..system import System
from .absolute import factors_of
from .sources import FUNCTION, OwnSources, Source, Values

_MATRIX = (-2, -1)


def _solve(system: System, row: Row, values: Values, u: float) -> list[Source]:
    block = _operator(system, row, Solve)
    near = 3 * block.A.shape[-1] * u * _eliminated(block.A)
    return [Source(near @ np.abs(values[row]), block)]


def _triangular(system: System, row: Row, values: Values, u: float) -> list[Source]:
    block = _operator(system, row, TriangularSolve)
    near = block.A.shape[-1] * u * np.abs(block.read())
    return [Source(near @ np.abs(values[row]), block)]


def _inverse(system: System, row: Row, values: Values, u: float) -> list[Source]:
    """Columns are exact for matrices that differ, so only sizes are known of what E does to all of them."""
    A = values[row.parents[0]]
    size = np.abs(values[row])
    return [Source(size @ (3 * A.shape[-1] * u * _eliminated(A)) @ size)]


def _cholesky(system: System, row: Row, values: Values, u: float) -> list[Source]:
    L = np.abs(values[row])
    near = (L.shape[-1] + 1) * u * (L @ np.swapaxes(L, -1, -2))
    return [Source(near, _block(system, row))]


def _lu(system: System, row: Row, values: Values, u: float) -> list[Source]:
    y = np.abs(values[row])
    n = y.shape[-1]
    product = (np.tril(y, -1) + np.eye(n)) @ np.triu(y)
    return [Source(n * u * product, _block(system, row))]


def _det(system: System, row: Row, values: Values, u: float) -> list[Source]:
    A = values[row.parents[0]]
    n = A.shape[-1]
    return [
        Source(n * u * _eliminated(A), _block(system, row)),
        Source(n * u * np.abs(values[row])),
    ]


def _log_abs_det(system: System, row: Row, values: Values, u: float) -> list[Source]:
    A = values[row.parents[0]]
    n = A.shape[-1]
    pivots = [np.sum(np.abs(np.log(_pivots(a))), axis=-1) for a in (A, np.swapaxes(A, -1, -2))]
    logarithms = Source((FUNCTION + n - 1) * u * np.maximum(*pivots))
    return [Source(n * u * _eliminated(A), _block(system, row)), logarithms]


def _adjugate(system: System, row: Row, values: Values, u: float) -> list[Source]:
    """det A · A⁻¹, or by singular values where there is no inverse."""
    A, y = values[row.parents[0]], values[row]
    n = A.shape[-1]
    det = np.abs(np.linalg.det(A))[..., None, None]
    if not np.all(det > 0):
        return [
            *_by_reflections(system, row, A, u, True),
            Source(_factor(A, u, True) * u * _length(y)),
        ]
    size = np.abs(y)
    near = n * u * _eliminated(A)
    of_det = np.sum(size * np.swapaxes(near, -1, -2), axis=_MATRIX, keepdims=True) / det
    return [Source((3 * size @ near @ size) / det + size * (of_det + (n + 1) * u))]


def _qr(system: System, row: Row, values: Values, u: float) -> list[Source]:
    A = values[row.parents[0]]
    m = A.shape[-2]
    p = _factor(A, u)
    columns = Source(p * u * _length(A, (-2,)), _block(system, row), (-2,))
    return [columns, Source(_on_rows(row, p * u, [(0, m)]))]


def _eigh(system: System, row: Row, values: Values, u: float) -> list[Source]:
    A = values[row.parents[0]]
    vectors = _on_rows(row, _factor(A, u) * u, [(1, A.shape[-1] + 1)])
    return [*_by_reflections(system, row, _symmetric(A, row), u), Source(vectors)]


def _eigvalsh(system: System, row: Row, values: Values, u: float) -> list[Source]:
    return _by_reflections(system, row, _symmetric(values[row.parents[0]], row), u)


def _svd(system: System, row: Row, values: Values, u: float) -> list[Source]:
    A = values[row.parents[0]]
    m, n = A.shape[-2:]
    vectors = _on_rows(row, _factor(A, u) * u, [(0, m), (m + 1, m + 1 + n)])
    return [*_by_reflections(system, row, A, u, True), Source(vectors)]


def _svdvals(system: System, row: Row, values: Values, u: float) -> list[Source]:
    return _by_reflections(system, row, values[row.parents[0]], u, True)


def _pinv(system: System, row: Row, values: Values, u: float) -> list[Source]:
    A, y = values[row.parents[0]], values[row]
    p = _factor(A, u, True)
    return [*_by_reflections(system, row, A, u, True), Source(p * u * _length(y))]


NEARBY: dict[str, OwnSources] = {
    "solve": _solve,
    "triangular_solve": _triangular,
    "inv": _inverse,
    "cholesky": _cholesky,
    "lu": _lu,
    "det": _det,
    "log_abs_det": _log_abs_det,
    "adjugate": _adjugate,
    "qr": _qr,
    "eigh": _eigh,
    "eigvalsh": _eigvalsh,
    "svd": _svd,
    "svdvals": _svdvals,
    "pinv": _pinv,
}


# ---- parts


def _by_reflections(
    system: System, row: Row, A: Any, u: float, iterated: bool = False
) -> list[Source]:
    return [Source(_factor(A, u, iterated) * u * _length(A), _block(system, row), _MATRIX)]


def _factor(A: Any, u: float, iterated: bool = False) -> float:
    return 10 * max(A.shape[-2:]) + (min(100.0, u**-0.125) if iterated else 0.0)


def _length(A: Any, axes: tuple[int, ...] = _MATRIX) -> Any:
    return np.sqrt(np.sum(np.abs(A) ** 2, axis=axes, keepdims=True))


def _symmetric(A: Any, row: Row) -> Any:
    """The matrix of which one triangle is read."""
    half = np.tril(A) if (row.params or {})["lower"] else np.triu(A)
    return half + np.swapaxes(half, -1, -2) - half * np.eye(A.shape[-1])


def _on_rows(row: Row, size: float, parts: list[tuple[int, int]]) -> Any:
    found = np.zeros(row.shape)
    for a, b in parts:
        found[..., a:b, :] = size
    return found


def _block(system: System, row: Row) -> Operator:
    return system.edges(row)[0][1]


def _operator(system: System, row: Row, kind: type) -> Any:
    """The operator of a system that a block of the row begins with."""
    blocks = [block for _, block in system.edges(row)]
    found = next(f for block in blocks for f in factors_of(block) if type(f) is kind)
    own = Type(row.shape, row.dtype)
    return found.typed(own, own)


def _eliminated(A: Any) -> Any:
    """P |L| |U| of every matrix of a stack, or of Aᵀ, which LAPACK is given here and there: the larger."""
    found = np.empty(A.shape)
    for at in np.ndindex(A.shape[:-2]):
        sizes = []
        for a in (A[at], A[at].T):
            lower, upper = scipy.linalg.lu(a, permute_l=True)
            sizes.append(np.abs(lower) @ np.abs(upper))
        found[at] = np.maximum(sizes[0], sizes[1].T)
    return found


def _pivots(A: Any) -> Any:
    found = np.empty(A.shape[:-1])
    for at in np.ndindex(A.shape[:-2]):
        found[at] = np.abs(np.diagonal(scipy.linalg.lu(A[at], permute_l=True)[1]))
    return found
