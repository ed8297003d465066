"""Matrices of orthonormal columns, and rotations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ShapeError, UnsupportedError
from ..primitive import P
from ..primitives.checks import raise_if
from .base import Manifold, from_skew, only_one, skew, skew_of, symmetric, transposed


@dataclass(frozen=True)
class Stiefel(Manifold):
    """Matrices of orthonormal columns; `retraction` by "qr" or by "cayley", a rotation."""

    retraction: str = "qr"
    axes = 2

    def __post_init__(self) -> None:
        if self.retraction not in ("qr", "cayley"):
            raise ValueError(f'a retraction is by "qr" or "cayley", got {self.retraction!r}')

    def dimension(self, shape: tuple[int, ...]) -> int:
        return self._stacked(shape, lambda s: s[0] * s[1] - s[1] * (s[1] + 1) // 2)

    def project(self, x: Any, u: Any) -> Any:
        return u - x @ symmetric(transposed(x) @ u)

    def retract(self, x: Any, u: Any) -> Any:
        if self.retraction == "qr":
            return _orthonormal(x + u)
        # W = P u xᵀ − x uᵀ P with P = 1 − ½ x xᵀ is skew and W x = u
        part = u - 0.5 * x @ (transposed(x) @ u)
        half = 0.5 * (part @ transposed(x) - x @ transposed(part))
        one = np.eye(x.shape[-2], dtype=x.dtype)
        return np.linalg.solve(one - half, x + half @ x)

    def nearest(self, x: Any) -> Any:
        if len(x.shape) < 2 or x.shape[-2] < x.shape[-1]:
            raise ShapeError(f"orthonormal columns need as many rows at least, got {x.shape}")
        return _orthonormal(x)

    def exp(self, x: Any, u: Any) -> Any:
        """[x u] exp([A −uᵀu; 1 A]) [1; 0] exp(−A) with A = xᵀu (Edelman, Arias and Smith, 1998)."""
        p = x.shape[-1]
        A, one = transposed(x) @ u, np.broadcast_to(np.eye(p, dtype=x.dtype), (*x.shape[:-2], p, p))
        upper = np.concatenate([A, -transposed(u) @ u], axis=-1)
        lower = np.concatenate([one, A], axis=-1)
        turn = P.expm(np.concatenate([upper, lower], axis=-2))[..., :p]
        return np.concatenate([x, u], axis=-1) @ turn @ P.expm(-A)

    def embed(self, x: Any, t: Any) -> Any:
        only_one(x, 2, self)
        n, p = x.shape
        cut = p * (p - 1) // 2
        inside = x @ skew_of(t[:cut], p)
        return inside if n == p else inside + _rest(x) @ t[cut:].reshape(n - p, p)

    def embed_adjoint(self, x: Any, u: Any) -> Any:
        only_one(x, 2, self)
        n, p = x.shape
        inside = from_skew(x.T @ u)
        return inside if n == p else np.concatenate([inside, (_rest(x).T @ u).reshape(-1)])


def _orthonormal(x: Any) -> Any:
    """Q of Q R = x with positive numbers on the diagonal of R."""
    q, r = np.linalg.qr(x)
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0).astype(x.dtype)
    return q * signs[..., None, :]


def _rest(x: Any) -> Any:
    """Orthonormal columns orthogonal to those of x."""
    return np.linalg.qr(x, mode="complete")[0][:, x.shape[1] :]


@dataclass(frozen=True)
class SpecialOrthogonal(Stiefel):
    """Rotations: orthogonal matrices of determinant 1."""

    def project(self, x: Any, u: Any) -> Any:
        return x @ skew(transposed(x) @ u)

    def nearest(self, x: Any) -> Any:
        if len(x.shape) < 2 or x.shape[-2] != x.shape[-1]:
            raise ShapeError(f"rotations are square, got {x.shape}")
        q = super().nearest(x)
        first = np.where(np.linalg.det(q) < 0, -1.0, 1.0).astype(x.dtype)[..., None, None]
        return np.concatenate([q[..., :1] * first, q[..., 1:]], axis=-1)

    def exp(self, x: Any, u: Any) -> Any:
        return x @ P.expm(skew(transposed(x) @ u))

    def log(self, x: Any, y: Any) -> Any:
        between = transposed(x) @ y
        _check_turn(between)
        return x @ skew(_logarithm(between))


def _logarithm(turn: Any) -> Any:
    """log R = 16 log S = 32 artanh C, with S = R^(1/16) and C = (S − 1) (S + 1)⁻¹, by its series: S turns by at
    most π / 16, so C is at most 0.1."""
    for _ in range(4):
        turn = P.sqrtm(turn)
    one = np.eye(turn.shape[-1], dtype=turn.dtype)
    c = skew(np.linalg.solve(turn + one, turn - one))
    square, series = c @ c, np.zeros_like(c)
    for k in reversed(range(9)):
        series = square @ series + one / (2 * k + 1)
    return 32 * c @ series


def _check_turn(turn: Any) -> None:
    """An error for half a turn, whose cosine, −1, is an eigenvalue of the symmetric part."""
    cosines = np.linalg.eigvalsh(symmetric(turn))
    failed = np.any(cosines <= -1 + 8 * np.finfo(turn.dtype).eps)
    message = "from x to y leads no shortest way, or more than one: y is x mirrored, or turned by half a turn"
    raise_if(failed, UnsupportedError, message)
