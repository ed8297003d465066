"""QR and LU factors, and the exponential of a matrix.

`qr` gives Q and below it R, (…, m + n, n), for m ≥ n, and `complement` the columns missing in Q; `lu` gives
L (its diagonal is 1) and U in one matrix, and exchanges no rows: `pivots` tells which to exchange before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import NotDifferentiableError
from ..ir import Type, type_of
from ..operators import (
    Conjugate,
    Frechet,
    Identity,
    Mask,
    Operator,
    OperatorSum,
    Product,
    Scale,
    TriangularSolve,
)
from ..operators.solve import adjoint
from ..primitive import primitive
from . import adjoints, lapack
from .exponential import frechet
from .linalg import batch_one, of_square, square
from .matrix_maps import by_upper, left, matrix_type, right, rows, turn

# ---- A = Q R, m ≥ n:  B = dA R⁻¹,  D = upper(Qᴴ B),  dQ = B − Q D,  dR = D R
#
# where upper(C) = C − W, W its lower triangle made anti-Hermitian: the diagonal of R stays real.


def _run_qr(a: Any) -> Any:
    if lapack.is_single(a) and len(a) >= a.shape[1]:
        return _qr_of_one(a)
    q, r = np.linalg.qr(a)
    return np.concatenate([q, r], axis=-2)


def _qr_of_one(a: Any) -> Any:
    """By the routines that np.linalg.qr calls, without the copies that it takes of every result."""
    m, n = a.shape
    char = a.dtype.char
    factor = lapack.routine("geqrf", char)
    unpack = lapack.routine("ungqr" if char in "FD" else "orgqr", char)
    y = np.empty((m + n, n), a.dtype)
    work = lapack.BLOCK * n
    packed, scales, _, _ = factor(a, lwork=work)
    y[m:] = np.triu(packed[:n])
    y[:m] = unpack(packed, scales, lwork=work, overwrite_a=1)[0]
    return y


def _upper(t: Type) -> Operator:
    n = t.shape[-1]
    turned = Product([turn(t), Mask(np.tri(n, n, -1, bool), t)])
    terms: list[Operator] = [Mask(np.tri(n, n, 0, bool).T, t), turned]
    if t.dtype.kind == "c":  # the diagonal: its real part
        imaginary = OperatorSum([Scale(-0.5, t), Product([Scale(0.5, t), Conjugate(t)])])
        terms.append(Product([imaginary, Mask(np.eye(n, dtype=bool), t)]))
    return OperatorSum(terms)


def _d_qr(y: Any, a: Any) -> Operator:
    t, out = type_of(a), type_of(y)
    m, n = t.shape[-2:]
    Q, R = y[..., :m, :], y[..., m:, :]
    inner = matrix_type(t, n, n)
    B = by_upper(R, t)
    D = Product([_upper(inner), left(adjoint(Q), t)])  # of B
    of_D = OperatorSum([rows(left(-Q, inner), out, 0, m), rows(right(R, inner), out, m, n)])
    return Product([OperatorSum([rows(Identity(t), out, 0, m), Product([of_D, D])]), B])


qr = primitive(
    "qr",
    _run_qr,
    blocks=(lambda y, a: _d_qr(y, a),),
    type=lambda a: matrix_type(a, a.shape[-2] + a.shape[-1], a.shape[-1]),
    batch=batch_one,
    adjoint=adjoints.qr,
)


# ---- columns that complete those of A, m ≥ n, to a basis: anybody's choice, which has no derivative


def _no_derivative(A: Any) -> Operator:
    raise NotDifferentiableError(
        "the columns that complete a basis have no derivative; ask `svd` for full_matrices=False, "
        "`qr` for mode='reduced'"
    )


complement = primitive(
    "complement",
    lambda a: np.linalg.qr(a, mode="complete")[0][..., a.shape[-1] :],
    blocks=(_no_derivative,),
    type=lambda a: matrix_type(a, a.shape[-2], a.shape[-2] - a.shape[-1]),
    batch=batch_one,
)


# ---- A = L U, no rows exchanged:  X = L⁻¹ dA U⁻¹,  dL = L below(X),  dU = upper(X) U


def _run_lu(a: Any) -> Any:
    """By columns; who wants pivots exchanges the rows before (`pivots`)."""
    square("lu", a)
    if lapack.is_single(a):
        # LAPACK exchanges no rows where the largest of each column is there already, as after `pivots`.
        y, exchanged, zero = lapack.routine("getrf", a.dtype.char)(a)
        if not zero and np.array_equal(exchanged, np.arange(len(a))):
            return np.ascontiguousarray(y)
    y = np.array(a)
    for j in range(a.shape[-1] - 1):
        pivot = y[..., j, j][..., None]
        if not np.all(pivot):
            raise np.linalg.LinAlgError("`lu` met a pivot of 0: the matrix is singular")
        y[..., j + 1 :, j] /= pivot
        y[..., j + 1 :, j + 1 :] -= y[..., j + 1 :, j, None] * y[..., j, None, j + 1 :]
    return y


def _d_lu(y: Any, a: Any) -> Operator:
    t, n = type_of(a), a.shape[-1]
    below = np.tri(n, n, -1, bool)
    L = np.where(below, y, np.eye(n, dtype=y.dtype))
    U = np.where(below, 0, y)
    X = Product([TriangularSolve(L, True, True, t), by_upper(U, t)])
    dL, dU = Product([left(L, t), Mask(below, t)]), Product([right(U, t), Mask(~below, t)])
    return Product([OperatorSum([dL, dU]), X])


lu = primitive(
    "lu",
    _run_lu,
    blocks=(lambda y, a: _d_lu(y, a),),
    type=of_square("lu", lambda s: s),
    batch=batch_one,
    adjoint=adjoints.lu,
)


def _run_pivots(a: Any) -> Any:
    """Where elimination with the largest pivot of each column takes the rows from, (…, m)."""
    order = np.empty(a.shape[:-1], np.int64)
    for place in np.ndindex(a.shape[:-2]):
        rows = list(range(a.shape[-2]))
        if a[place].size:
            getrf = lapack.routine("getrf", a.dtype.char)
            for i, j in enumerate(getrf(a[place])[1].tolist()):
                rows[i], rows[j] = rows[j], rows[i]
        order[place] = rows
    return order


pivots = primitive(
    "pivots",
    _run_pivots,
    type=lambda a: Type(a.shape[:-1], np.dtype(np.int64)),
    batch=batch_one,
)


# ---- exp A


def _run_expm(a: Any) -> Any:
    from scipy.linalg import expm

    square("expm", a)
    return expm(a) if a.size else np.array(a)


_LARGE = 48  # columns, from which on a step takes longer than its call


def _expm_adjoint(g: Any, saved: Any, params: Any, wanted: Any) -> Any:
    a = saved[1]
    return (frechet(adjoint(a), g),) if a.shape[-1] >= _LARGE else None


expm = primitive(
    "expm",
    _run_expm,
    blocks=(lambda a: Frechet(a),),
    type=of_square("expm", lambda s: s),
    batch=batch_one,
    adjoint=_expm_adjoint,
)
