"""Matrices of one rank, kept as factors: an m × n matrix of rank r costs (m + n + r) r numbers, a tangent too.

A point is one array, the rows of U, of V and of S one behind the other, for u s vᵀ with orthonormal columns of
U and V. A tangent has the same shape, with the rows of A, of B and of M, and stands for

    A Vᵀ + U Bᵀ + U M Vᵀ        with Uᵀ A = 0, Vᵀ B = 0    (Vandereycken, 2013),

which are orthogonal to each other, so that Σ u v of these arrays is that of the matrices. No step makes an
m × n array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..api import jvp
from ..errors import ShapeError
from ..operators import Operator
from .base import Manifold, check_finite, transposed
from .low_rank import check_rank, check_whole
from .operators import TangentMap
from .orthogonal import Stiefel


class Factored:
    """The matrix u s vᵀ of arrays or Tensors: `@`, `.T`, entries by index arrays, `dense()`."""

    __array_ufunc__ = None  # a @ matrix is ours

    def __init__(self, u: Any, s: Any, v: Any):
        self.u, self.s, self.v = u, s, v

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return self.u.shape[-2], self.v.shape[-2]

    @property
    def T(self) -> Factored:
        """The transpose, by its factors."""
        return Factored(self.v, transposed(self.s), self.u)

    def __matmul__(self, b: Any) -> Any:
        return self.u @ (self.s @ (transposed(self.v) @ b))

    def __rmatmul__(self, a: Any) -> Any:
        return ((a @ self.u) @ self.s) @ transposed(self.v)

    def __getitem__(self, key: tuple[Any, Any]) -> Any:
        """Entries at (rows, columns), index arrays of one shape."""
        rows, columns = key
        return np.sum((self.u[rows] @ self.s) * self.v[columns], axis=-1)

    def dense(self) -> Any:
        """The matrix, written out."""
        return self.u @ self.s @ transposed(self.v)

    def __repr__(self) -> str:
        return f"Factored{self.shape}"


@dataclass(frozen=True)
class LowRank(Manifold):
    """Matrices of rank `rank` by their factors, with the metric of the space around.

    The same matrix has many factors, so rules that divide entry by entry (Adam) go by what these happen to be:
    RiemannianAdam, SGD, LBFGS and RiemannianCG do not.

    >>> import backsolve as bs
    >>> manifold = LowRank(3, 2, 1)
    >>> x = manifold.point_of(np.outer([3.0, 0.0, 4.0], [0.0, 2.0]))
    >>> manifold.matrix(x) @ np.ones(2)
    array([6., 0., 8.])
    >>> bs.grad(lambda x: np.sum(manifold.matrix(x) @ np.ones(2)))(bs.on(manifold, x)).shape
    (6, 1)
    """

    rows: int
    columns: int
    rank: int = 1
    axes = 2

    def __post_init__(self) -> None:
        check_whole(self.rows, self.columns, self.rank)
        if not 1 <= self.rank <= min(self.rows, self.columns):
            raise ValueError(
                f"a rank is from 1 to the smaller of {self.rows} and {self.columns}, got {self.rank}"
            )

    # ---- points

    def factors(self, x: Any) -> tuple[Any, Any, Any]:
        """U, S and V of a point; A, M and B of a tangent."""
        m, n = self.rows, self.columns
        if tuple(x.shape[-2:]) != (m + n + self.rank, self.rank):
            raise ShapeError(
                f"a point of {self} is an array of shape {(m + n + self.rank, self.rank)}, got {x.shape}; "
                "point_of(matrix) makes one"
            )
        return x[..., :m, :], x[..., m + n :, :], x[..., m : m + n, :]

    def packed(self, u: Any, s: Any, v: Any) -> Any:
        """The point with these factors: u s vᵀ."""
        return np.concatenate([u, v, s], axis=-2)

    def matrix(self, x: Any) -> Factored:
        """What a point stands for, to compute with."""
        return Factored(*self.factors(x))

    def point_of(self, matrix: Any) -> Any:
        """The point nearest to a whole matrix."""
        u, s, vt = np.linalg.svd(matrix, full_matrices=False)
        k = self.rank
        inside = s[..., :k, None] * np.eye(k, dtype=s.dtype)
        return self.packed(u[..., :k], inside, transposed(vt)[..., :k])

    def random_point(self, rng: np.random.Generator, shape: Any = None) -> Any:
        k = self.rank
        return self.nearest(rng.normal(size=(self.rows + self.columns + k, k)))

    def nearest(self, x: Any) -> Any:
        """The same matrix by orthonormal factors."""
        u, s, v = self.factors(x)
        q, p = Stiefel().nearest(u), Stiefel().nearest(v)
        return self.packed(q, (transposed(q) @ u) @ s @ transposed(transposed(p) @ v), p)

    def check(self, x: Any) -> None:
        check_finite(x, self)
        u, s, v = self.factors(x)
        sizes = np.linalg.svd(s, compute_uv=False)
        check_rank(sizes, self)
        # u and v are measured by themselves, whatever the size of s
        super().check(self.packed(u, s / sizes[..., :1, None], v))

    # ---- tangents

    def dimension(self, shape: tuple[int, ...]) -> int:
        return self._stacked(shape, lambda s: self.rank * (self.rows + self.columns - self.rank))

    def project(self, x: Any, u: Any) -> Any:
        (U, _, V), (A, M, B) = self.factors(x), self.factors(u)
        return self.packed(A - U @ (transposed(U) @ A), M, B - V @ (transposed(V) @ B))

    def projection(self, x: Any) -> Operator:
        return TangentMap(self, x)

    def displacement(self, x: Any, u: Any) -> Any:
        """How the factors change along a tangent: dU S = A, dV Sᵀ = B, dS = M."""
        S = self.factors(x)[1]
        A, M, B = self.factors(self.project(x, u))
        return self.packed(_divided(A, S), M, _divided(B, transposed(S)))

    def gradient(self, x: Any, g: Any) -> Any:
        S = self.factors(x)[1]
        gU, gS, gV = self.factors(g)
        return self.project(x, self.packed(_divided(gU, transposed(S)), gS, _divided(gV, S)))

    def raised(self, x: Any, g: Any) -> Any:
        return g

    def hessian(self, x: Any, g: Any, h: Any, u: Any) -> Any:
        # Z = A Vᵀ + U Bᵀ + U M Vᵀ is the gradient: the tangent part of dZ, for dU and dV orthogonal to U and V
        move = self.displacement(x, u)
        slope, turned = jvp(self.gradient, (x, g), (move, h))
        (U, _, V), (dU, _, dV) = self.factors(x), self.factors(move)
        M, (dA, dM, dB) = self.factors(slope)[1], self.factors(turned)
        inside = dM + transposed(U) @ dA + transposed(dB) @ V
        return self.project(x, self.packed(dA + dU @ M, inside, dB + dV @ transposed(M)))

    # ---- moving

    def retract(self, x: Any, u: Any) -> Any:
        """The nearest matrix of this rank to x + u = [U A] [S + M, 1; 1, 0] [V B]ᵀ.

        Columns of U and of A go into one Q R, so that rounding errors of U do not pile up over steps.
        """
        (U, S, V), (A, M, B) = self.factors(x), self.factors(u)
        q, ra = np.linalg.qr(np.concatenate([U, A], axis=-1))
        p, rb = np.linalg.qr(np.concatenate([V, B], axis=-1))
        k = self.rank
        one = np.broadcast_to(np.eye(k, dtype=x.dtype), S.shape)
        upper = np.concatenate([S + M, one], axis=-1)
        lower = np.concatenate([one, np.zeros_like(S)], axis=-1)
        a, s, bt = np.linalg.svd(ra @ np.concatenate([upper, lower], axis=-2) @ transposed(rb))
        inside = s[..., :k, None] * np.eye(k, dtype=x.dtype)
        return self.packed(q @ a[..., :k], inside, p @ transposed(bt)[..., :k])

    def velocity(self, x: Any, t: Any, d: Any) -> tuple[Any, Any]:
        y = self.retract(x, t * d)
        return y, self.transport(x, y, d)

    def transport(self, x: Any, y: Any, u: Any) -> Any:
        (U, _, V), (A, M, B) = self.factors(x), self.factors(u)
        wide = A + U @ M
        return self._tangent(y, [(wide, V), (U, B)])

    def toward(self, x: Any, y: Any) -> Any:
        (U, S, V), (P, R, Q) = self.factors(x), self.factors(y)
        return self._tangent(x, [(P @ R, Q), (-U @ S, V)])

    def _tangent(self, x: Any, pairs: list[tuple[Any, Any]]) -> Any:
        """The tangent at x nearest to Σ a bᵀ."""
        U, _, V = self.factors(x)
        onto_v = sum(a @ (transposed(b) @ V) for a, b in pairs)
        onto_u = sum(b @ (transposed(a) @ U) for a, b in pairs)
        M = transposed(U) @ onto_v
        return self.packed(onto_v - U @ M, M, onto_u - V @ transposed(M))


def _divided(a: Any, s: Any) -> Any:
    """a s⁻¹."""
    return transposed(np.linalg.solve(transposed(s), transposed(a)))
