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
    Identity,
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
from .eigen import both, open_gaps
from .linalg import batch_one, real_dtype
from .matrix_maps import around, diagonal, left, matrix_type, right, rows, turn

# ---- A = U diag(s) Vᴴ, k = min(m, n) columns:  P = Uᴴ dA V,  ds = Re diag P,  with  gaps_ij = s_j² − s_i²
#
#     dU = U ((P s_j + s_i Pᴴ) / gaps) + (1 − U Uᴴ) dA V / s_j
#     dV = V ((s_i P + Pᴴ s_j) / gaps) + (1 − V Vᴴ) dAᴴ U / s_j
#
# and of complex matrices  i Im pii / 2 s_i  to U and from V, which turn against each other.


def _run_svd(a: Any) -> Any:
    U, s, Vh = np.linalg.svd(a, full_matrices=False)
    return np.concatenate([U, s[..., None, :].astype(U.dtype), adjoint(Vh)], axis=-2)


def _d_svd(y: Any, a: Any) -> Operator:
    t, out = type_of(a), type_of(y)
    m, n = t.shape[-2:]
    k = min(m, n)
    U, s, V = y[..., :m, :], np.real(y[..., m, :]), y[..., m + 1 :, :]
    inner = matrix_type(t, k, k)
    columns = Diagonal(np.broadcast_to(s[..., None, :], inner.shape), inner)
    lines = Diagonal(np.broadcast_to(s[..., :, None], inner.shape), inner)
    squares = both(s, s, np.subtract) * both(s, s, np.add)
    gaps, turned = OverGaps(open_gaps(squares, s * s, k), inner), turn(inner)
    p = around(adjoint(U), V, t)
    of_U: list[Operator] = [Product([gaps, OperatorSum([columns, Product([lines, turned])])])]
    of_V: list[Operator] = [Product([gaps, OperatorSum([lines, Product([columns, turned])])])]
    if t.dtype.kind == "c":
        apart = OperatorSum([Scale(0.25, inner), Product([Scale(-0.25, inner), Conjugate(inner)])])
        phase = Product([_over(s, inner), apart, Mask(np.eye(k, dtype=bool), inner)])
        of_U, of_V = [*of_U, phase], [*of_V, Product([Scale(-1.0, inner), phase])]
    dU: list[Operator] = [Product([left(U, inner), OperatorSum(of_U), p])]
    dV: list[Operator] = [Product([left(V, inner), OperatorSum(of_V), p])]
    if m > k:
        dU.append(_outside(U, V, s, t))
    if n > k:
        dV.append(Product([_outside(V, U, s, matrix_type(t, n, m)), turn(t)]))
    ds = diagonal(inner)
    if t.dtype.kind == "c":
        real = RealPart(ds.out_type)
        ds = Product([real.T, real, ds])
    parts = [
        rows(OperatorSum(dU), out, 0, m),
        rows(Product([ds, p]), out, m, 1),
        rows(OperatorSum(dV), out, m + 1, n),
    ]
    return OperatorSum(parts)


def _over(s: Any, t: Type) -> Operator:
    """X ↦ X_ij / s_j, for s_j that are 0 in vain"""
    noise = (
        8 * max(t.shape[-2:]) * np.finfo(s.dtype).eps * np.max(s, axis=-1, keepdims=True, initial=0)
    )
    kept = np.where(s <= noise, 0, s)
    return OverGaps(np.broadcast_to(kept[..., None, :], t.shape), t)


def _outside(U: Any, V: Any, s: Any, t: Type) -> Operator:
    """dA ↦ (1 − U Uᴴ) dA V / s_j"""
    moved = right(V, t)
    image = moved.out_type
    rest = OperatorSum(
        [
            Identity(image),
            Product(
                [left(-U, matrix_type(t, *s.shape[-1:], *s.shape[-1:])), left(adjoint(U), image)]
            ),
        ]
    )
    return Product([_over(s, image), rest, moved])


def _svd_type(a: Type) -> Type:
    m, n = a.shape[-2:]
    return matrix_type(a, m + 1 + n, min(m, n))


svd = primitive(
    "svd", _run_svd, blocks=(lambda y, a: _d_svd(y, a),), type=_svd_type, batch=batch_one
)


def _d_svdvals(a: Any) -> Operator:
    t = type_of(a)
    m, n = t.shape[-2:]
    k = min(m, n)
    y = P.svd(a)
    p = around(adjoint(y[..., :m, :]), y[..., m + 1 :, :], t)
    inner = matrix_type(t, k, k)
    real = [RealPart(matrix_type(t, 1, k))] if t.dtype.kind == "c" else []
    row = Type((*t.shape[:-2], 1, k), real_dtype(t.dtype))
    return Product([Reshape(row, (*t.shape[:-2], k)), *real, diagonal(inner), p])


svdvals = primitive(
    "svdvals",
    lambda a: np.linalg.svd(a, compute_uv=False),
    blocks=(lambda a: _d_svdvals(a),),
    type=lambda a: Type((*a.shape[:-2], min(a.shape[-2:])), real_dtype(a.dtype)),
    batch=batch_one,
)


# ---- Y = A⁺, of the same rank around A:  dY = −Y dA Y + Y Yᴴ dAᴴ (1 − A Y) + (1 − Y A) dAᴴ Yᴴ Y


def _d_pinv(y: Any, a: Any) -> Operator:
    t = type_of(a)
    m, n = t.shape[-2:]
    turned, other = turn(t), matrix_type(t, n, m)
    past_rows, past_columns = (
        np.eye(m, dtype=t.dtype) - np.matmul(a, y),
        np.eye(n, dtype=t.dtype) - np.matmul(y, a),
    )
    return OperatorSum(
        [
            around(-y, y, t),
            Product([around(np.matmul(y, adjoint(y)), past_rows, other), turned]),
            Product([around(past_columns, np.matmul(adjoint(y), y), other), turned]),
        ]
    )


pinv = primitive(
    "pinv",
    lambda a, *, rcond: (
        np.linalg.pinv(a, rcond) if a.size else np.zeros(np.swapaxes(a, -1, -2).shape, a.dtype)
    ),
    blocks=(lambda y, a, *, rcond: _d_pinv(y, a),),
    type=lambda a, *, rcond: matrix_type(a, a.shape[-1], a.shape[-2]),
    batch=batch_one,
)
