"""The adjugate of a matrix, which is the derivative of its determinant:  d det A = tr(adj(A) dA).

adj(A) = det(A) A⁻¹ where there is an inverse; but its entries are polynomials in those of A, and so are their
derivatives: they exist at every rank. With Y = adj(A) and A = U S Vᴴ, φ = det(U Vᴴ):

    Y  = φ V diag(Π_{k≠i} s_k) Uᴴ
    dY = (tr(Y dA) Y − Y dA Y) / det A                                                  of a regular matrix
    dY = φ V D Uᴴ,   E = Uᴴ dA V,   D_ij = −π_ij E_ij,   D_ii = Σ_k π_ik E_kk           of any, where
         π_ij = Π_{k≠i,j} s_k and π_ii = 0

The second formula divides by nothing. Its own derivative is that of singular vectors: of matrices that are far
from singular the first is used, which has all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type, Var, type_of
from ..operators import Contraction, Diagonal, Operator, OperatorSum, Product, Zero
from ..operators.solve import adjoint
from ..primitive import P, Primitive, primitive
from . import lapack
from .linalg import STACK, batch_one, of_square, square
from .matrix_maps import around, matrix_type


def _run_adjugate(a: Any) -> Any:
    square("det", a)
    if lapack.is_single(a):
        factors = lapack.factored(a)
        return _by_svd(a) if factors.is_singular else _det(factors) * lapack.inverse(factors)
    try:
        return np.linalg.det(a)[..., None, None] * np.linalg.inv(a)
    except np.linalg.LinAlgError:  # one of them is singular
        y = np.empty_like(a)
        for place in np.ndindex(a.shape[:-2]):
            y[place] = _run_adjugate(a[place])
        return y


def _det(factors: lapack.Factors) -> Any:
    swaps = np.count_nonzero(factors.pivots - np.arange(len(factors.pivots)))
    det = np.multiply.reduce(factors.lu.diagonal())
    return -det if swaps % 2 else det


def _by_svd(a: Any) -> Any:
    U, s, Vh = np.linalg.svd(a)
    others = _before(s) * _before(s[::-1])[::-1]
    return (np.linalg.det(U @ Vh) * others * adjoint(Vh)) @ adjoint(U)


def _before(s: Any) -> Any:
    """The product of all entries before each."""
    return np.concatenate([np.ones_like(s[..., :1]), np.cumprod(s, axis=-1)[..., :-1]], axis=-1)


def _all_but_two(s: Any) -> Any:
    """π: the products of all but s_i and s_j; 0 on the diagonal."""
    n = s.shape[-1]
    above = np.tri(n, n, -1, bool).T
    between = _before(np.where(above, s[..., None, :], 1))
    after = _before(s[..., ::-1])[..., ::-1]
    half = np.where(above, _before(s)[..., :, None] * between * after[..., None, :], 0)
    return half + np.swapaxes(half, -1, -2)


def _d_regular(y: Any, t: Type, over_det: Any) -> Operator:
    lead = STACK[: len(t.shape) - 2]
    scaled = y * over_det[..., None, None]
    outer = Contraction(f"{lead}XY,{lead}ZW,{lead}WZ->{lead}XY", 2, (scaled, y, None), t)
    return OperatorSum([outer, around(-scaled, y, t)])


def _guarded(y: Any, n: int) -> Any:
    """Singular values and vectors y; where two values are 0, there is a kink, and a derivative is an error."""
    known = P.detach(y)
    s = np.real(known[..., n, :])
    limit = 8 * n * float(np.finfo(y.dtype).eps) * s[..., 0]
    gap = np.where(np.greater(s[..., n - 2], limit), 1, 0).astype(y.dtype)
    return known + P.over_gaps(y - known, gap[..., None, None])


def _d_any(a: Any, t: Type, where: Any) -> Operator:
    n = t.shape[-1]
    lead = STACK[: len(t.shape) - 2]
    y = _guarded(P.svd(a), n)
    U, s, V = y[..., :n, :], np.real(y[..., n, :]), y[..., n + 1 :, :]
    phase = P.det_sign(U @ adjoint(V)) * where
    pi = _all_but_two(s).astype(t.dtype)
    vector = matrix_type(t, n)
    on_diagonal = [
        Contraction(f"{lead}X->{lead}XX", 0, (None,), vector),
        Contraction(f"{lead}XY,{lead}Y->{lead}X", 1, (pi, None), vector),
        Contraction(f"{lead}XX->{lead}X", 0, (None,), t),
    ]
    inner = OperatorSum([Product(on_diagonal), Diagonal(-pi, t)])
    return Product(
        [around(V * phase[..., None, None], adjoint(U), t), inner, around(adjoint(U), V, t)]
    )


def _d_adjugate(y: Any, a: Any) -> Operator:
    t = type_of(a)
    n = t.shape[-1]
    if n < 2:
        return Zero(t, t)
    det = np.sum(y * np.swapaxes(a, -1, -2), axis=(-1, -2)) / n
    size = np.linalg.norm(a, axis=(-1, -2)) * np.linalg.norm(y, axis=(-1, -2))
    # Dividing by the determinant loses as many digits as it is below this.
    near = np.less_equal(np.abs(det), np.sqrt(np.finfo(t.dtype).eps) * size)
    value = getattr(near, "_v", near)
    if type(value) is not Var:
        if not np.any(value):
            return _d_regular(y, t, 1 / det)
        if np.all(value):
            return _d_any(a, t, np.ones((), t.dtype))
    over_det = np.where(near, 0, 1 / np.where(near, 1, det))
    weight = np.where(near, 1, 0).astype(t.dtype)
    # The others' singular values may be the same: nothing shall be asked about their vectors.
    apart = np.diag(np.arange(1, n + 1)).astype(t.dtype)
    singular = np.where(near[..., None, None], a, apart)
    return OperatorSum([_d_regular(y, t, over_det), _d_any(singular, t, weight)])


adjugate = primitive(
    "adjugate",
    _run_adjugate,
    blocks=(lambda y, a: _d_adjugate(y, a),),
    type=of_square("det", lambda s: s),
    batch=batch_one,
)


def _run_inv_of_pivots(a: Any, tiny: Any) -> Any:
    y = np.empty_like(a)
    for place in np.ndindex(a.shape[:-2]):
        factors = lapack.factored(a[place])
        pivots = factors.lu.diagonal()
        np.fill_diagonal(factors.lu, np.where(pivots == 0, tiny[place][0], pivots))
        y[place] = lapack.inverse(factors._replace(is_singular=False))
        if factors.is_singular and not np.all(np.isfinite(y[place])):
            raise np.linalg.LinAlgError(TOO_MANY_ZEROS)
    return y


TOO_MANY_ZEROS = "too many zero pivots for a derivative of `det` inside `jit`; compute it outside"
# A⁻¹ with the numbers `tiny` (…, 1, 1) in place of zero pivots. Not in the table: compiled code computes the
# adjugate by it, as rewrite/expand_linear.py tells.
inv_of_pivots = Primitive(
    "inv_of_pivots",
    _run_inv_of_pivots,
    type=lambda a, tiny: a,
    batch=lambda prim, size, args, batched, params: prim(*args),
)
