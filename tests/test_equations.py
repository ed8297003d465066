"""Equations between matrices: SciPy's values, derivatives, batches, compiled code, and what has no answer."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.linalg

import backsolve as bs
from backsolve.testing import check_grads

RNG = np.random.default_rng(8)
A = RNG.normal(size=(3, 3)) + 3 * np.eye(3)
B = RNG.normal(size=(2, 2)) + 2 * np.eye(2)
Q = RNG.normal(size=(3, 2))
DEFINITE = A @ A.T
L = bs.scipy.linalg


def turned(a):
    """Complex numbers beside a."""
    return a + 0.3j * RNG.normal(size=a.shape)


def bands(lower, upper, n=5):
    ab = RNG.normal(size=(lower + upper + 1, n))
    ab[upper] += 4
    return ab


CALLS = [
    ("sqrtm", (DEFINITE,)),
    ("sqrtm", (turned(DEFINITE),)),
    ("solve_sylvester", (A, B, Q)),
    ("solve_sylvester", (turned(A), B, turned(Q))),
    ("solve_continuous_lyapunov", (turned(A), DEFINITE)),
    ("cho_factor", (DEFINITE,)),
    ("block_diag", (A, B, Q[0])),
    ("toeplitz", (Q[:, 0], Q[:, 1])),
    ("toeplitz", (turned(Q[:, 0]),)),
    ("det", (A,)),
    ("pinv", (Q,)),
]


def first(y):
    return (
        np.triu(y[0]) if isinstance(y, tuple) else y
    )  # SciPy leaves the other triangle of a factor as it was


@pytest.mark.parametrize(("name", "args"), CALLS, ids=lambda x: x if isinstance(x, str) else "")
def test_scipys_values_and_two_orders(name, args):
    f, expected = getattr(L, name), first(getattr(scipy.linalg, name)(*args))
    eager = first(f(*[bs.tensor(a) for a in args])).value
    np.testing.assert_allclose(eager, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(bs.jit(lambda *a: first(f(*a)))(*args), expected, rtol=1e-10)
    check_grads(lambda *a: first(f(*a)), args)


@pytest.mark.parametrize(("lower", "upper"), [(1, 1), (2, 1), (0, 2), (2, 0)])
@pytest.mark.parametrize("form", ["vector", "matrix", "complex"])
def test_banded_systems(lower, upper, form):
    ab, b = bands(lower, upper), RNG.normal(size=5 if form == "vector" else (5, 2))
    if form == "complex":
        ab, b = turned(ab), turned(b)

    def f(ab, b):
        return L.solve_banded((lower, upper), ab, b)

    expected = scipy.linalg.solve_banded((lower, upper), ab, b)
    np.testing.assert_allclose(bs.jit(f)(ab, b), expected)
    np.testing.assert_allclose(f(bs.tensor(ab), b).value, expected)
    check_grads(f, (ab, b))


def test_corners_outside_of_a_banded_matrix_have_no_gradient():
    gradient = bs.grad(lambda ab: L.solve_banded((1, 2), ab, np.ones(5)).sum())(bands(1, 2))
    assert gradient[0, 0] == gradient[0, 1] == gradient[1, 0] == gradient[3, 4] == 0
    assert np.count_nonzero(gradient) == 16


@pytest.mark.parametrize(
    ("f", "a"),
    [
        (lambda a: L.sqrtm(a), DEFINITE),
        (lambda a: L.solve_sylvester(a, B, Q), A),
        (lambda b: L.solve_sylvester(A, b, Q), B),
        (lambda q: L.solve_sylvester(A, B, q), Q),
        (lambda ab: L.solve_banded((1, 1), ab, Q), bands(1, 1, 3)),
        (lambda b: L.solve_banded((1, 1), bands_fixed, b), Q),
    ],
)
def test_batches_and_compiled_gradients(f, a):
    def loss(a):
        return np.sum(np.sin(f(a)))

    stack = np.stack([a, a + 0.1 * np.eye(*a.shape)])
    each = [bs.grad(loss)(x) for x in stack]
    np.testing.assert_allclose(bs.vmap(bs.grad(loss))(stack), each, rtol=1e-9)
    np.testing.assert_allclose(bs.jit(bs.vmap(bs.grad(loss)))(stack), each, rtol=1e-9)
    np.testing.assert_allclose(bs.jit(bs.grad(loss))(a), each[0], rtol=1e-9)


bands_fixed = bands(1, 1, 3)


def test_stacks_broadcast():
    stack = np.stack([A, A.T])
    got = L.solve_sylvester(bs.tensor(stack), B, Q).value
    np.testing.assert_allclose(got[1], scipy.linalg.solve_sylvester(A.T, B, Q))


def test_a_square_root_may_be_complex():
    root = L.sqrtm(bs.tensor(-DEFINITE))
    np.testing.assert_allclose(root.value, 1j * scipy.linalg.sqrtm(DEFINITE), atol=1e-12)
    check_grads(lambda a: np.abs(L.sqrtm(-a)), (DEFINITE,))
    with pytest.raises(np.linalg.LinAlgError, match="pass it as complex"):
        bs.jit(L.sqrtm)(-DEFINITE)
    got = bs.jit(lambda a: L.sqrtm(np.astype(a, complex)))(-DEFINITE)
    np.testing.assert_allclose(got, root.value, atol=1e-12)


def test_what_has_no_answer_is_an_error():
    with pytest.raises(np.linalg.LinAlgError, match="no single solution"):
        L.solve_sylvester(bs.tensor(A), -A, np.eye(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy's; the root of 0 has an infinite slope
        with pytest.raises(np.linalg.LinAlgError):
            bs.grad(lambda a: L.sqrtm(a).sum())(np.zeros((2, 2)))
    with pytest.raises(np.linalg.LinAlgError):
        L.solve_banded((0, 1), bs.tensor(np.zeros((2, 3))), np.ones(3))
    for call in (
        lambda: L.solve_sylvester(bs.tensor(A), B, Q.T),
        lambda: L.solve_banded((1, 1), bs.tensor(A[:2]), Q),
        lambda: L.solve_banded((1, 1), bs.tensor(A[0]), Q),
        lambda: L.sqrtm(bs.tensor(Q)),
        lambda: L.toeplitz(bs.tensor(A)),
    ):
        with pytest.raises(ValueError, match="needs"):
            call()


def test_plain_arrays_are_scipys():
    assert type(L.sqrtm(DEFINITE)) is np.ndarray
    assert L.schur is scipy.linalg.schur
    assert {"schur", "sqrtm"} <= set(dir(L))
