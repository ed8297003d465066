"""Linear maps of stacks of matrices, of which the derivatives of decompositions are made."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..operators import (
    Conjugate,
    Contraction,
    Operator,
    Product,
    Reshape,
    Transpose,
    TriangularSolve,
    Unslice,
)
from .linalg import STACK, stacked


def left(M: Any, t: Type) -> Operator:
    """X ↦ M X"""
    return Contraction(stacked("XY,YZ->XZ", M), 1, (M, None), t)


def right(M: Any, t: Type) -> Operator:
    """X ↦ X M"""
    return Contraction(stacked("XY,YZ->XZ", M), 0, (None, M), t)


def around(M: Any, N: Any, t: Type) -> Operator:
    """X ↦ M X N, the cheaper product first."""
    w, z = M.shape[-2], N.shape[-1]
    x, y = t.shape[-2:]
    if w * y * (x + z) < x * z * (y + w):
        first = left(M, t)
        return Product([right(N, first.out_type), first])
    first = right(N, t)
    return Product([left(M, first.out_type), first])


def turn(t: Type) -> Operator:
    """X ↦ Xᴴ"""
    rank = len(t.shape)
    turned = Transpose(t, (*range(rank - 2), rank - 1, rank - 2))
    return Product([Conjugate(turned.out_type), turned]) if t.dtype.kind == "c" else turned


def diagonal(t: Type) -> Operator:
    """X ↦ its diagonal, as a row (…, 1, n)"""
    lead = STACK[: len(t.shape) - 2]
    taken = Contraction(f"{lead}XX->{lead}X", 0, (None,), t)
    return Product([Reshape(taken.out_type, (*t.shape[:-2], 1, t.shape[-1])), taken])


def dots(M: Any, t: Type) -> Operator:
    """X ↦ diag(Mᴴ X), as a row (…, 1, n)"""
    lead = STACK[: len(t.shape) - 2]
    nest = f"{lead}XY,{lead}XY->{lead}Y"
    taken = Contraction(nest, 1, (np.conjugate(M) if M.dtype.kind == "c" else M, None), t)
    return Product([Reshape(taken.out_type, (*t.shape[:-2], 1, t.shape[-1])), taken])


def rows(A: Operator, out: Type, first: int, count: int) -> Operator:
    """A, its image being these rows of `out`."""
    full = (None, None, None)
    spec = (*[full] * (len(out.shape) - 2), (first, first + count, 1), full)
    return Product([Unslice(out, spec), A])


def matrix_type(t: Type, *shape: int) -> Type:
    return Type((*t.shape[:-2], *shape), t.dtype)


def by_upper(R: Any, t: Type) -> Operator:
    """X ↦ X R⁻¹, by Rᵀ from the left."""
    swapped = (*range(len(t.shape) - 2), len(t.shape) - 1, len(t.shape) - 2)
    turned = Transpose(t, swapped)
    solve = TriangularSolve(np.swapaxes(R, -1, -2), True, False, turned.out_type)
    return Product([turned.T, solve, turned])
