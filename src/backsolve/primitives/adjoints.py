"""Adjoints of decompositions, written out for bare arrays: what eager gradients run.

Each is the transpose of the blocks of its row, which serve all other ways to differentiate; the tests hold
the two together. A formula that will not do (a closed gap between eigenvalues, a zero on a diagonal) returns
None, and the blocks decide what that means.
`g` is the adjoint of the row's result, `saved` is (y, a) and what was kept.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from . import lapack


def turned(a: Any) -> Any:
    """Aᴴ"""
    a = a.swapaxes(-1, -2)
    return a.conj() if a.dtype.kind == "c" else a


def _eps(dtype: Any) -> float:
    return float(np.finfo(dtype).eps)


@lru_cache(maxsize=64)
def _weights(n: int, lower: bool, on_diagonal: float, dtype: Any) -> Any:
    """1 inside of a triangle."""
    w = np.tri(n, dtype=dtype) if lower else np.tri(n, dtype=dtype).T.copy()
    np.fill_diagonal(w, on_diagonal)
    w.flags.writeable = False
    return w


def _real(dtype: Any) -> Any:
    return np.empty(0, dtype).real.dtype


def _add_to_diagonal(a: Any, d: Any) -> None:
    n = a.shape[-1]
    if a.ndim == 2 and a.flags.c_contiguous:
        a.reshape(-1)[:: n + 1] += d
    else:
        a[..., np.arange(n), np.arange(n)] += d


# ---- eigenvalues and vectors of Hermitian matrices


def _read(S: Any, lower: bool) -> Any:
    """What one triangle gets of the adjoint S of the Hermitian matrix that it stands for."""
    return (S + turned(S)) * _weights(S.shape[-1], lower, 0.5, _real(S.dtype))


def eigh(g: Any, saved: Any, params: Any, wanted: Any) -> Any:
    y = saved[0]
    S = _of_eigh(y[..., 0, :].real, y[..., 1:, :], g[..., 0, :].real, g[..., 1:, :])
    return None if S is None else (_read(S, params["lower"]),)


def _of_eigh(w: Any, V: Any, gw: Any, gV: Any) -> Any:
    n = w.shape[-1]
    if not gV.any():
        return (V * gw[..., None, :]) @ turned(V)
    top = np.abs(w).max(-1, initial=0)
    if n > 1 and not ((w[..., 1:] - w[..., :-1]).min(-1) > 8 * n * _eps(w.dtype) * top).all():
        return None
    gaps = w[..., None, :] - w[..., :, None]
    _add_to_diagonal(gaps, np.inf)
    M = turned(V) @ gV
    M /= gaps
    _add_to_diagonal(M, gw)
    return V @ M @ turned(V)


def eigvalsh(g: Any, saved: Any, params: Any, wanted: Any) -> Any:
    if len(saved) < 3:
        return None
    V = saved[2]
    return (_read((V * g[..., None, :]) @ turned(V), params["lower"]),)


# ---- eigenvalues of others: w = diag(V⁻¹ dA V)


def eigvals(g: Any, saved: Any, params: Any, wanted: Any) -> Any:
    if len(saved) < 3 or not g.size:
        return None
    a, V = saved[1], saved[2]
    if V.dtype.kind != "c" and a.dtype.kind != "c":
        g = g.real  # as A is, and its variations
    S = np.linalg.solve(turned(V), g[..., :, None] * turned(V))
    return (S if a.dtype.kind == "c" else S.real,)


# ---- singular values and vectors


def svd(g: Any, saved: Any, params: Any, wanted: Any) -> Any:
    y, a = saved[:2]
    m, n = a.shape[-2:]
    U, s, V = y[..., :m, :], y[..., m, :].real, y[..., m + 1 :, :]
    gU, gs, gV = g[..., :m, :], g[..., m, :].real, g[..., m + 1 :, :]
    if m >= n:
        S = _of_svd(U, s, V, gU, gs, gV)
        return None if S is None else (S,)
    S = _of_svd(V, s, U, gV, gs, gU)
    return None if S is None else (turned(S),)


def _of_svd(U: Any, s: Any, V: Any, gU: Any, gs: Any, gV: Any) -> Any:
    """Of m ≥ n."""
    has_U, has_V = gU.any(), gV.any()
    if not (has_U or has_V):
        return (U * gs[..., None, :]) @ turned(V)
    (m, n), eps = U.shape[-2:], _eps(s.dtype)
    squares = s * s
    closest = (squares[..., :-1] - squares[..., 1:]).min(-1, initial=np.inf)
    if not (closest > 8 * n * eps * squares.max(-1, initial=0)).all():
        return None
    over_s = m > n or U.dtype.kind == "c"
    if over_s and not (s.min(-1, initial=np.inf) > 8 * m * eps * s.max(-1, initial=0)).all():
        return None
    across, down = s[..., None, :], s[..., :, None]
    gaps = (across - down) * (across + down)
    _add_to_diagonal(gaps, np.inf)
    M: Any = 0
    if has_U:
        C = turned(U) @ gU
        X = C / gaps
        M = (X + turned(X)) * across
        if m > n:
            M -= C / across
    if has_V:
        D = turned(V) @ gV
        X = D / gaps
        M = M + (X + turned(X)) * down
    _add_to_diagonal(M, gs)
    if U.dtype.kind == "c":  # U and V turn against each other
        phase = (np.diagonal(C, 0, -2, -1).imag if has_U else 0) - (
            np.diagonal(D, 0, -2, -1).imag if has_V else 0
        )
        _add_to_diagonal(M, 0.5j * phase / s)
    outer = U @ M
    if m > n and has_U:
        outer += gU / across
    return outer @ turned(V)


def svdvals_keeping(a: Any) -> tuple[Any, Any]:
    U, s, Vh = np.linalg.svd(a, full_matrices=False)
    return s, (U, Vh)


def svdvals(g: Any, saved: Any, params: Any, wanted: Any) -> Any:
    if len(saved) < 3:
        return None
    U, Vh = saved[2]
    return ((U * g[..., None, :]) @ Vh,)


def pinv(g: Any, saved: Any, params: Any, wanted: Any) -> Any:
    Y, a = saved[:2]
    if params["rcond"] > 100 * max(a.shape[-2:]) * _eps(a.dtype):
        return None
    gh, Yh = turned(g), turned(Y)
    K = gh @ Y
    YK = Y @ K
    S = (K - a @ YK) @ Yh
    S += Yh @ (Y @ gh - YK @ a)
    S -= turned(YK)
    return (S,)


# ---- triangular factors


def cholesky(g: Any, saved: Any, params: Any, wanted: Any) -> Any:
    L = saved[0]
    n, real = L.shape[-1], _real(L.dtype)
    if not lapack.is_single(L, g):
        return None
    M = turned(L) @ g
    M *= _weights(n, True, 0.5, real)
    M = M + turned(M)
    M = np.ascontiguousarray(M)
    M = lapack.divide_from_left(L, M, lower=True, adjoint=True)
    M = lapack.divide_from_right(L, M, lower=True)
    return (M * _weights(n, True, 0.5, real),)


def qr(g: Any, saved: Any, params: Any, wanted: Any) -> Any:
    y, a = saved[:2]
    m, n = a.shape[-2:]
    if not lapack.is_single(y, g):
        return None
    Q, R, gQ, gR = y[:m], y[m:], g[:m], g[m:]
    if not R.diagonal().all():
        return None
    D = (gR @ turned(R) if gR.any() else 0) - (turned(Q) @ gQ if gQ.any() else 0)
    D = D * _weights(n, False, 0.5, _real(y.dtype))
    D = D + turned(D)  # Hermitian: what is above the diagonal is below it, too
    S = Q @ D
    S += gQ
    return (lapack.divide_from_right(R, S, lower=False, adjoint=True),)


def lu(g: Any, saved: Any, params: Any, wanted: Any) -> Any:
    y = saved[0]
    if not lapack.is_single(y, g) or not y.diagonal().all():
        return None
    n, real = y.shape[-1], _real(y.dtype)
    below, above = _weights(n, True, 0.0, real), _weights(n, False, 1.0, real)
    L = y * below
    _add_to_diagonal(L, 1)
    U = y * above
    M = (turned(L) @ g) * below  # of dL = L below(X)
    M += (g @ turned(U)) * above  # of dU = upper(X) U
    M = lapack.divide_from_left(L, M, lower=True, unit=True, adjoint=True)
    return (lapack.divide_from_right(U, M, lower=False, adjoint=True),)


# ---- by elimination


def inv(g: Any, saved: Any, params: Any, wanted: Any) -> Any:
    Yh = turned(saved[0])
    S = Yh @ g @ Yh
    return (np.negative(S, out=S),)


def solve_keeping(a: Any, b: Any) -> tuple[Any, Any]:
    if not lapack.is_single(a, b):
        return np.linalg.solve(a, b), None
    factors = lapack.factored(a)
    return lapack.solved(factors, b), factors


def solve(g: Any, saved: Any, params: Any, wanted: Any) -> Any:
    y, a = saved[:2]
    if len(saved) > 3 and lapack.is_single(saved[3].lu, g):
        bar = lapack.adjoint_solved(saved[3], g)
    else:
        bar = np.linalg.solve(turned(a), g)
    return (-(bar @ turned(y)) if wanted[0] else None), bar


def log_abs_det_keeping(a: Any) -> tuple[Any, Any]:
    _, log, factors = lapack.determinant(a, keep=True)
    return log, factors


def det_keeping(a: Any) -> tuple[Any, Any]:
    sign, log, factors = lapack.determinant(a, keep=True)
    return sign * np.exp(log), factors


def log_abs_det(g: Any, saved: Any, params: Any, wanted: Any) -> Any:
    if len(saved) < 3 or saved[2].is_singular:
        return None
    return (g * turned(lapack.inverse(saved[2])),)


def det(g: Any, saved: Any, params: Any, wanted: Any) -> Any:
    y = saved[0]
    return log_abs_det(g * np.conjugate(y), saved, params, wanted)
