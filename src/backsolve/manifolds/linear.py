"""Linear spaces of matrices: their tangents are they themselves, by operators whose entries are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir import Type
from ..operators import Diagonal as DiagonalOperator
from ..operators import Gather, Identity, Operator, ScatterAdd, Transpose, Zero
from ..operators import Reshape as ReshapeOperator
from .base import (
    Manifold,
    check_finite,
    check_square,
    only_one,
    skew,
    skew_places,
    symmetric,
    symmetric_places,
)


@dataclass(frozen=True)
class Linear(Manifold):
    """Abstract: moving is adding, and geodesics are lines."""

    def nearest(self, x: Any) -> Any:
        return self.project(x, x)

    def transport(self, x: Any, y: Any, u: Any) -> Any:
        return u

    def exp(self, x: Any, u: Any) -> Any:
        return x + u

    def log(self, x: Any, y: Any) -> Any:
        return y - x

    def embed(self, x: Any, t: Any) -> Any:
        return self.basis(x).apply(t)

    def embed_adjoint(self, x: Any, u: Any) -> Any:
        return self.basis(x).T.apply(u)


@dataclass(frozen=True)
class Euclidean(Linear):
    """All real arrays: every direction is a tangent."""

    def projection(self, x: Any) -> Operator:
        return Identity(_type(x))

    def basis(self, x: Any) -> Operator:
        return ReshapeOperator(Type((x.size,), x.dtype), x.shape)


@dataclass(frozen=True)
class Complex(Linear):
    """All complex arrays, with ⟨u, v⟩ = Re Σ ū v."""

    def check(self, x: Any) -> None:
        if x.dtype.kind != "c":
            raise ShapeError(f"expected a complex array, got one of {x.dtype}")
        check_finite(x, self)

    def random_point(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return rng.normal(size=shape) + 1j * rng.normal(size=shape)

    def random_tangent(self, rng: np.random.Generator, x: Any) -> Any:
        return self.random_point(rng, x.shape)

    def dimension(self, shape: tuple[int, ...]) -> int:
        return 2 * super().dimension(shape)

    def projection(self, x: Any) -> Operator:
        return Identity(_type(x))

    def basis(self, x: Any) -> Operator:
        return Manifold.basis(self, x)

    def embed(self, x: Any, t: Any) -> Any:
        half = x.size
        return (t[:half] + 1j * t[half:]).reshape(x.shape)

    def embed_adjoint(self, x: Any, u: Any) -> Any:
        flat = u.reshape(-1)
        return np.concatenate([np.real(flat), np.imag(flat)])


@dataclass(frozen=True)
class _Square(Linear):
    axes = 2

    def nearest(self, x: Any) -> Any:
        check_square(x.shape, self)
        return self.project(x, x)


@dataclass(frozen=True)
class Symmetric(_Square):
    """Symmetric matrices: n (n + 1) / 2 coordinates."""

    def dimension(self, shape: tuple[int, ...]) -> int:
        return self._stacked(shape, lambda s: s[0] * (s[0] + 1) // 2)

    def project(self, x: Any, u: Any) -> Any:
        return symmetric(u)

    def projection(self, x: Any) -> Operator:
        return (Identity(_type(x)) + _turn(x)) * 0.5

    def basis(self, x: Any) -> Operator:
        return _placed(self, x, *symmetric_places(x.shape[-1]))


@dataclass(frozen=True)
class Skew(_Square):
    """Skew-symmetric matrices: n (n − 1) / 2 coordinates."""

    def dimension(self, shape: tuple[int, ...]) -> int:
        return self._stacked(shape, lambda s: s[0] * (s[0] - 1) // 2)

    def project(self, x: Any, u: Any) -> Any:
        return skew(u)

    def projection(self, x: Any) -> Operator:
        return (Identity(_type(x)) - _turn(x)) * 0.5

    def basis(self, x: Any) -> Operator:
        return _placed(self, x, *skew_places(x.shape[-1]))


@dataclass(frozen=True)
class Diagonal(_Square):
    """Diagonal matrices: n coordinates."""

    def dimension(self, shape: tuple[int, ...]) -> int:
        return self._stacked(shape, lambda s: s[0])

    def project(self, x: Any, u: Any) -> Any:
        return u * np.eye(x.shape[-1], dtype=x.dtype)

    def projection(self, x: Any) -> Operator:
        return DiagonalOperator(
            np.eye(x.shape[-1], dtype=x.dtype) + np.zeros(x.shape, x.dtype), _type(x)
        )

    def basis(self, x: Any) -> Operator:
        only_one(x, 2, self)
        return ScatterAdd(_type(x), (np.arange(x.shape[0]), np.arange(x.shape[0])))


def _type(x: Any) -> Type:
    return Type(x.shape, x.dtype)


def _turn(x: Any) -> Operator:
    k = len(x.shape)
    return Transpose(_type(x), (*range(k - 2), k - 1, k - 2))


def _placed(manifold: Manifold, x: Any, places: Any, weights: Any) -> Operator:
    only_one(x, 2, manifold)
    source = Type((manifold.dimension(x.shape),), x.dtype)
    if not source.shape[0]:
        return Zero(source, _type(x))
    return DiagonalOperator(weights.astype(x.dtype), _type(x)) @ Gather(source, (places,))
