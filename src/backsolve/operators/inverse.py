"""Inverse: b ↦ A⁻¹ b, found by the structure of A; never formed."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from ..errors import ShapeError
from ..ir import Type
from .base import Operator
from .block import Block
from .contraction import Contraction
from .diagonal import Diagonal
from .identity import Identity
from .matrix import Matrix
from .scale import Scale
from .structure import facts_of_transpose
from .zero import Zero


class Inverse(Operator):
    """b ↦ A⁻¹ b, found by the structure of the operator A; never formed."""

    __slots__ = ("A",)

    def __init__(self, A: Operator):
        source, target = A.in_type, A.out_type
        if isinstance(source, Type) and isinstance(target, Type) and source.size != target.size:
            raise ShapeError(f"{A!r} is not square: {target.size} × {source.size}")
        self.A = A

    def apply(self, t: Any) -> Any:
        A = self.A
        if isinstance(A, Identity):
            return t
        if isinstance(A, Zero) or (isinstance(A, Scale) and not A.factor):
            raise np.linalg.LinAlgError("a block on the diagonal is zero: the system is singular")
        if isinstance(A, Scale):
            return np.divide(t, A.factor)
        if isinstance(A, Diagonal):
            return np.divide(t, A.d)
        if isinstance(A, Block):
            return A.solve(t)
        if isinstance(A, Matrix):
            return np.linalg.solve(A.A, t)
        if isinstance(A, Inverse):
            return A.A.apply(t)
        if "orthogonal" in A.structure:
            return A.T.apply(t)
        if _is_kronecker(A):  # t = B X Aᵀ
            left, _, right = A.operands
            return np.swapaxes(np.linalg.solve(right, np.linalg.solve(left, t).T), 0, 1)
        solution = np.linalg.solve(A.dense(), np.reshape(t, -1))
        return np.reshape(solution, A.in_type.shape)

    @property
    def T(self) -> Operator:
        return Inverse(self.A.T)

    @property
    def in_type(self) -> Any:
        return self.A.out_type

    @property
    def out_type(self) -> Any:
        return self.A.in_type

    @property
    def structure(self) -> frozenset[str]:
        return facts_of_transpose(self.A.structure) - {"sparse", "zero"}

    def __repr__(self) -> str:
        return f"Inverse({self.A!r})"


def is_solved_by_structure(A: Operator) -> bool:
    """Whether `Inverse(A)` needs no matrix formed and no iteration."""
    if isinstance(A, Block):
        diagonal = [A[k, k] for k in range(A.height)]
        triangular = A.height == A.width and A.order() is not None
        return triangular and all(is_solved_by_structure(a) for a in diagonal)
    if _is_kronecker(A):
        return True
    known = isinstance(A, Identity | Scale | Diagonal | Matrix | Inverse | Zero)  # zero: an error
    return known or "orthogonal" in A.structure


def _is_kronecker(A: Operator) -> TypeGuard[Contraction]:
    """Whether A is X ↦ B X Aᵀ with square matrices."""
    if not isinstance(A, Contraction) or (A.subscripts, A.hole) != ("ij,jk,lk->il", 1):
        return False
    return all(m.shape[0] == m.shape[1] for m in A.operands if m is not None)
