"""Bounds of rounding errors through decompositions of matrices, values and gradients, beside mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.linalg

import backsolve as bs
from backsolve.errors import NotDifferentiableError, UnsupportedError
from backsolve.solve import rounding
from backsolve.solve.rounding import rounding_errors

N = 5
_rng = np.random.default_rng(0)
TURN = _rng.normal(size=(N, N)) * 1e-3
W = _rng.normal(size=(N, N))
B, C = _rng.normal(size=(2, N))
RISING = np.arange(1.0, N + 1)
GRADED = _rng.normal(size=(N, N)) * 10.0 ** np.array([0, -2, 1, -1, 2])  # column by column
NEAR_SINGULAR = W - np.outer(W @ np.ones(N), np.ones(N)) / N + 1e-9 * np.eye(N)
MATRICES = {
    "random": _rng.normal(size=(N, N)),
    "random again": _rng.normal(size=(N, N)),
    "of condition 5e5": scipy.linalg.hilbert(N),
    "graded": GRADED,
    "near to a singular one": NEAR_SINGULAR,
}


def exact(a: Any) -> Any:
    return mpmath.matrix(np.atleast_2d(a).tolist())


def symmetric(m: Any) -> Any:
    return (m + m.T) / 2


def dot(a: Any, column: Any) -> Any:
    return sum(mpmath.mpf(float(x)) * y for x, y in zip(a, column, strict=True))


def columns(m: Any) -> list[list[Any]]:
    return [[m[i, j] for i in range(m.rows)] for j in range(m.cols)]


def squares(m: Any, w: Any) -> Any:
    """Σ w m², which knows no signs."""
    return sum(float(w[i, j]) * m[i, j] ** 2 for i in range(m.rows) for j in range(m.cols))


def eigenvectors(m: Any) -> Any:
    _, V = mpmath.eigsy(symmetric(m))
    return sum(r * dot(B, v) ** 2 for r, v in zip(RISING, columns(V), strict=True))


def singular_vectors(m: Any) -> Any:
    U, _, V = mpmath.svd_r(m)  # descending
    pairs = zip(RISING, columns(U), columns(V.T), strict=True)
    return sum(r * dot(B, u) * dot(C, v) for r, u, v in pairs)


def orthogonal(m: Any) -> Any:
    Q, R = mpmath.qr(m)
    return squares(R, W) + sum(
        r * dot(B, q) ** 2 for r, q in zip(RISING, columns(Q), strict=True)
    )  # fmt: skip


def by_numpy_orthogonal(a: Any) -> Any:
    q, r = np.linalg.qr(a)
    return np.sum(W * r**2) + np.sum(RISING * (B @ q) ** 2)


def by_numpy_singular(a: Any) -> Any:
    u, _, vt = np.linalg.svd(a)
    return np.sum(RISING * (B @ u) * (vt @ C))


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "det": (np.linalg.det, mpmath.det),
    "qr": (by_numpy_orthogonal, orthogonal),
    "eigvalsh": (
        lambda a: np.sum(RISING * np.linalg.eigvalsh((a + a.T) / 2) ** 2),
        lambda m: sum(r * w**2 for r, w in zip(RISING, mpmath.eigsy(symmetric(m))[0], strict=True)),
    ),
    "eigh": (
        lambda a: np.sum(RISING * (B @ np.linalg.eigh((a + a.T) / 2)[1]) ** 2),
        eigenvectors,
    ),
    "svdvals": (
        lambda a: np.sum(RISING * np.linalg.svd(a, compute_uv=False) ** 2),
        lambda m: sum(r * s**2 for r, s in zip(RISING, mpmath.svd_r(m)[1], strict=True)),
    ),
    "svd": (by_numpy_singular, singular_vectors),
    "pinv": (
        lambda a: np.sum(W * np.linalg.pinv(a)),
        lambda m: dot(W.reshape(-1), list(m**-1)),
    ),
}  # fmt: skip
each_case = pytest.mark.parametrize("name", CASES)
each_matrix = pytest.mark.parametrize("matrix", MATRICES)


def off(found: Any, true: Any) -> float:
    return float(abs(mpmath.mpf(float(found)) - true))


@each_matrix
@each_case
def test_values_and_gradients_stay_within_their_bounds(name: str, matrix: str) -> None:
    of_numpy, of_mpmath = CASES[name]
    A = MATRICES[matrix]
    along = TURN * np.abs(A).max(axis=0)  # moves all columns alike
    g = lambda x: of_numpy(A + x * along)
    h = lambda x: of_mpmath(exact(A) + x * exact(along))
    errors, bounds = [], []
    with mpmath.workdps(60):
        for x in (0.1, 0.13, 0.17, 0.2):
            system = bs.linearize(g)(x)
            value = rounding_errors(system, [x])[0]
            assert off(g(x), h(mpmath.mpf(x))) <= value
            assert value > 0
            found = bs.rounding(g, x)
            true = mpmath.diff(h, mpmath.mpf(x))
            assert off(bs.grad(g)(x), true) <= 2 * found.bound  # by other formulas
            errors.append(off(found.gradient, true))
            bounds.append(float(found.bound))
    assert all(e <= b for e, b in zip(errors, bounds, strict=True))
    # the adjugate is det A · A⁻¹: that their errors go together is not seen
    slack = 1e6 if (name, matrix) == ("det", "near to a singular one") else 5e4
    assert max(bounds) < slack * max(errors)


@each_case
def test_by_one_forward_substitution(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way for many numbers: coarser, and never below the other."""
    A = MATRICES["random"]
    fine = bs.rounding(CASES[name][0], A).bound
    monkeypatch.setattr(rounding, "_MOST", 0)
    coarse = bs.rounding(CASES[name][0], A).bound
    assert np.all(coarse >= fine * (1 - 1e-12))
    if name != "det":  # two rows
        assert np.any(coarse > 1.1 * fine)
    assert np.all(coarse < 1e-9)


