"""Eigenvalues and eigenvectors of stacks of matrices.

A row has one output: `eigh` and `eig` give w as a row and V below it, (…, 1 + n, n). Eigenvectors move by
V̇ = V (P / gaps), so they have a derivative only where the gaps between eigenvalues are open, which they are not
within rounding. The values alone (eigvalsh, eigvals) need no gaps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import NotDifferentiableError
from ..ir import Type, type_of
from ..operators import (
    Cast,
    Contraction,
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
    Solve,
)
from ..operators.solve import adjoint
from ..primitive import P, primitive
from . import adjoints
from .elementwise import binary
from .linalg import STACK, batch_one, of_square, real_dtype, square, triangle
from .matrix_maps import diagonal, dots, left, right, rows, turn

# ---- t / gaps


CLOSED_GAP = (
    NotDifferentiableError,
    "the vectors of repeated eigenvalues or singular values (or of 0) have no derivative: "
    "any basis of their space would do. The values have one: np.linalg.eigvalsh, svd(compute_uv=False)",
)


def _run_over_gaps(t: Any, gaps: Any) -> Any:
    closed = np.equal(gaps, 0)
    if not np.any(closed):
        return np.divide(t, gaps)
    if np.any(closed & np.not_equal(t, 0)):
        error, message = CLOSED_GAP
        raise error(message)
    return np.where(closed, 0, np.divide(t, np.where(closed, 1, gaps)))[()]


over_gaps = binary(
    "over_gaps",
    lambda b: OverGaps(b),
    lambda y, b: Diagonal(-P.over_gaps(y, b)),
    _run_over_gaps,
)


def both(a: Any, b: Any, join: Any) -> Any:
    """join(b_j, a_i) as a matrix."""
    return join(b[..., None, :], a[..., :, None])


def open_gaps(gaps: Any, scale: Any, n: int) -> Any:
    """Gaps as they are, 0 if they are no more than rounding; on the diagonal nothing is moved."""
    size = np.max(np.abs(scale), axis=-1, initial=0)[..., None, None]
    noise = 8 * n * np.finfo(real_dtype(gaps.dtype)).eps * size
    gaps = np.where(np.abs(gaps) <= noise, 0, gaps)
    return np.where(np.eye(n, dtype=bool), np.inf, gaps)


def _symmetric(t: Type, lower: bool) -> list[Operator]:
    """The Hermitian matrix of which one triangle is read."""
    inside = triangle(lower, t)
    weights = inside - 0.5 * np.eye(t.shape[-1])
    halved = Diagonal(weights.astype(real_dtype(t.dtype)), t)
    return [OperatorSum([Identity(t), turn(t)]), halved, Mask(inside, t)]


# ---- A = V diag(w) Vᴴ:  P = Vᴴ dA V,  dw = diag P,  dV = V (P / gaps),  gaps_ij = w_j − w_i


def _run_eigh(a: Any, *, lower: bool) -> Any:
    square("eigh", a)
    w, v = np.linalg.eigh(a, "L" if lower else "U")
    return np.concatenate([w[..., None, :].astype(v.dtype), v], axis=-2)


def _d_eigh(y: Any, a: Any, lower: bool) -> Operator:
    t, out = type_of(a), type_of(y)
    n = t.shape[-1]
    w, V = np.real(y[..., 0, :]), y[..., 1:, :]
    gaps = OverGaps(open_gaps(both(w, w, np.subtract), w, n), t)
    vectors = Product([left(V, t), gaps, left(adjoint(V), t)])
    parts = [rows(dots(V, t), out, 0, 1), rows(vectors, out, 1, n)]
    return Product([OperatorSum(parts), right(V, t), *_symmetric(t, lower)])


eigh = primitive(
    "eigh",
    _run_eigh,
    blocks=(lambda y, a, *, lower: _d_eigh(y, a, lower),),
    type=lambda a, *, lower: of_square("eigh", lambda s: (*s[:-2], s[-1] + 1, s[-1]))(a),
    batch=batch_one,
    adjoint=adjoints.eigh,
)


def _d_eigvalsh(a: Any, lower: bool) -> Operator:
    t, n = type_of(a), a.shape[-1]
    V = P.eigh(a, lower=lower)[..., 1:, :]
    taken = Product([dots(V, t), right(V, t), *_symmetric(t, lower)])
    real = [RealPart(taken.out_type)] if t.dtype.kind == "c" else []
    row = Type((*t.shape[:-2], 1, n), real_dtype(t.dtype))
    return Product([Reshape(row, (*t.shape[:-2], n)), *real, taken])


def _run_eigvalsh(a: Any, *, lower: bool) -> Any:
    square("eigvalsh", a)
    return np.linalg.eigvalsh(a, "L" if lower else "U")


def _keep_eigvalsh(a: Any, *, lower: bool) -> Any:
    square("eigvalsh", a)
    return tuple(np.linalg.eigh(a, "L" if lower else "U"))


eigvalsh = primitive(
    "eigvalsh",
    _run_eigvalsh,
    blocks=(lambda a, *, lower: _d_eigvalsh(a, lower),),
    type=lambda a, *, lower: of_square("eigvalsh", lambda s: s[:-1], real_dtype)(a),
    batch=batch_one,
    adjoint=adjoints.eigvalsh,
    keeping=_keep_eigvalsh,
)


# ---- A V = V diag(w):  P = V⁻¹ dA V.  The columns keep their norm, and their largest entry its phase (LAPACK).


def _complex(dtype: Any) -> Any:
    return np.result_type(dtype, np.complex64)


def _run_eig(a: Any) -> Any:
    square("eig", a)
    w, v = np.linalg.eig(a)
    return np.concatenate([w[..., None, :], v], axis=-2).astype(_complex(a.dtype))


def _in_eigenvectors(V: Any, a: Any) -> list[Operator]:
    """dA ↦ V⁻¹ dA V"""
    t = type_of(a)
    wide = Type(t.shape, V.dtype)
    cast = [] if t.dtype == wide.dtype else [Cast(t, wide.dtype)]
    return [Solve(V, wide), right(V, wide), *cast]


def _d_eig(y: Any, a: Any) -> Operator:
    t, out = type_of(y[..., 1:, :]), type_of(y)
    n = t.shape[-1]
    w, V = y[..., 0, :], y[..., 1:, :]
    gaps = OverGaps(open_gaps(both(w, w, np.subtract), w, n), t)
    lead = STACK[: len(t.shape) - 2]
    dot, times = f"{lead}XK,{lead}XK->{lead}K", f"{lead}K,{lead}XK->{lead}XK"
    size = np.abs(V)
    top = np.max(size, axis=-2, keepdims=True, initial=0)
    largest = np.equal(size, top)
    largest = largest & np.equal(np.cumsum(largest, -2), 1)  # the first of several
    phase = np.where(largest, np.conjugate(V), 0) / top**2
    column = Type((*t.shape[:-2], n), t.dtype)
    real = RealPart(column)
    imaginary = [Scale(1j, column), real.T, real, Scale(-1j, column)]
    spread = Contraction(times, 0, (None, V), column)
    in_norm = Product([spread, real.T, real, Contraction(dot, 1, (np.conjugate(V), None), t)])
    in_phase = Product([spread, *imaginary, Contraction(dot, 1, (phase, None), t)])
    fixed = OperatorSum([Identity(t), Product([Scale(-1.0, t), in_norm])])
    turned = OperatorSum([Identity(t), Product([Scale(-1.0, t), in_phase])])
    vectors = Product([turned, fixed, left(V, t), gaps])
    parts = [rows(diagonal(t), out, 0, 1), rows(vectors, out, 1, n)]
    return Product([OperatorSum(parts), *_in_eigenvectors(V, a)])


eig = primitive(
    "eig",
    _run_eig,
    blocks=(lambda y, a: _d_eig(y, a),),
    type=of_square("eig", lambda s: (*s[:-2], s[-1] + 1, s[-1]), _complex),
    batch=batch_one,
)


def _d_eigvals(a: Any) -> Operator:
    V = P.eig(a)[..., 1:, :]
    t, n = type_of(V), a.shape[-1]
    row = Type((*t.shape[:-2], 1, n), t.dtype)
    return Product([Reshape(row, (*t.shape[:-2], n)), diagonal(t), *_in_eigenvectors(V, a)])


def _run_eigvals(a: Any) -> Any:
    square("eigvals", a)
    return np.linalg.eigvals(a).astype(_complex(a.dtype))


def _keep_eigvals(a: Any) -> Any:
    square("eigvals", a)
    w, V = np.linalg.eig(a)
    return w.astype(_complex(a.dtype)), V


eigvals = primitive(
    "eigvals",
    _run_eigvals,
    blocks=(lambda a: _d_eigvals(a),),
    type=of_square("eigvals", lambda s: s[:-1], _complex),
    batch=batch_one,
    adjoint=adjoints.eigvals,
    keeping=_keep_eigvals,
)
