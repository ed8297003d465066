"""Factorisations and solves of stacks of square matrices, (…, n, n).

Triangular functions read one triangle, and so do their derivatives: `cholesky` reads the lower one (as
NumPy's does), and its gradient is zero above the diagonal. On a Hermitian variation this is the same as
any other choice.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..errors import MatrixError
from ..ir import Type, type_of
from ..operators import (
    Conjugate,
    Contraction,
    Diagonal,
    Identity,
    Mask,
    OperatorSum,
    Product,
    RealPart,
    Scale,
    Solve,
    Transpose,
    TriangularSolve,
    Zero,
)
from ..primitive import P, Primitive, primitive
from . import adjoints, lapack
from .batching import spread
from .lapack import LETTERS

STACK = "abcdefghijklmnopqrstuvwxyz"  # labels of the leading axes; the matrices have X, Y, Z


def stacked(subscripts: str, a: Any) -> str:
    """ "XY,YZ->XZ" with the leading axes of `a` (of which the last two are the matrix's)."""
    lead = STACK[: len(a.shape) - 2]
    inputs, output = subscripts.split("->")
    return ",".join(lead + x for x in inputs.split(",")) + f"->{lead}{output}"


def square(name: str, a: Any) -> None:
    if len(a.shape) < 2 or a.shape[-1] != a.shape[-2]:
        raise MatrixError(f"`{name}` needs square matrices (…, n, n), got shape {tuple(a.shape)}")


def of_square(name: str, shape: Any, dtype: Any = lambda d: d) -> Any:
    """The type rule of a row of one stack of square matrices."""

    def rule(a: Type) -> Type:
        square(name, a)
        return Type(shape(a.shape), dtype(a.dtype))

    return rule


def _of_system(name: str) -> Any:
    def rule(a: Type, b: Type, **params: Any) -> Type:
        _same_stack(name, a, b)
        return Type(b.shape, np.result_type(a.dtype, b.dtype))

    return rule


def _same_stack(name: str, a: Any, b: Any) -> None:
    square(name, a)
    if len(b.shape) != len(a.shape) or b.shape[:-1] != a.shape[:-1]:
        raise MatrixError(
            f"`{name}` needs a right-hand side (…, {a.shape[-1]}, k) for matrices of shape "
            f"{tuple(a.shape)}, got {tuple(b.shape)}"
        )


def batch_one(prim: Primitive, size: int, args: Any, batched: Any, params: Any) -> Any:
    return prim(*args, **params)


def _batch_two(prim: Primitive, size: int, args: Any, batched: Any, params: Any) -> Any:
    """A batch of right-hand sides for one matrix is a matter of more columns."""
    a, b = args
    if batched[0]:
        return prim(a, b if batched[1] else spread(b, size), **params)
    lead, n, k = b.shape[1:-2], b.shape[-2], b.shape[-1]
    rank = len(b.shape)
    columns = np.transpose(b, (*range(1, rank - 1), 0, rank - 1)).reshape((*lead, n, size * k))
    y = prim(a, columns, **params).reshape((*lead, n, size, k))
    return np.transpose(y, (rank - 2, *range(rank - 2), rank - 1))


# ---- triangular systems:  T x = b,  so  dx = T⁻¹ (db − dT x)


def triangle(lower: bool, a: Any, strict: bool = False) -> Any:
    """Where the triangle is."""
    n = a.shape[-1]
    inside = np.tri(n, n, -1 if strict else 0, bool)
    return inside if lower else inside.T


@cache
def _trsm(letter: str) -> Any:
    from scipy.linalg import blas

    return getattr(blas, f"{letter}trsm")


def _run_triangular(a: Any, b: Any, *, lower: bool, unit: bool) -> Any:
    _same_stack("triangular_solve", a, b)
    dtype = np.result_type(a, b)
    if not unit and not np.all(np.diagonal(a, axis1=-2, axis2=-1)):
        raise np.linalg.LinAlgError("singular matrix: a zero on the diagonal of a triangular one")
    trsm = _trsm(LETTERS[dtype.char])
    x = np.array(b, dtype, order="C")
    if not x.size:
        return x
    for place in np.ndindex(a.shape[:-2]):
        # BLAS counts columns first: it sees xᵀ and solves  xᵀ Tᵀ = bᵀ  in place.
        T, xT = a[place].astype(dtype, copy=False), x[place].T
        if T.flags.f_contiguous:
            trsm(1.0, T, xT, 1, lower, 1, unit, overwrite_b=1)
        else:
            trsm(1.0, T.T, xT, 1, not lower, 0, unit, overwrite_b=1)
    return x


def _d_matrix(y: Any, a: Any, lower: bool, unit: bool) -> Any:
    by_dT = Contraction(stacked("XY,YZ->XZ", y), 0, (None, -y), type_of(a))
    return Product([TriangularSolve(a, lower, unit, y), by_dT, Mask(triangle(lower, a, unit))])


triangular_solve = primitive(
    "triangular_solve",
    _run_triangular,
    blocks=(
        lambda y, a, *, lower, unit: _d_matrix(y, a, lower, unit),
        lambda a, B, *, lower, unit: TriangularSolve(a, lower, unit, B),
    ),
    type=_of_system("triangular_solve"),
    batch=_batch_two,
)


# ---- A = L Lᴴ:  dL = L Φ(L⁻¹ dA L⁻ᴴ),  Φ: the lower triangle with half of the diagonal


def _run_cholesky(a: Any) -> Any:
    square("cholesky", a)
    return np.linalg.cholesky(a)


def _phi(t: Any) -> Any:
    n = t.shape[-1]
    weights = np.tri(n, dtype=np.empty(0, t.dtype).real.dtype)
    np.fill_diagonal(weights, 0.5)
    return weights


def _d_cholesky(y: Any) -> Any:
    t = type_of(y)
    rank = len(t.shape)
    turn: list[Any] = [Transpose(t, (*range(rank - 2), rank - 1, rank - 2))]
    if t.dtype.kind == "c":
        turn = [Conjugate(t), *turn]
    half, L = Diagonal(_phi(t), t), TriangularSolve(y, True)
    # dA is Hermitian, its lower triangle is what is read: dA = H + Hᴴ, H being the weighted triangle.
    whole = OperatorSum([Identity(t), Product(turn)])
    left = Contraction(stacked("XY,YZ->XZ", y), 1, (y, None), t)
    return Product([left, half, L, *turn, L, whole, half, Mask(triangle(True, y), t)])


cholesky = primitive(
    "cholesky",
    _run_cholesky,
    blocks=(lambda y: _d_cholesky(y),),
    type=of_square("cholesky", lambda s: s),
    batch=batch_one,
    adjoint=adjoints.cholesky,
    code="np.linalg.cholesky({0})",
)


def _run_cholesky_adjoint(L: Any, bar: Any) -> Any:
    weights = _phi(L)
    turned = np.swapaxes(L, -1, -2)
    inner = P.triangular_solve(turned, weights * (turned @ np.tril(bar)), lower=False, unit=False)
    outer = P.triangular_solve(turned, np.swapaxes(inner, -1, -2), lower=False, unit=False)
    return weights * (outer + np.swapaxes(outer, -1, -2))


# Ā = Φ(X + Xᵀ), X = L⁻ᵀ (L⁻ᵀ Φ(Lᵀ L̄))ᵀ, which is how the row above is transposed. Not in the table, for
# derivatives are taken of that formula: compiled code has one step for all of it (rewrite/cholesky.py).
cholesky_adjoint = Primitive(
    "cholesky_adjoint",
    _run_cholesky_adjoint,
    type=lambda L, bar: L,
    batch=batch_one,
)


# ---- general matrices, by elimination with pivots


def _run_solve(a: Any, b: Any) -> Any:
    return _keep_solve(a, b)[0]


def _keep_solve(a: Any, b: Any) -> Any:
    _same_stack("solve", a, b)
    return adjoints.solve_keeping(a, b)


def _run_inv(a: Any) -> Any:
    square("inv", a)
    if not lapack.is_single(a):
        return np.linalg.inv(a)
    return lapack.inverse(lapack.factored(a), overwrite=True)


def _d_inv(y: Any) -> Any:
    """dY = −Y dA Y"""
    rank = len(y.shape)
    lead = STACK[: rank - 2]
    nest = f"{lead}WX,{lead}XY,{lead}YZ->{lead}WZ"
    return Contraction(nest, 1, (-y, None, y), type_of(y))


solve = primitive(
    "solve",
    _run_solve,
    blocks=(
        lambda y, a: Product(
            [Solve(a, y), Contraction(stacked("XY,YZ->XZ", y), 0, (None, -y), type_of(a))]
        ),
        lambda a, B: Solve(a, B),
    ),
    type=_of_system("solve"),
    batch=_batch_two,
    adjoint=adjoints.solve,
    keeping=_keep_solve,
    code="np.linalg.solve({0}, {1})",
)
inv = primitive(
    "inv",
    _run_inv,
    blocks=(lambda y: _d_inv(y),),
    type=of_square("inv", lambda s: s),
    batch=batch_one,
    adjoint=adjoints.inv,
    code="np.linalg.inv({0})",
)


# ---- determinants:  d det A = tr(adj(A) dA) (adjugate.py),  d log det A = tr(A⁻¹ dA), which a singular matrix
# does not have (inv raises)


def _run_lu_diagonal(a: Any) -> Any:
    from scipy.linalg import lapack

    d = np.empty(a.shape[:-1], a.dtype)
    getrf = getattr(lapack, LETTERS[a.dtype.char] + "getrf")
    for place in np.ndindex(a.shape[:-2] if a.size else (0,)):
        lu, pivots, _ = getrf(a[place].T)
        stayed = pivots == np.arange(len(pivots))
        d[place] = np.where(stayed, 1, -1) * np.diagonal(lu)
    return d


# The pivots of elimination, each with the sign of its exchange of rows: their product is det A. Not in
# the table, for it has no derivative of its own: compiled code computes determinants by it.
lu_diagonal = Primitive(
    "lu_diagonal", _run_lu_diagonal, type=of_square("det", lambda s: s[:-1]), batch=batch_one
)


def _trace_with(weights: Any, a: Any) -> Any:
    """dA ↦ tr(W dA), a number per matrix."""
    lead = STACK[: len(a.shape) - 2]
    return Contraction(f"{lead}XY,{lead}YX->{lead}", 0, (None, weights), type_of(a))


def _checked(name: str, run: Any) -> Any:
    def call(a: Any) -> Any:
        square(name, a)
        return run(a)

    return call


def real_dtype(dtype: Any) -> Any:
    return np.empty(0, dtype).real.dtype


def _d_det(y: Any, a: Any) -> Any:
    if type(a) is np.ndarray:
        try:
            return _trace_with(y[..., None, None] * P.inv(a), a)
        except np.linalg.LinAlgError:  # one of them is singular
            pass
    return _trace_with(P.adjugate(a), a)


def _d_log_abs_det(a: Any) -> Any:
    traced = _trace_with(P.inv(a), a)
    return Product([RealPart(traced.out_type), traced]) if a.dtype.kind == "c" else traced


def _d_det_sign(y: Any, a: Any) -> Any:
    """Of a complex matrix it is det/|det|, which turns: ds = i s Im tr(A⁻¹ dA)."""
    t = type_of(y)
    if t.dtype.kind != "c":
        return Zero(type_of(a), t)
    real = RealPart(t)
    return Product([Diagonal(1j * y, t), real.T, real, Scale(-1j, t), _trace_with(P.inv(a), a)])


det = primitive(
    "det",
    _checked("det", np.linalg.det),
    blocks=(lambda y, a: _d_det(y, a),),
    type=of_square("det", lambda s: s[:-2]),
    batch=batch_one,
    adjoint=adjoints.det,
    keeping=_checked("det", adjoints.det_keeping),
    code="np.linalg.det({0})",
)
log_abs_det = primitive(
    "log_abs_det",
    _checked("slogdet", lambda a: lapack.determinant(a)[1]),
    blocks=(lambda a: _d_log_abs_det(a),),
    type=of_square("slogdet", lambda s: s[:-2], lambda d: np.empty(0, d).real.dtype),
    batch=batch_one,
    adjoint=adjoints.log_abs_det,
    keeping=_checked("slogdet", adjoints.log_abs_det_keeping),
    code="np.linalg.slogdet({0}).logabsdet",
)
det_sign = primitive(
    "det_sign",
    _checked("slogdet", lambda a: lapack.determinant(a)[0]),
    blocks=(lambda y, a: _d_det_sign(y, a),),
    type=of_square("slogdet", lambda s: s[:-2]),
    batch=batch_one,
    code="np.linalg.slogdet({0}).sign",
)