def test_a_gradient_of_det_at_a_singular_matrix() -> None:
    A = np.diag([1.0, 2.0, 0.0])
    found = bs.rounding(np.linalg.det, A)
    np.testing.assert_allclose(found.gradient, np.diag([0.0, 0.0, 2.0]), atol=1e-14)
    assert np.all(np.abs(found.gradient - np.diag([0.0, 0.0, 2.0])) <= found.bound)
    assert np.all(found.bound < 1e-12)


def test_elimination_of_the_transpose() -> None:
    """LAPACK may see Aᵀ, whose pivots are others: errors here are 100 times those by the pivots of A."""
    A = np.array([[-0.17528701, 0.08815762], [-2.6483836, -0.00041086896]], np.float32)
    adjugate = np.array([[A[1, 1], -A[0, 1]], [-A[1, 0], A[0, 0]]], float)
    found = bs.rounding(np.linalg.det, A)
    assert np.all(np.abs(found.gradient - adjugate.T) <= found.bound)
    inverse = bs.rounding(lambda a: np.linalg.inv(a)[0, 0], A)
    true = bs.grad(lambda a: np.linalg.inv(a)[0, 0])(A.astype(float))
    assert np.all(np.abs(inverse.gradient - true) <= inverse.bound)


def test_stacks_of_matrices() -> None:
    stack = np.stack([MATRICES["random"], 1e6 * MATRICES["random again"]])
    f = lambda a: np.sum(np.linalg.eigvalsh(a + np.swapaxes(a, -1, -2)) ** 2)
    both = bs.rounding(f, stack).bound
    for k in range(2):
        np.testing.assert_allclose(both[k], bs.rounding(f, stack[k]).bound, rtol=0.3)


def test_what_has_no_bound_says_why() -> None:
    with pytest.raises(NotDifferentiableError, match="asks how these vectors move"):
        bs.rounding(lambda x: np.linalg.svd(x)[0][0, 0], np.diag([1.0, 1e-9, 2e-9]))
    with pytest.raises(UnsupportedError, match=r"`eigvals` is not known"):
        bs.rounding(lambda x: np.sum(np.linalg.eigvals(x).real ** 2), MATRICES["random"])
