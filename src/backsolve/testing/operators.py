"""check_operator: what every linear operator promises (operators/base.py), on random arrays.

An operator may be linear over the reals only (Conjugate, RealPart) and may take or give tuples
(Block, Concatenate). So all is compared through its *real matrix*: complex entries count as two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ShapeError
from ..ir import Type
from ..operators import Block, Operator, Product
from .grads import CheckError, close, inner, random_like

Matrix = npt.NDArray[Any]
FACTS = frozenset(
    [
        "identity",
        "zero",
        "diagonal",
        "permutation",
        "orthogonal",
        "selection",
        "symmetric",
        "sparse",
        "lower",
        "upper",
    ]
)


def check_operator(A: Operator, *, rtol: float | None = None, seed: int = 0) -> None:
    """Check the contract of `A`: adjoint, linearity, types, matrix, structure, cost, algebra.

    >>> from backsolve.operators import Diagonal
    >>> check_operator(Diagonal(np.array([1.0, 2.0])))
    """
    what = repr(A)
    if not isinstance(what, str) or not what:
        raise CheckError(f"{type(A).__name__}: repr is {what!r}")
    if not (_known(A.in_type) and _known(A.out_type)):
        raise CheckError(f"{what} does not know its types: {A.in_type} → {A.out_type}")
    _check_types(A, what)
    M = real_matrix(A)
    tol = _tolerance(A) if rtol is None else (rtol, rtol)
    rng = np.random.default_rng(seed)
    u, w, v = draw(A.in_type, rng), draw(A.in_type, rng), draw(A.out_type, rng)

    image = A.apply(u)
    close(flat(image), M @ flat(u), tol, what, "linearity: the matrix times u")
    mixed = _map(lambda x, y: 2 * x - 3 * y, u, w)
    expected = 2 * flat(image) - 3 * flat(A.apply(w))
    close(flat(A.apply(mixed)), expected, tol, what, "linearity: 2 A u − 3 A w")
    close(flat(A @ u), flat(image), tol, what, "A.apply(u)")

    left, right = inner(_parts(image), _parts(v)), inner(_parts(u), _parts(A.T.apply(v)))
    close(right, left, tol, f"{what}.T", "⟨A u, v⟩, for ⟨u, Aᵀ v⟩")
    close(real_matrix(A.T), M.T, tol, f"{what}.T", "the transposed matrix")
    close(real_matrix(A.T.T), M, tol, f"{what}.T.T", "the matrix")
    close(flat(A.pull(v)), flat(A.T.apply(v)), tol, f"{what}.pull", "A.T.apply")
    _check_types(A.T, f"{what}.T")

    _check_dense(A, M, tol, what)
    _check_structure(A, M, tol, what)
    _check_structure(A.T, M.T, tol, f"{what}.T")
    cost = A.cost
    if min(cost.multiplications, cost.additions, cost.bytes, cost.flops) < 0:
        raise CheckError(f"{what} has a negative cost: {cost}")
    _check_algebra(A, M, tol, what)
    if isinstance(A.out_type, Type):
        base = draw(A.out_type, rng)
        added = A.apply_add(np.array(base), u)
        close(flat(added), flat(base) + flat(image), tol, f"{what}.apply_add", "y + A u")
        if isinstance(A.in_type, Type):
            _check_support(A, u, rng, what)


def _check_types(A: Operator, what: str) -> None:
    image = A.apply(draw(A.in_type, np.random.default_rng(1)))
    for part, t in zip(_parts(image), _parts(A.out_type), strict=True):
        got = (np.shape(part), np.asarray(part).dtype)
        if got != (t.shape, t.dtype):
            raise CheckError(f"{what}: out_type says {t}, apply gives {got[1]}{list(got[0])}")
    back = A.T
    for side, mine, other in (("in", A.in_type, back.out_type), ("out", A.out_type, back.in_type)):
        if _plain(mine) != _plain(other):
            raise CheckError(f"{what}: {side}_type is {mine}, but of the adjoint it is {other}")
    if A.shape != (_size(A.out_type), _size(A.in_type)):
        raise CheckError(f"{what}: shape is {A.shape}, from {A.in_type} to {A.out_type}")


def _check_dense(A: Operator, M: Matrix, tol: Any, what: str) -> None:
    try:
        D = A.dense()
    except ShapeError:
        if _complex_linear(A, M, tol):
            raise
        return
    if D.shape != A.shape:
        raise CheckError(f"{what}.dense() has shape {D.shape}, expected {A.shape}")
    close(_realified(A, D), M, tol, f"{what}.dense()", "A applied to unit vectors")
    if _complex_linear(A.T, M.T, tol) and _is_complex(A.in_type) == _is_complex(A.out_type):
        close(A.T.dense(), np.conjugate(D.T), tol, f"{what}.T.dense()", "dense(), adjoint")


def _check_structure(A: Operator, M: Matrix, tol: Any, what: str) -> None:
    facts = A.structure
    if not facts <= FACTS:
        raise CheckError(f"{what} claims unknown facts: {sorted(facts - FACTS)}")
    for fact in facts:
        if not _holds(fact, A, M, max(tol) * max(1.0, float(np.max(np.abs(M), initial=0)))):
            raise CheckError(f"{what} claims to be {fact}, but its matrix is\n{M}")


def _holds(fact: str, A: Operator, M: Matrix, eps: float) -> bool:
    """Of the real matrix; only `diagonal` of a complex operator must be seen in the complex one."""
    square = M.shape[0] == M.shape[1]
    if fact in ("lower", "upper"):
        return isinstance(A, Block) and bool(A.is_lower if fact == "lower" else A.is_upper)
    if fact == "sparse":
        return bool(np.count_nonzero(M) <= 8 * max(M.shape))
    if fact == "zero":
        return not M.any()
    if fact == "selection":
        return bool(np.all((M == 0) | (M == 1)) and np.all(np.count_nonzero(M, axis=1) <= 1))
    if not square:
        return False
    eye = np.eye(len(M))
    if fact == "diagonal":
        D = A.dense() if _is_complex(A.in_type) and _complex_linear(A, M, (eps, eps)) else M
        return not np.any(D - np.diag(np.diag(D)))
    if fact == "permutation":
        ones = np.all(M.sum(axis=0) == 1) and np.all(M.sum(axis=1) == 1)
        return bool(ones and np.all((M == 0) | (M == 1)))
    expected, got = {
        "identity": (eye, M),
        "orthogonal": (eye, M.T @ M),
        "symmetric": (M, M.T),
    }[fact]
    return bool(np.allclose(got, expected, rtol=0, atol=10 * eps))


def _check_algebra(A: Operator, M: Matrix, tol: Any, what: str) -> None:
    B = A.T
    loose = (10 * tol[0], 10 * tol[1])
    results: list[tuple[str, Callable[[], Operator], Matrix]] = [
        ("A.T @ A", lambda: B @ A, M.T @ M),
        ("A @ A.T", lambda: A @ B, M @ M.T),
        ("A @ A.T @ A", lambda: A @ B @ A, M @ M.T @ M),
        ("A + A", lambda: A + A, 2 * M),
        ("A - A", lambda: A - A, 0 * M),
        ("-A", lambda: -A, -M),
        ("3.0 * A", lambda: 3.0 * A, 3 * M),
        ("(A + A).T", lambda: (A + A).T, 2 * M.T),
        ("(A @ A.T).T", lambda: (A @ B).T, M @ M.T),
    ]
    for name, make, expected in results:
        made = make()
        close(real_matrix(made), expected, loose, f"{name} = {made!r} for A = {what}", "its matrix")
        _check_structure(made, expected, loose, f"{name} = {made!r}")


def _check_support(A: Operator, u: Any, rng: np.random.Generator, what: str) -> None:
    """Outside the support that A announces, its image is zero."""
    given = np.asarray(rng.random(A.in_type.shape) < 0.5)
    for mask in (None, given):
        t = u if mask is None else np.where(mask, u, np.zeros((), A.in_type.dtype))
        support = A.support(mask)
        if support is None:
            continue
        support = np.broadcast_to(support, A.out_type.shape)
        if np.any(np.where(support, 0, A.apply(t))):
            raise CheckError(
                f"{what}: the image is not zero outside {support}, its support of {mask}"
            )
    if A.masks and A.support(None) is None and not isinstance(A, Product):
        raise CheckError(f"{what} says that it masks, but support(None) is None")


# ---- real matrices


def real_matrix(A: Operator) -> Matrix:
    """The matrix of A over the reals: complex entries, in and out, count as (real, imaginary)."""
    n = sum(t.size * (2 if t.dtype.kind == "c" else 1) for t in _parts(A.in_type))
    columns = [flat(A.apply(unflat(e, A.in_type))) for e in np.eye(n)]
    m = sum(t.size * (2 if t.dtype.kind == "c" else 1) for t in _parts(A.out_type))
    return np.stack(columns, axis=1) if columns else np.zeros((m, 0))


def flat(t: Any) -> Matrix:
    """All numbers of an array or tuple of arrays in one real vector."""
    return np.concatenate([_reals(np.asarray(x)) for x in _parts(t)] or [np.zeros(0)])


def _reals(x: Matrix) -> Matrix:
    x = x.reshape(-1)
    if x.dtype.kind == "c":
        return np.stack([x.real, x.imag], axis=1).reshape(-1)
    return x


def unflat(e: Matrix, like: Any) -> Any:
    parts, k = [], 0
    for t in _parts(like):
        n = t.size * (2 if t.dtype.kind == "c" else 1)
        x = e[k : k + n]
        if t.dtype.kind == "c":
            x = x[0::2] + 1j * x[1::2]
        parts.append(x.astype(t.dtype).reshape(t.shape)[()])
        k += n
    return parts[0] if isinstance(like, Type) else tuple(parts)


def _realified(A: Operator, D: Matrix) -> Matrix:
    """The real matrix of the map with matrix D between the spaces of A."""
    columns = []
    for e in np.eye(sum(t.size * (2 if t.dtype.kind == "c" else 1) for t in _parts(A.in_type))):
        x = np.concatenate([np.reshape(p, -1) for p in _parts(unflat(e, A.in_type))])
        y, parts = D @ x, []
        for t in _parts(A.out_type):
            parts.append(_reals(y[: t.size].astype(t.dtype)))
            y = y[t.size :]
        columns.append(np.concatenate(parts))
    return np.stack(columns, axis=1) if columns else real_matrix(A)


def _complex_linear(A: Operator, M: Matrix, tol: Any) -> bool:
    """A(i u) = i A(u): only then it has a complex matrix."""
    if not _is_complex(A.in_type):
        return True
    if not _is_complex(A.out_type):
        return not M.any()
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    J_in, J_out = (np.kron(np.eye(n // 2), turn) for n in (M.shape[1], M.shape[0]))
    return bool(np.allclose(M @ J_in, J_out @ M, rtol=tol[0], atol=tol[1]))


# ---- types


def draw(t: Any, rng: np.random.Generator) -> Any:
    """A random array of a Type, or a tuple of them."""
    if isinstance(t, tuple):
        return tuple(draw(x, rng) for x in t)
    return random_like(np.zeros(t.shape, t.dtype), rng)


def _parts(t: Any) -> tuple[Any, ...]:
    return t if isinstance(t, tuple) else (t,)


def _map(f: Callable[..., Any], *ts: Any) -> Any:
    if isinstance(ts[0], tuple):
        return tuple(f(*xs) for xs in zip(*ts, strict=True))
    return f(*ts)


def _known(t: Any) -> bool:
    return all(isinstance(x, Type) for x in _parts(t))


def _plain(t: Any) -> Any:
    return tuple((x.shape, x.dtype) for x in _parts(t))


def _size(t: Any) -> int:
    return sum(x.size for x in _parts(t))


def _is_complex(t: Any) -> bool:
    return any(x.dtype.kind == "c" for x in _parts(t))


def _tolerance(A: Operator) -> tuple[float, float]:
    dtypes = [x.dtype for x in (*_parts(A.in_type), *_parts(A.out_type))]
    single = any(np.finfo(d).eps > 1e-10 for d in dtypes)
    return (1e-4, 1e-4) if single else (1e-9, 1e-9)
