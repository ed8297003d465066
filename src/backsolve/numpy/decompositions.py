"""numpy.linalg's and SciPy's decompositions: the parts of the one array that a row gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import MatrixError
from ..primitive import FUNCTIONS, P
from ..tensor import Staged, Tensor
from ._register import OWN, array, dtype_of, named, ndim_of, shape_of
from .elementwise import astype
from .indexing import getitem
from .keys import FULL
from .products import matmul
from .systems import floating

_Eigh: Any = type(np.linalg.eigh(np.eye(1)))
_Eig: Any = type(np.linalg.eig(np.eye(1)))
_Svd: Any = type(np.linalg.svd(np.eye(1)))
_Qr: Any = type(np.linalg.qr(np.eye(1)))


def _matrices(name: str, a: Any) -> Any:
    a = floating(a)
    if ndim_of(a) < 2:
        raise MatrixError(f"`{name}` needs matrices (…, m, n), got shape {shape_of(a)}")
    return a


def _rows(y: Any, first: int, last: int) -> Any:
    return P.slice(y, spec=(*[FULL] * (ndim_of(y) - 2), (first, last, 1)))


def _row(y: Any, k: int) -> Any:
    return P.slice(y, spec=(*[FULL] * (ndim_of(y) - 2), k))


def _turned(a: Any) -> Any:
    n = ndim_of(a)
    a = P.permute(a, axes=(*range(n - 2), n - 1, n - 2))
    return P.conjugate(a) if dtype_of(a).kind == "c" else a


def _lower(uplo: Any) -> bool:
    if not isinstance(uplo, str) or uplo.upper() not in ("L", "U"):
        raise ValueError(f"UPLO is 'L' or 'U', the triangle that is read; got {uplo!r}")
    return uplo.upper() == "L"


# ---- eigenvalues


@named("linalg.eigh")
def eigh(a: Any, UPLO: str = "L") -> Any:
    """Of Hermitian matrices; one triangle is read, and the derivative with respect to the other is 0."""
    y = P.eigh(_matrices("eigh", a), lower=_lower(UPLO))
    w = _row(y, 0)
    return _Eigh(P.real(w) if dtype_of(w).kind == "c" else w, _rows(y, 1, shape_of(y)[-2]))


@named("linalg.eigvalsh")
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    return P.eigvalsh(_matrices("eigvalsh", a), lower=_lower(UPLO))


# Of a real matrix whose eigenvalues are all real, NumPy's results are real, until 2.5.
_REAL_WHERE_REAL = np.linalg.eigvals(np.eye(1)).dtype.kind == "f"


def _is_real(w: Any, a: Any) -> bool:
    """Whether NumPy would give real numbers. (Not while staging, which does not know.)"""
    if not _REAL_WHERE_REAL or dtype_of(a).kind == "c" or isinstance(w, Staged):
        return False
    return not np.any(np.imag(w._known("whether it is real") if isinstance(w, Tensor) else w))


@named("linalg.eig")
def eig(a: Any) -> Any:
    a = _matrices("eig", a)
    w, V = _complex_eig(a)
    return _Eig(P.real(w), P.real(V)) if _is_real(w, a) else _Eig(w, V)


@named("linalg.eigvals")
def eigvals(a: Any) -> Any:
    a = _matrices("eigvals", a)
    w = P.eigvals(a)
    return P.real(w) if _is_real(w, a) else w


def _complex_eig(a: Any) -> tuple[Any, Any]:
    y = P.eig(a)
    return _row(y, 0), _rows(y, 1, shape_of(y)[-2])


def _standard_eig(x: Any, /) -> Any:
    """The array API standard's: always complex."""
    return _Eig(*_complex_eig(_matrices("eig", x)))


def _standard_eigvals(x: Any, /) -> Any:
    """The array API standard's: always complex."""
    return P.eigvals(_matrices("eigvals", x))


_standard_eig.__name__, _standard_eigvals.__name__ = "eig", "eigvals"
OWN["linalg.eig"], OWN["linalg.eigvals"] = _standard_eig, _standard_eigvals


# ---- singular values


def _is_plain(a: Any) -> bool:
    """Whether NumPy may complete a basis; else `complement` does, which says that it has no derivative."""
    return not isinstance(a, Staged) and getattr(a, "row", None) is None


@named("linalg.svd")
def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    a = _matrices("svd", a)
    if hermitian:
        return _hermitian_svd(a, compute_uv)
    if not compute_uv:
        return P.svdvals(a)
    m, n = shape_of(a)[-2:]
    if full_matrices and m != n and _is_plain(a):
        return _Svd(*map(Tensor, np.linalg.svd(np.asarray(a))))
    y = P.svd(a)
    s = _row(y, m)
    s = P.real(s) if dtype_of(s).kind == "c" else s
    U, V = _rows(y, 0, m), _rows(y, m + 1, m + 1 + n)
    return (
        _Svd(_completed(U), s, _turned(_completed(V))) if full_matrices else _Svd(U, s, _turned(V))
    )


