"""Singular values and vectors, pseudo-inverses.

`svd` gives U, s as a row, and V below each other, (…, m + 1 + n, k) with k = min(m, n). As for eigenvectors,
gaps must be open; and where the matrix is not square the values must not be 0. `svdvals` asks for neither.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type, type_of
from ..operators import (
    Conjugate,
    Diagonal,
    Mask,
    Operator,
    OperatorSum,
    OverGaps,
    Product,
    RealPart,
    Reshape,
    Scale,
)
from ..operators.solve import adjoint
from ..primitive import P, primitive
from . import adjoints
from .eigen import both, open_gaps
from .linalg import batch_one, real_dtype
from .matrix_maps import around, dots, left, matrix_type, right, rows, turn

# ---- A = U diag(s) Vᴴ, k = min(m, n) columns:  P = Uᴴ dA V,  ds = Re diag P,  with  gaps_ij = s_j² − s_i²
#
#     dU = U ((P s_j + s_i Pᴴ) / gaps) + (1 − U Uᴴ) dA V / s_j        the latter for m > k
#     dV = V ((s_i P + Pᴴ s_j) / gaps)
#
# where m ≥ n; else Aᴴ is such a matrix, with U and V exchanged. And of complex matrices
# i Im pii / 2 s_i  to U and from V, which turn against each other.


def _run_svd(a: Any) -> Any:
    U, s, Vh = np.linalg.svd(a, full_matrices=False)
    return np.concatenate([U, s[..., None, :].astype(U.dtype), adjoint(Vh)], axis=-2)


def _d_svd(y: Any, a: Any) -> Operator:
    t, out = type_of(a), type_of(y)
    m, n = t.shape[-2:]
    U, s, V = y[..., :m, :], np.real(y[..., m, :]), y[..., m + 1 :, :]
    if m >= n:
        return _of_tall(U, s, V, t, out, (0, m, m + 1))
    turned = turn(t)  # Aᴴ = V diag(s) Uᴴ
    return Product([_of_tall(V, s, U, turned.out_type, out, (m + 1, m, 0)), turned])


def _of_tall(U: Any, s: Any, V: Any, t: Type, out: Type, at: tuple[int, int, int]) -> Operator:
    """Of m ≥ n = k, from Z = dA V; `at` tells where dU, ds and dV begin in `out`."""
    m, k = U.shape[-2:]
    inner = matrix_type(t, k, k)
    columns, lines = Diagonal(s[..., None, :], inner), Diagonal(s[..., :, None], inner)
    squares = both(s, s, np.subtract) * both(s, s, np.add)
    gaps, turned = OverGaps(open_gaps(squares, s * s, k), inner), turn(inner)
    of_U: list[Operator] = [Product([gaps, OperatorSum([columns, Product([lines, turned])])])]
    of_V: list[Operator] = [Product([gaps, OperatorSum([lines, Product([columns, turned])])])]
    minus = Scale(-1.0, inner)
    if t.dtype.kind == "c":
        apart = OperatorSum([Scale(0.25, inner), Product([Scale(-0.25, inner), Conjugate(inner)])])
        phase = Product([over_values(s, inner), apart, Mask(np.eye(k, dtype=bool), inner)])
        of_U, of_V = [*of_U, phase], [*of_V, Product([minus, phase])]
    if m > k:
        of_U.append(Product([minus, over_values(s, inner)]))
    dU = Product([left(U, inner), OperatorSum(of_U)])
    dV = Product([left(V, inner), OperatorSum(of_V)])
    vectors = OperatorSum([rows(dU, out, at[0], m), rows(dV, out, at[2], k)])
    Z = right(V, t)
    parts = [Product([vectors, left(adjoint(U), t)]), rows(_real_dots(U, t), out, at[1], 1)]
    if m > k:
        parts.append(rows(over_values(s, t), out, at[0], m))
    return Product([OperatorSum(parts), Z])


def _real_dots(U: Any, t: Type) -> Operator:
    taken = dots(U, t)
    if t.dtype.kind != "c":
        return taken
    real = RealPart(taken.out_type)
    return Product([real.T, real, taken])


def over_values(s: Any, t: Type) -> Operator:
    """X ↦ X_ij / s_j, for s_j that are 0 in vain"""
    noise = (
        8 * max(t.shape[-2:]) * np.finfo(s.dtype).eps * np.max(s, axis=-1, keepdims=True, initial=0)
    )
    kept = np.where(s <= noise, 0, s)
    return OverGaps(np.broadcast_to(kept[..., None, :], t.shape), t)


def _svd_type(a: Type) -> Type:
    m, n = a.shape[-2:]
    return matrix_type(a, m + 1 + n, min(m, n))


svd = primitive(
    "svd",
    _run_svd,
    blocks=(lambda y, a: _d_svd(y, a),),
    type=_svd_type,
    batch=batch_one,
    adjoint=adjoints.svd,
)


def _d_svdvals(a: Any) -> Operator:
    t = type_of(a)
    m, n = t.shape[-2:]
    k = min(m, n)
    y = P.svd(a)
    moved = right(y[..., m + 1 :, :], t)
    real = [RealPart(matrix_type(t, 1, k))] if t.dtype.kind == "c" else []
    row = Type((*t.shape[:-2], 1, k), real_dtype(t.dtype))
    taken = dots(y[..., :m, :], moved.out_type)
    return Product([Reshape(row, (*t.shape[:-2], k)), *real, taken, moved])


svdvals = primitive(
    "svdvals",
    lambda a: np.linalg.svd(a, compute_uv=False),
    blocks=(lambda a: _d_svdvals(a),),
    type=lambda a: Type((*a.shape[:-2], min(a.shape[-2:])), real_dtype(a.dtype)),
    batch=batch_one,
    adjoint=adjoints.svdvals,
    keeping=adjoints.svdvals_keeping,
)


# ---- Y = A⁺, of the same rank around A:  dY = −Y dA Y + Y Yᴴ dAᴴ (1 − A Y) + (1 − Y A) dAᴴ Yᴴ Y
#
# Where `rcond` leaves out values s_j beside s_i that are kept, and they are no rounding errors, there is added,
# in P = Uᴴ dA V,  V Mᴴ Uᴴ  with  M = s_j² / (s_i² gap) P + s_j / (s_i gap) Pᴴ  and  gap = s_i² − s_j²,
# at (i, j) and (j, i).


def _left_out(a: Any, rcond: float) -> Operator:
    t = type_of(a)
    m, n = t.shape[-2:]
    y = P.svd(a)
    U, s, V = y[..., :m, :], np.real(y[..., m, :]), y[..., m + 1 :, :]
    inner = matrix_type(t, min(m, n), min(m, n))
    kept = np.greater(s, rcond * np.max(s, axis=-1, keepdims=True, initial=0))
    apart = np.logical_xor(kept[..., :, None], kept[..., None, :])
    large, small = both(s, s, np.maximum), both(s, s, np.minimum)
    large = np.where(apart, large, 1)
    small = np.where(apart, small, 0)
    gap = (large - small) * (large + small)
    of_p = Diagonal(small * small / (large * large * gap), inner)
    of_turned = Diagonal(small / (large * gap), inner)
    turned = turn(inner)
    mixed = OperatorSum([of_p, Product([of_turned, turned])])
    back = around(V, adjoint(U), inner)
    return Product([back, turned, mixed, around(adjoint(U), V, t)])


def _d_pinv(y: Any, a: Any, rcond: float) -> Operator:
    t = type_of(a)
    m, n = t.shape[-2:]
    turned, other = turn(t), matrix_type(t, n, m)
    past_rows, past_columns = (
        np.eye(m, dtype=t.dtype) - np.matmul(a, y),
        np.eye(n, dtype=t.dtype) - np.matmul(y, a),
    )
    terms: list[Operator] = [
        around(-y, y, t),
        Product([around(np.matmul(y, adjoint(y)), past_rows, other), turned]),
        Product([around(past_columns, np.matmul(adjoint(y), y), other), turned]),
    ]
    if rcond > 100 * max(m, n) * np.finfo(t.dtype).eps:
        terms.append(_left_out(a, rcond))
    return OperatorSum(terms)


pinv = primitive(
    "pinv",
    lambda a, *, rcond: (
        np.linalg.pinv(a, rcond) if a.size else np.zeros(np.swapaxes(a, -1, -2).shape, a.dtype)
    ),
    blocks=(lambda y, a, *, rcond: _d_pinv(y, a, rcond),),
    type=lambda a, *, rcond: matrix_type(a, a.shape[-1], a.shape[-2]),
    batch=batch_one,
    adjoint=adjoints.pinv,
)
