"""Series of eigenvalues, singular values, their vectors, and determinants.

The vectors of A(t) are those of A(0) times a matrix, V(t) = V₀ C(t) with C₀ = 1. Of A V = V Λ the coefficient k
is, in the basis V₀, with gaps λ_j − λ_i,

    Λ_k = diag R_k,   C_k = R_k / gaps,   R_k = Â_k + Σ_{0<j<k} (Â_j C_{k−j} − C_{k−j} Λ_j),   Â = V₀⁻¹ A V₀

and the diagonal of C_k is what keeps the columns' length and phase: diag(Cᴴ C') = 0. Singular vectors likewise,
from A V = U S and Aᴴ U = V S. By their blocks these rows would ask for ever more rows of their kind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..ir import Type
from ..operators.solve import adjoint
from ..primitive import P
from ..primitives.adjugate import TOO_MANY_ZEROS
from ..primitives.checks import stop_if
from ..primitives.eigen import both, open_gaps
from ..primitives.singular import over_values
from ..tensor import Staged, Tensor
from .rows import raw
from .series import Series, Slope, total

Term = Callable[[int], Any]


class _Terms(Series):
    """Coefficients by a formula."""

    def __init__(self, first: Any, term: Term):
        super().__init__(first)
        self._term = term

    def _next(self, k: int) -> Any:
        return raw(self._term(k))


def _times(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a @ b


def _scaled(C: Any, d: Any) -> Any:
    """Columns, each by a number."""
    return None if C is None or d is None else C * d[..., None, :]


def _sum(terms: Any) -> Any:
    return total([t for t in terms if t is not None])


def _diagonal(a: Any) -> Any:
    return np.diagonal(a, axis1=-2, axis2=-1)


def _on_diagonal(a: Any, d: Any) -> Any:
    """A matrix without a diagonal, with this one."""
    return a if d is None else a + np.eye(a.shape[-1], dtype=a.dtype) * d[..., None, :]


def _drift(C: Term, k: int) -> Any:
    """What coefficient k of diag(Cᴴ C') comes to without C_k, times −1."""
    parts = [
        np.sum(np.conjugate(C(j)) * C(k - j), axis=-2) * float(j - k)
        for j in range(1, k)
        if C(j) is not None and C(k - j) is not None
    ]
    return total(parts)


class _Eigenpairs:
    """Λ and C, from the coefficients of Â."""

    def __init__(self, inner: Term, w: Any, keeps_phase: bool):
        self._inner = cache(inner)
        self._gaps = open_gaps(both(w, w, np.subtract), w, w.shape[-1])
        self._keeps_phase = keeps_phase
        self.rest, self.values, self.turn = map(cache, (self._rest, self._values, self._turn))

    def _rest(self, k: int) -> Any:
        parts = [self._inner(k)]
        for j in range(1, k):
            parts.append(_times(self._inner(j), self.turn(k - j)))
            moved = _scaled(self.turn(k - j), self.values(j))
            parts.append(None if moved is None else -moved)
        return _sum(parts)

    def _values(self, k: int) -> Any:
        rest = self.rest(k)
        return None if rest is None else _diagonal(rest)

    def _turn(self, k: int) -> Any:
        rest = self.rest(k)
        if rest is None:
            return None
        drift = _drift(self.turn, k) if self._keeps_phase else None
        return _on_diagonal(P.over_gaps(rest, self._gaps), _over(drift, k))


def _over(drift: Any, k: int) -> Any:
    return None if drift is None else drift * (1.0 / k)


def _hermitian(a: Any, lower: bool) -> Any:
    """The matrix of which one triangle is read."""
    if a is None:
        return None
    n = a.shape[-1]
    half = (np.tri(n) if lower else np.tri(n).T) - 0.5 * np.eye(n)
    half = a * half.astype(np.empty(0, a.dtype).real.dtype)
    return half + adjoint(half)


def _of_hermitian(y: Any, a: Series, lower: bool) -> tuple[_Eigenpairs, Any]:
    w, V = np.real(y[..., 0, :]), y[..., 1:, :]
    turned = adjoint(V)
    inner = lambda k: _times(_times(turned, _hermitian(a[k], lower)), V)
    return _Eigenpairs(inner, w, True), V


def eigh(rows: Any, first: Any, a: Series, *, lower: bool) -> Series:
    pairs, V = _of_hermitian(first, a, lower)

    def term(k: int) -> Any:
        turned, values = pairs.turn(k), pairs.values(k)
        if turned is None:
            return None
        return np.concatenate([np.real(values)[..., None, :].astype(V.dtype), V @ turned], axis=-2)

    return _Terms(first, term)


def eigvalsh(rows: Any, first: Any, a: Series, *, lower: bool) -> Series:
    pairs, _ = _of_hermitian(raw(P.eigh(a[0], lower=lower)), a, lower)
    return _Terms(first, lambda k: _real(pairs.values(k)))


def eigvals(rows: Any, first: Any, a: Series) -> Series:
    y = raw(P.eig(a[0]))
    w, V = y[..., 0, :], y[..., 1:, :]
    inner = lambda k: None if a[k] is None else np.linalg.solve(V, a[k] @ V)
    return _Terms(first, _Eigenpairs(inner, w, False).values)


def _real(x: Any) -> Any:
    return None if x is None else np.real(x)


# ---- singular values.  U = U₀ X + Z with U₀ᴴ Z = 0,  V = V₀ Y,  M = U₀ᴴ A V₀,  N = A V₀ − U₀ M:
#
#     M Y = X S,    N Y = Z S,    Mᴴ X + Nᴴ Z = Y S


class _Singular:
    """Of a matrix with at least as many rows as columns, from its coefficients."""

    def __init__(self, term: Term, U: Any, s: Any, V: Any):
        self._term, self._U, self._s, self._V = term, U, s, V
        squares = both(s, s, np.subtract) * both(s, s, np.add)
        self._gaps = open_gaps(squares, s * s, s.shape[-1])
        self._is_square = U.shape[-2] == U.shape[-1]
        self._is_complex = U.dtype.kind == "c"
        self.pair, self.sides, self.values, self.outside, self.beyond = map(
            cache, (self._pair, self._sides, self._values, self._outside, self._beyond)
        )

    def _pair(self, k: int) -> Any:
        """M_k and N_k."""
        a = self._term(k)
        if a is None:
            return None, None
        moved = a @ self._V
        M = adjoint(self._U) @ moved
        return M, None if self._is_square else moved - self._U @ M

    def _sides(self, k: int) -> Any:
        """What is left of the first and the third equation without X_k, Y_k and S_k."""
        M, _ = self.pair(k)
        one, three = [M], [None if M is None else adjoint(M)]
        for j in range(1, k):
            M, N = self.pair(j)
            X, Y = self.turns(k - j)
            one += [_times(M, Y), _minus(_scaled(X, self.values(j)))]
            three += [_minus(_scaled(Y, self.values(j)))]
            if M is not None:
                three.append(_times(adjoint(M), X))
            if N is not None:
                three.append(_times(adjoint(N), self.outside(k - j)))
        E, G = _sum(one), _sum(three)
        if E is None and G is None:
            return None
        return (adjoint(G) * 0 if E is None else E), (adjoint(E) * 0 if G is None else G)

    def _values(self, k: int) -> Any:
        found = self.sides(k)
        return None if found is None else np.real(_diagonal(found[0] + found[1])) * 0.5

    def _outside(self, k: int) -> Any:
        """Z_k."""
        if self._is_square or not k:
            return None
        parts = [self.pair(k)[1]]
        for j in range(1, k):
            parts.append(_times(self.pair(j)[1], self.turns(k - j)[1]))
            parts.append(_minus(_scaled(self.outside(k - j), self.values(j))))
        found = _sum(parts)
        return None if found is None else self._over_values(found)

    def _over_values(self, x: Any) -> Any:
        return raw(over_values(self._s, Type(x.shape, x.dtype)).apply(x))

    def turns(self, k: int) -> Any:
        return self.beyond(k)

    def _beyond(self, k: int) -> Any:
        """X_k and Y_k."""
        found = self.sides(k)
        if found is None:
            return None, None
        E, G = found
        s_i, s_j = self._s[..., :, None], self._s[..., None, :]
        X = P.over_gaps(s_j * E + s_i * G, self._gaps)
        Y = P.over_gaps(s_i * E + s_j * G, self._gaps)
        a = _sum([_drift(lambda j: self.turns(j)[0], k), _drift(self.outside, k)])
        b = _drift(lambda j: self.turns(j)[1], k)
        if self._is_complex:  # U and V turn against each other
            apart = _diagonal(self._over_values(E - G)) * (0.5 * k)
            for side, sign in ((a, -1.0), (b, 1.0)):
                apart = apart if side is None else apart + sign * side
            turned = 0.5j * np.imag(apart)
            a = turned if a is None else a + turned
            b = -turned if b is None else b - turned
        return _on_diagonal(X, _over(a, k)), _on_diagonal(Y, _over(b, k))


def _minus(x: Any) -> Any:
    return None if x is None else -x


def _of_matrix(y: Any, a: Series) -> tuple[_Singular, bool, Any, Any]:
    m, n = a[0].shape[-2:]
    U, s, V = y[..., :m, :], np.real(y[..., m, :]), y[..., m + 1 :, :]
    if m >= n:
        return _Singular(lambda k: a[k], U, s, V), False, U, V
    turned = lambda k: None if a[k] is None else adjoint(a[k])
    return _Singular(turned, V, s, U), True, V, U


def svd(rows: Any, first: Any, a: Series) -> Series:
    parts, is_wide, U, V = _of_matrix(first, a)

    def term(k: int) -> Any:
        X, Y = parts.turns(k)
        Z = parts.outside(k)
        if X is None and Z is None:
            return None
        left = _sum([_times(U, X), Z])
        right, values = V @ Y, parts.values(k)[..., None, :].astype(V.dtype)
        pieces = [right, values, left] if is_wide else [left, values, right]
        return np.concatenate(pieces, axis=-2)

    return _Terms(first, term)


def svdvals(rows: Any, first: Any, a: Series) -> Series:
    return _Terms(first, _of_matrix(raw(P.svd(a[0])), a)[0].values)


# ---- determinants.  With B = Uᴴ A V, of fixed U and V that make B₀ diagonal, the smallest value last:
#
#     det A = φ det(B₁₁) (B₂₂ − B₂₁ B₁₁⁻¹ B₁₂),    (det B₁₁)' = det(B₁₁) tr(B₁₁⁻¹ B₁₁')
#
# which divides by no more than the smallest value but one.


def is_regular_but_one(a: Any) -> Any:
    """Whether at most one singular value is near 0; of a staged matrix, compiled code finds out."""
    if a.shape[-1] < 2 or isinstance(a, Staged):
        return True
    s = np.linalg.svd(a._v if isinstance(a, Tensor) else a, compute_uv=False)
    return bool(np.all(s[..., -2] > np.sqrt(np.finfo(s.dtype).eps) * s[..., 0]))


def det(rows: Any, first: Any, a: Series) -> Any:
    n = a[0].shape[-1]
    if n < 2:
        return rows.on(lambda A: A[..., 0, 0], a)
    known = raw(P.detach(a[0]))
    y = raw(P.svd(known))
    U, s, V = y[..., :n, :], np.real(y[..., n, :]), y[..., n + 1 :, :]
    if isinstance(s, Staged):
        noise = 8 * n * np.finfo(s.dtype).eps
        stop_if(np.any(s[..., -2] <= noise * s[..., 0]), "LinAlgError", TOO_MANY_ZEROS)
    phase = raw(P.det_sign(U @ adjoint(V)))
    B = rows.on(lambda A, U, V: adjoint(U) @ A @ V, a, U, V)
    inner = rows.on(lambda B: B[..., :-1, :-1], B)
    growth = rows.on(
        lambda P, D: np.trace(np.linalg.solve(P, D), axis1=-2, axis2=-1), inner, Slope(inner)
    )
    most = _Grown(raw(np.linalg.det(inner[0])), growth)
    last = rows.on(
        lambda B, P: B[..., -1, -1] - (B[..., -1:, :-1] @ np.linalg.solve(P, B[..., :-1, -1:]))[..., 0, 0],
        B, inner,
    )  # fmt: skip
    return rows.on(lambda d, c, phase: phase * d * c, most, last, phase)


class _Grown(Series):
    """y from y' = g y."""

    def __init__(self, first: Any, growth: Series):
        super().__init__(first)
        self._growth = growth

    def _next(self, k: int) -> Any:
        parts = [
            self[j] * self._growth[k - 1 - j]
            for j in range(k)
            if self[j] is not None and self._growth[k - 1 - j] is not None
        ]
        found = total(parts)
        return None if found is None else raw(found * (1.0 / k))


ROWS: dict[str, Callable[..., Series]] = {
    "eigh": eigh,
    "eigvalsh": eigvalsh,
    "eigvals": eigvals,
    "svd": svd,
    "svdvals": svdvals,
}