def _completed(Q: Any) -> Any:
    """With the columns that make a square matrix of it."""
    m, n = shape_of(Q)[-2:]
    return Q if m == n else FUNCTIONS["concatenate"]([Q, P.complement(Q)], -1)


def _hermitian_svd(a: Any, compute_uv: bool) -> Any:
    """By eigenvalues: s = |w|, from the largest down."""
    if not compute_uv:
        return FUNCTIONS["flip"](FUNCTIONS["sort"](P.absolute(eigvalsh(a))), -1)
    w, V = eigh(a)
    order = FUNCTIONS["flip"](FUNCTIONS["argsort"](P.absolute(w)), -1)
    w = FUNCTIONS["take_along_axis"](w, order, -1)
    U = FUNCTIONS["take_along_axis"](V, getitem(order, (Ellipsis, None, slice(None))), -1)
    sign = getitem(P.where(P.less(w, 0), -1, 1), (Ellipsis, None, slice(None)))
    return _Svd(U, P.absolute(w), _turned(U * sign))


@named("linalg.svdvals")
def svdvals(x: Any, /) -> Any:
    return P.svdvals(_matrices("svdvals", x))


@named("linalg.pinv")
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Any:
    """Its derivative is right where the rank does not change, full or not."""
    a = _matrices("pinv", a)
    if rcond is None:
        unset = rtol is np._NoValue or rtol is None
        standard = max(*shape_of(a)[-2:], 1) * float(np.finfo(dtype_of(a)).eps)
        rcond = (1e-15 if rtol is np._NoValue else standard) if unset else rtol
    if isinstance(rcond, Staged):
        return _truncated(a, rcond)
    rcond = rcond.value if isinstance(rcond, Tensor) else rcond  # what it leaves out is constant
    if ndim_of(rcond) == 0:
        return P.pinv(a, rcond=float(rcond))
    cut = np.asarray(rcond)  # one for each matrix of the stack
    stack = np.broadcast_shapes(cut.shape, shape_of(a)[:-2])
    a = FUNCTIONS["broadcast_to"](a, (*stack, *shape_of(a)[-2:]))
    first, *others = np.unique(cut).tolist() or [0.0]
    y = P.pinv(a, rcond=first)
    for r in others:
        y = P.where(cut[..., None, None] == r, P.pinv(a, rcond=r), y)
    return y


def _truncated(a: Any, rcond: Any) -> Any:
    """The pseudo-inverse for a bound that is not known yet: by the singular values above it."""
    stack = np.broadcast_shapes(shape_of(rcond), shape_of(a)[:-2])
    U, s, Vh = svd(FUNCTIONS["broadcast_to"](a, (*stack, *shape_of(a)[-2:])), full_matrices=False)
    largest = FUNCTIONS["max"](s, axis=-1, keepdims=True, initial=0)
    large = P.greater(s, largest * getitem(rcond, (Ellipsis, None)))
    inverse = P.where(large, 1 / P.where(large, s, 1), 0)
    return matmul(_turned(Vh) * getitem(inverse, (Ellipsis, None, slice(None))), _turned(U))


@named("linalg.matrix_rank")
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    a = array(A)
    if ndim_of(a) < 2:
        return astype(FUNCTIONS["any"](P.not_equal(a, 0)), int)
    a = floating(a)
    s = P.absolute(eigvalsh(a)) if hermitian else P.svdvals(a)
    if tol is None:
        precision = max(*shape_of(a)[-2:]) * np.finfo(dtype_of(s)).eps if rtol is None else rtol
        largest = FUNCTIONS["max"](s, axis=-1, keepdims=True, initial=0)
        tol = largest * astype(array(precision), dtype_of(s))[..., None]
    else:
        tol = getitem(array(tol), (Ellipsis, None)) if ndim_of(tol) else tol
    return FUNCTIONS["count_nonzero"](P.greater(s, tol), axis=-1)


@named("linalg.cond")
def cond(x: Any, p: Any = None) -> Any:
    x = _matrices("cond", x)
    if 0 in shape_of(x):
        raise MatrixError(f"`cond` needs entries, got shape {shape_of(x)}")
    if p in (None, 2, -2):
        s = P.svdvals(x)
        largest, smallest = getitem(s, (Ellipsis, 0)), getitem(s, (Ellipsis, -1))
        return P.divide(smallest, largest) if p == -2 else P.divide(largest, smallest)
    norm = FUNCTIONS["linalg.norm"]
    return norm(x, p, axis=(-2, -1)) * norm(P.inv(x), p, axis=(-2, -1))


