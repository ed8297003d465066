"""Manifold: what all have in common, written for the whole space; others override what differs.

Retractions agree with geodesics to first order (Absil, Mahony and Sepulchre, 2008). `project` is the orthogonal
projection of Σ u v; the metric may be another one, and then `gradient`, `inner` and `connection` say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..api import grad, jvp
from ..errors import ShapeError, UnsupportedError
from ..operators import Operator
from .operators import TangentBasis, TangentProjection


@dataclass(frozen=True)
class Manifold:
    """Abstract but for its methods, which are those of the whole space."""

    axes = 0  # of one point; 0 where it is the whole array

    # ---- points

    def nearest(self, x: Any) -> Any:
        """A point near to x, which need not be one."""
        return x

    def random_point(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        """A point that the generator draws; its arrays have this shape."""
        return self.nearest(rng.normal(size=shape))

    def check(self, x: Any) -> None:
        """An error, if x is not a point, up to rounding."""
        if x.dtype.kind == "c":
            raise ShapeError(
                f"{self} is of real arrays, got one of {x.dtype}; Complex() is of complex ones"
            )
        check_finite(x, self)
        check_axes(x.shape, self)
        axes = tuple(range(-self.axes, 0)) if self.axes else None
        with np.errstate(all="ignore"):
            off = np.max(np.abs(np.asarray(self.nearest(x)) - x), axis=axes, initial=0)
        size = np.max(np.abs(x), axis=axes, initial=0)
        if not np.all(off <= np.sqrt(np.finfo(x.dtype).eps) * size):
            raise ShapeError(
                f"this array is no point of {self}: the nearest is {np.max(off):.1e} away; "
                "declare manifold.nearest(x) instead"
            )

    # ---- tangents

    def dimension(self, shape: tuple[int, ...]) -> int:
        """Of the manifold that arrays of this shape lie on."""
        return self._stacked(shape, lambda s: prod(s))

    def project(self, x: Any, u: Any) -> Any:
        """The tangent at x nearest to u."""
        return u

    def made_tangent(self, x: Any, u: Any) -> Any:
        """A direction that an optimiser made, as a tangent to move along: nearest in the metric."""
        return self.project(x, u)

    def projection(self, x: Any) -> Operator:
        """`project` as an operator."""
        return TangentProjection(self, x)

    def displacement(self, x: Any, u: Any) -> Any:
        """How the array that holds x changes along a tangent."""
        return u

    def random_tangent(self, rng: np.random.Generator, x: Any) -> Any:
        """A direction at x that the generator draws."""
        return self.project(x, rng.normal(size=x.shape).astype(x.dtype))

    def embed(self, x: Any, t: Any) -> Any:
        """The tangent with coordinates t (a vector) in a basis that is orthonormal in the metric."""
        raise UnsupportedError(f"{self} has no coordinates of tangents; leave out coordinates=True")

    def embed_adjoint(self, x: Any, u: Any) -> Any:
        """The adjoint of `embed` under Σ u v."""
        raise UnsupportedError(f"{self} has no coordinates of tangents; leave out coordinates=True")

    def coordinates(self, x: Any, u: Any) -> Any:
        """The coordinates of a tangent: the inverse of `embed`."""
        return self.embed_adjoint(x, u)

    def basis(self, x: Any) -> Operator:
        """`embed` as an operator."""
        return TangentBasis(self, x)

    # ---- metric

    def inner(self, x: Any, u: Any, v: Any) -> Any:
        """⟨u, v⟩ of tangents at x, one number for each point, with axes of length 1 for those of a point."""
        axes = tuple(range(-self.axes, 0)) if self.axes else None
        return np.sum(np.real(np.conjugate(u) * v), axis=axes, keepdims=True)

    def norm(self, x: Any, u: Any) -> Any:
        """The length of a tangent in the metric at x."""
        return np.sqrt(self.inner(x, u, u))

    def gradient(self, x: Any, g: Any) -> Any:
        """The tangent of steepest ascent, from the derivatives with respect to all entries."""
        return self.project(x, g)

    def raised(self, x: Any, g: Any) -> Any:
        """The same from the adjoint of a tangent, which a solve through `projection` ends with."""
        return self.gradient(x, g)

    def lowered(self, x: Any, u: Any) -> Any:
        """The adjoint that a tangent stands for in the metric: `raised` leads back."""
        return self.project(x, grad(lambda v: np.sum(self.inner(x, u, v)))(u))

    @property
    def is_embedded(self) -> bool:
        """Whether the metric is that of the space around."""
        return type(self).inner is Manifold.inner

    def hessian(self, x: Any, g: Any, h: Any, u: Any) -> Any:
        """The covariant derivative of the gradient along u, from derivatives g with respect to all entries,
        and their change h along u.

        The gradient as a field over x is differentiated as any other function; its tangent part is the
        derivative on the manifold, where the metric is that of the space around.
        """
        moved = jvp(self.gradient, (x, g), (u, h))[1]
        return self.project(x, moved) + self.connection(x, u, self.gradient(x, g))

    def connection(self, x: Any, u: Any, v: Any) -> Any:
        """Γ(u, v): by what the covariant derivative differs from the projected one."""
        return 0.0

    # ---- moving

    def retract(self, x: Any, u: Any) -> Any:
        """The point that is reached from x along the tangent u."""
        return x + u

    def transport(self, x: Any, y: Any, u: Any) -> Any:
        """A tangent at x as one at y."""
        return self.project(y, u)

    def velocity(self, x: Any, t: Any, d: Any) -> tuple[Any, Any]:
        """The point that is reached from x along t d, and the tangent there by which it moves with t."""
        return jvp(lambda t: self.retract(x, t * d), (t,), (np.ones_like(t),))

    def toward(self, x: Any, y: Any) -> Any:
        """A tangent at x that leads to y, to first order."""
        return self.project(x, y - x)

    def exp(self, x: Any, u: Any) -> Any:
        """Along the geodesic from x with velocity u, at time 1."""
        raise UnsupportedError(f"{self} has no geodesics in closed form here; use retract")

    def log(self, x: Any, y: Any) -> Any:
        """The tangent at x with exp(x, u) = y."""
        raise UnsupportedError(f"{self} has no logarithm in closed form here")

    def distance(self, x: Any, y: Any) -> Any:
        """Along the geodesic, of all points together. It has no derivative where it is 0: take
        `squared_distance`, not a square of this one, where x may come to y."""
        return np.sqrt(self.squared_distance(x, y))

    def squared_distance(self, x: Any, y: Any) -> Any:
        """The square of `distance`, which has derivatives where x = y, too."""
        u = self.log(x, y)
        return np.sum(self.inner(x, u, u))

    def _stacked(self, shape: tuple[int, ...], of_one: Any) -> int:
        check_axes(shape, self)
        cut = len(shape) - self.axes if self.axes else 0
        return prod(shape[:cut]) * of_one(shape[cut:])


def transposed(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def symmetric(x: Any) -> Any:
    return 0.5 * (x + transposed(x))


def skew(x: Any) -> Any:
    return 0.5 * (x - transposed(x))


def check_axes(shape: tuple[int, ...], manifold: Manifold) -> None:
    """Leading axes are of points beside each other; the others must be there."""
    if len(shape) < manifold.axes:
        axes = "1 axis" if manifold.axes == 1 else f"{manifold.axes} axes"
        raise ShapeError(f"a point of {manifold} has {axes}, got {shape}")


def check_square(shape: tuple[int, ...], manifold: Manifold) -> None:
    """Square matrices are points."""
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError(f"{manifold} has square matrices, got {shape}")


def check_finite(x: Any, manifold: Manifold) -> None:
    """NaN and infinity are on no manifold."""
    if not np.all(np.isfinite(x)):
        raise ShapeError(f"this array is no point of {manifold}: some entries are NaN or infinite")


def only_one(x: Any, axes: int, manifold: Any) -> None:
    """Coordinates are of one point."""
    if x.ndim != axes:
        raise ShapeError(f"coordinates on {manifold} are for one point, got {x.shape}")


# Coordinates of symmetric and skew matrices: the upper triangle, off the diagonal times √2.


def symmetric_of(t: Any, n: int) -> Any:
    places, weights = symmetric_places(n)
    return t[places] * weights.astype(t.dtype)


def symmetric_places(n: int) -> tuple[Any, Any]:
    """Which coordinate stands at [i, j], and its weight there."""
    i, j = np.triu_indices(n)
    places = np.zeros((n, n), np.intp)
    places[i, j] = places[j, i] = np.arange(len(i))
    return places, np.where(np.eye(n, dtype=bool), 1.0, np.sqrt(0.5))


def from_symmetric(u: Any) -> Any:
    i, j = np.triu_indices(u.shape[-1])
    weights = np.where(i == j, 0.5, np.sqrt(0.5)).astype(u.dtype)
    return (u[i, j] + u[j, i]) * weights


def skew_places(n: int) -> tuple[Any, Any]:
    i, j = np.triu_indices(n, 1)
    places = np.zeros((n, n), np.intp)
    places[i, j] = places[j, i] = np.arange(len(i))
    above = np.triu(np.ones((n, n)), 1)
    return places, np.sqrt(0.5) * (above - above.T)


def skew_of(t: Any, n: int) -> Any:
    if n < 2:
        return np.zeros((n, n), t.dtype)
    places, weights = skew_places(n)
    return t[places] * weights.astype(t.dtype)


def from_skew(u: Any) -> Any:
    i, j = np.triu_indices(u.shape[-1], 1)
    return (u[i, j] - u[j, i]) * np.asarray(np.sqrt(0.5), u.dtype)
