"""The operators that a manifold puts into D: onto the tangents, and from coordinates of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir import Type
from ..operators import Operator

if TYPE_CHECKING:
    from .base import Manifold


class TangentProjection(Operator):
    """u ↦ the tangent at x nearest to u; its own adjoint."""

    __slots__ = ("manifold", "x")

    def __init__(self, manifold: Manifold, x: Any):
        self.manifold, self.x = manifold, x

    def apply(self, t: Any) -> Any:
        return self.manifold.project(self.x, t)

    @property
    def T(self) -> Operator:
        return self

    @property
    def in_type(self) -> Type:
        return Type(self.x.shape, self.x.dtype)

    out_type = in_type

    def __repr__(self) -> str:
        return f"TangentProjection({self.manifold})"


class TangentMap(Operator):
    """Tangent ↦ how the array that holds x changes, where tangents are written otherwise than points."""

    __slots__ = ("is_adjoint", "manifold", "x")

    def __init__(self, manifold: Any, x: Any, is_adjoint: bool = False):
        self.manifold, self.x, self.is_adjoint = manifold, x, is_adjoint

    def apply(self, t: Any) -> Any:
        if self.is_adjoint:
            return self.manifold.gradient(self.x, t)
        return self.manifold.displacement(self.x, t)

    @property
    def T(self) -> Operator:
        return TangentMap(self.manifold, self.x, not self.is_adjoint)

    @property
    def in_type(self) -> Type:
        return Type(self.x.shape, self.x.dtype)

    out_type = in_type

    def __repr__(self) -> str:
        return f"TangentMap({self.manifold}){'.T' if self.is_adjoint else ''}"


class TangentBasis(Operator):
    """Coordinates ↦ tangent at x, by a basis that is orthonormal in the metric."""

    __slots__ = ("manifold", "x")

    def __init__(self, manifold: Manifold, x: Any):
        self.manifold, self.x = manifold, x

    def apply(self, t: Any) -> Any:
        return self.manifold.embed(self.x, t)

    @property
    def T(self) -> Operator:
        return _BasisAdjoint(self)

    @property
    def in_type(self) -> Type:
        return Type((self.manifold.dimension(self.x.shape),), self.x.real.dtype)

    @property
    def out_type(self) -> Type:
        return Type(self.x.shape, self.x.dtype)

    def __repr__(self) -> str:
        return f"TangentBasis({self.manifold})"


class _BasisAdjoint(Operator):
    __slots__ = ("basis",)

    def __init__(self, basis: TangentBasis):
        self.basis = basis

    def apply(self, t: Any) -> Any:
        return self.basis.manifold.embed_adjoint(self.basis.x, t)

    @property
    def T(self) -> Operator:
        return self.basis

    @property
    def in_type(self) -> Type:
        return self.basis.out_type

    @property
    def out_type(self) -> Type:
        return self.basis.in_type

    def __repr__(self) -> str:
        return f"{self.basis!r}.T"