@named("linalg.lstsq")
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """x of least norm with |A x − b| least; of deficient rank too, where the rank does not change."""
    a, b = _matrices("lstsq", a), floating(b)
    if ndim_of(a) != 2:
        raise MatrixError(f"`lstsq` needs one matrix, got shape {shape_of(a)}")
    m, n = shape_of(a)
    if ndim_of(b) not in (1, 2) or shape_of(b)[0] != m:
        raise MatrixError(f"`lstsq` needs a right-hand side of {m} rows, got shape {shape_of(b)}")
    cut = max(m, n) * float(np.finfo(dtype_of(a)).eps) if rcond is None else float(rcond)
    s = P.svdvals(a)
    rank = matrix_rank(a, rtol=cut)
    x = matmul(P.pinv(a, rcond=cut), b)
    residuals: Any = np.zeros(0, dtype_of(s))
    if m > n and (
        isinstance(rank, Staged) or int(rank) == n
    ):  # while staging, it is taken for granted
        rest = P.absolute(b - matmul(a, x))
        residuals = P.sum(rest * rest, axis=(0,), keepdims=ndim_of(b) == 1)
    return x, residuals, rank, s


# ---- factors


@named("linalg.qr")
def qr(a: Any, mode: str = "reduced") -> Any:
    a = _matrices("qr", a)
    m, n = shape_of(a)[-2:]
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"`qr` takes mode 'reduced', 'complete' or 'r' of a tensor, got {mode!r}")
    if mode == "complete" and m > n and _is_plain(a):
        return _Qr(*map(Tensor, np.linalg.qr(np.asarray(a), mode="complete")))
    k = min(m, n)
    y = P.qr(a if m >= n else getitem(a, (Ellipsis, slice(0, k))))
    Q, R = _rows(y, 0, m), _rows(y, m, m + k)
    if mode == "complete" and m > n:
        nothing = np.zeros((*shape_of(R)[:-2], m - n, n), dtype_of(R))
        return _Qr(_completed(Q), FUNCTIONS["concatenate"]([R, nothing], -2))
    if m < n:  # the columns behind the square: Qᴴ A
        rest = matmul(_turned(Q), getitem(a, (Ellipsis, slice(k, n))))
        R = FUNCTIONS["concatenate"]([R, rest], -1)
    return R if mode == "r" else _Qr(Q, R)


@named("linalg.lu")
def lu(
    a: Any,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
) -> Any:
    """SciPy's: A = P L U; which rows are exchanged is constant."""
    a = _matrices("lu", a)
    m, n = shape_of(a)[-2:]
    k = min(m, n)
    order = P.pivots(a)
    if ndim_of(a) == 2 and n:
        chosen = P.gather(a, order)
    else:
        chosen = FUNCTIONS["take_along_axis"](a, getitem(order, (Ellipsis, None)), -2)
    y = P.lu(chosen if m == n else getitem(chosen, (Ellipsis, slice(0, k), slice(0, k))))
    below = np.tri(k, k, -1, bool)
    L = P.where(below, y, np.eye(k, dtype=dtype_of(y)))
    U = P.where(below, np.zeros((), dtype_of(y)), y)
    solve = FUNCTIONS["linalg.solve_triangular"]
    if m > k:  # L₂ U = A₂
        below = _turned(solve(U, _turned(_rows(chosen, k, m)), trans=2))
        L = FUNCTIONS["concatenate"]([L, below], -2)
    if n > k:
        beside = solve(L, getitem(chosen, (Ellipsis, slice(k, n))), lower=True, unit_diagonal=True)
        U = FUNCTIONS["concatenate"]([U, beside], -1)
    if permute_l or p_indices:
        back = FUNCTIONS["argsort"](order, -1)
        if p_indices and not permute_l:
            return back, L, U
        return FUNCTIONS["take_along_axis"](L, getitem(back, (Ellipsis, None)), -2), U
    came = P.reshape(order, shape=(*shape_of(order)[:-1], 1, m))
    return astype(P.equal(came, np.arange(m)[:, None]), dtype_of(a).char), L, U


@named("linalg.expm")
def expm(A: Any) -> Any:
    """SciPy's matrix exponential."""
    a = _matrices("expm", A)
    if shape_of(a)[-1] != shape_of(a)[-2]:
        raise MatrixError(f"`expm` needs square matrices, got shape {shape_of(a)}")
    return P.expm(a)
