"""Matrices of one rank, kept whole: x = u s vᵀ is taken apart where it is needed. factored.py keeps factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ShapeError
from .base import Manifold, transposed


def check_whole(*numbers: Any) -> None:
    """Ranks and counts of rows and columns."""
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise ValueError(f"a rank, and rows and columns, are whole numbers, got {number!r:.60}")


def check_rank(sizes: Any, manifold: Manifold) -> None:
    """Singular values, the largest first, are above rounding errors."""
    if not np.all(sizes[..., -1] > np.finfo(sizes.dtype).eps * sizes[..., 0]):
        raise ShapeError(f"this matrix has a lower rank than {manifold}")


@dataclass(frozen=True)
class FixedRank(Manifold):
    """Matrices of rank `rank`, with the metric of the space around (Vandereycken, 2013)."""

    rank: int = 1
    axes = 2

    def __post_init__(self) -> None:
        check_whole(self.rank)
        if self.rank < 1:
            raise ValueError(f"a rank is at least 1, got {self.rank}")

    def dimension(self, shape: tuple[int, ...]) -> int:
        return self._stacked(shape, lambda s: self.rank * (s[0] + s[1] - self.rank))

    def nearest(self, x: Any) -> Any:
        u, s, v = self._apart(x)
        return (u * s[..., None, :]) @ transposed(v)

    def check(self, x: Any) -> None:
        super().check(x)
        check_rank(self._apart(x)[1], self)

    def retract(self, x: Any, u: Any) -> Any:
        return self.nearest(x + u)

    def velocity(self, x: Any, t: Any, d: Any) -> tuple[Any, Any]:
        # to first order: a singular value decomposition of a singular matrix has no derivative
        y = self.retract(x, t * d)
        return y, self.transport(x, y, d)

    def project(self, x: Any, u: Any) -> Any:
        left, _, right = self._apart(x)
        inside = left @ (transposed(left) @ u)
        return inside + (u - inside) @ right @ transposed(right)

    def hessian(self, x: Any, g: Any, h: Any, u: Any) -> Any:
        # how the spaces of rows and columns turn along u, met by what of g is normal to the manifold
        left, s, right = self._apart(x)
        normal = g - self.project(x, g)
        pseudo = (left / s[..., None, :]) @ transposed(right)  # the transpose of x⁺
        turned = pseudo @ transposed(u) @ normal + normal @ transposed(u) @ pseudo
        return self.project(x, h) + turned

    def _apart(self, x: Any) -> tuple[Any, Any, Any]:
        if len(x.shape) < 2 or min(x.shape[-2:]) < self.rank:
            raise ShapeError(f"rank {self.rank} needs as many rows and columns, got {x.shape}")
        u, s, vt = np.linalg.svd(x, full_matrices=False)
        return u[..., : self.rank], s[..., : self.rank], transposed(vt)[..., : self.rank]
