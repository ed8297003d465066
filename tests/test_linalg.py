"""Factorisations, systems and determinants on Tensors; their rows are checked in test_rows.py."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import backsolve as bs
from backsolve.errors import ShapeError
from backsolve.numpy import linalg
from backsolve.testing import check_grads

rng = np.random.default_rng(3)


def matrices(*shape: int, dtype: str = "float64") -> Any:
    x = rng.uniform(-1, 1, shape)
    if dtype == "complex128":
        x = x + 1j * rng.uniform(-1, 1, shape)
    return x


def definite(*shape: int, dtype: str = "float64") -> Any:
    x = matrices(*shape, dtype=dtype)
    return x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1])


VARIANTS = list(itertools.product((0, "T", 2), (False, True), (False, True)))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(("trans", "lower", "unit"), VARIANTS)
def test_solve_triangular_is_scipys(dtype: str, trans: Any, lower: bool, unit: bool) -> None:
    A, b, B = matrices(3, 3, dtype=dtype) + 2 * np.eye(3), matrices(3), matrices(3, 2, dtype=dtype)
    for right in (b, B):
        got = linalg.solve_triangular(bs.tensor(A), right, trans, lower, unit)
        expected = scipy.linalg.solve_triangular(A, right, trans, lower, unit)
        np.testing.assert_allclose(got.value, expected)
        check_grads(lambda A, b: linalg.solve_triangular(A, b, trans, lower, unit), [A, right])


def test_solve_triangular_spreads_stacks() -> None:
    A, B = matrices(2, 1, 3, 3) + 2 * np.eye(3), matrices(4, 3, 2)
    got = linalg.solve_triangular(A, B, lower=True)
    assert got.shape == (2, 4, 3, 2)
    np.testing.assert_allclose(np.tril(A) @ got, np.broadcast_to(B, got.shape))
    check_grads(lambda A, B: linalg.solve_triangular(A, B, lower=True), [A, B], order=1)


def test_solve_triangular_reads_views_of_every_layout() -> None:
    A, B = matrices(5, 5) + 3 * np.eye(5), matrices(5, 5)
    for a in (A, A.T, A[::-1, ::-1], A[:3, :3].T, np.asfortranarray(A)[1:, 1:]):
        b = B[: len(a), ::2]
        got = linalg.solve_triangular(a, b, lower=True)
        np.testing.assert_allclose(np.tril(a) @ got, b, atol=1e-12)


def test_solve_triangular_reads_one_triangle() -> None:
    A = np.array([[2.0, np.nan], [1.0, 4.0]])
    gradient = bs.grad(lambda A: np.sum(linalg.solve_triangular(A, np.ones(2), lower=True)))(A)
    np.testing.assert_allclose(gradient, [[-0.1875, 0.0], [-0.125, -0.03125]])


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_cho_solve(lower: bool, dtype: str) -> None:
    A, b = definite(3, 3, dtype=dtype), matrices(3, dtype=dtype)

    def solve(A: Any, b: Any) -> Any:
        return linalg.cho_solve((np.linalg.cholesky(A, upper=not lower), lower), b)

    np.testing.assert_allclose(solve(A, b), np.linalg.solve(A, b))
    check_grads(solve, [A, b])


def test_cholesky_reads_one_triangle_and_so_does_its_gradient() -> None:
    A = definite(3, 3)
    spoiled = np.where(np.tri(3, dtype=bool), A, np.nan)

    def log_det(A: Any) -> Any:
        return 2 * np.sum(np.log(np.diagonal(np.linalg.cholesky(A))))

    expected = np.linalg.inv(A)
    for a in (A, spoiled):
        gradient = bs.grad(log_det)(a)
        assert not np.triu(gradient, 1).any()
        np.testing.assert_allclose(np.diag(gradient), np.diag(expected))
        np.testing.assert_allclose(np.tril(gradient, -1), 2 * np.tril(expected, -1))
    # with respect to what makes A symmetric, it is the gradient everybody writes down
    through = bs.grad(lambda B: log_det(B @ B.T))(A)
    np.testing.assert_allclose(through, 2 * np.linalg.inv(A @ A.T) @ A)


@pytest.mark.parametrize("f", [np.linalg.cholesky, lambda A: np.linalg.cholesky(A, upper=True)])
def test_cholesky_of_an_indefinite_matrix_raises(f: Any) -> None:
    A = np.array([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        f(bs.tensor(A))
    with pytest.raises(np.linalg.LinAlgError):
        bs.grad(lambda A: np.sum(f(A)))(A)
    with pytest.raises(np.linalg.LinAlgError):
        bs.jit(f)(A)


@pytest.mark.parametrize("f", [np.linalg.inv, lambda A: np.linalg.solve(A, np.ones(2))])
def test_a_singular_matrix_raises(f: Any) -> None:
    with pytest.raises(np.linalg.LinAlgError, match=r"[Ss]ingular"):
        f(bs.tensor(np.ones((2, 2))))
    with pytest.raises(np.linalg.LinAlgError, match=r"[Ss]ingular"):
        bs.jit(f)(np.ones((2, 2)))


def test_a_triangular_matrix_with_a_zero_on_its_diagonal_raises() -> None:
    T = np.array([[1.0, 0.0], [1.0, 0.0]])
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        linalg.solve_triangular(T, np.ones(2), lower=True)
    np.testing.assert_array_equal(
        linalg.solve_triangular(T, np.ones(2), lower=True, unit_diagonal=True), [1.0, 0.0]
    )


def test_a_singular_matrix_has_a_determinant_but_no_gradient_of_its_logarithm() -> None:
    assert float(np.linalg.det(bs.tensor(np.ones((2, 2))))) == 0.0
    for compiled in (lambda f: f, bs.jit):
        with pytest.raises(np.linalg.LinAlgError, match=r"[Ss]ingular"):
            compiled(bs.grad(lambda a: np.linalg.slogdet(a)[1]))(np.ones((2, 2)))


def test_wrong_shapes_are_told() -> None:
    with pytest.raises(ShapeError, match=r"square.*\(2, 3\)"):
        np.linalg.cholesky(bs.tensor(np.ones((2, 3))))
    with pytest.raises(ShapeError, match=r"right-hand side.*\(3, 1\)"):
        np.linalg.solve(bs.tensor(np.eye(2)), np.ones(3))
    with pytest.raises(ShapeError, match="stacks"):
        np.linalg.solve(bs.tensor(np.zeros((2, 3, 3))), np.ones((4, 3, 1)))
    with pytest.raises(ValueError, match="trans"):
        linalg.solve_triangular(np.eye(2), np.ones(2), trans=3)


def test_higher_orders_and_batches() -> None:
    A, t = definite(3, 3), matrices(3)

    def f(s: Any) -> Any:
        L = np.linalg.cholesky(A + s * np.eye(3))
        z = linalg.solve_triangular(L, t, lower=True)
        return np.sum(z * z) + np.linalg.slogdet(L)[1]

    def exact(s: Any) -> Any:
        B = A + s * np.eye(3)
        return t @ np.linalg.inv(B) @ t + 0.5 * np.log(np.linalg.det(B))

    third, third_exact = f, exact
    for _ in range(3):
        third, third_exact = bs.grad(third), bs.grad(third_exact)
    np.testing.assert_allclose(third(0.3), third_exact(0.3))
    s = np.array([0.1, 0.2])
    np.testing.assert_allclose(bs.vmap(bs.grad(f))(s), [bs.grad(f)(0.1), bs.grad(f)(0.2)])
    hessian = bs.hessian(lambda b: np.sum(np.linalg.solve(A, b) ** 2))(t)
    inverse = np.linalg.inv(A)
    np.testing.assert_allclose(hessian, 2 * inverse.T @ inverse)


def likelihood(A: Any, b: Any) -> Any:
    L = np.linalg.cholesky(A)
    z = linalg.solve_triangular(L, b, lower=True)
    return np.sum(z * z) + np.sum(np.log(np.diagonal(L)))


def by_elimination(A: Any, b: Any) -> Any:
    return b @ np.linalg.solve(A, b) + np.linalg.slogdet(A)[1] + np.sum(np.linalg.inv(A))


def stacked(A: Any, b: Any) -> Any:
    As = np.stack([A, 2 * A, A.T]).reshape(3, 1, 4, 4)
    return np.sum(np.linalg.cholesky(As, upper=True)) + np.sum(np.linalg.solve(As, b[:, None]))


@pytest.mark.parametrize("f", [likelihood, by_elimination, stacked])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_compiled(f: Any, dtype: str) -> None:
    A, b = definite(4, 4).astype(dtype), matrices(4).astype(dtype)
    compiled, gradient = bs.jit(f), bs.jit(bs.grad(f, (0, 1)))
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"rtol": 1e-9}
    np.testing.assert_allclose(compiled(A, b), f(A, b), **tolerance)
    for x, y in zip(gradient(A, b), bs.grad(f, (0, 1))(A, b), strict=True):
        np.testing.assert_allclose(x, y, **{"atol": 1e-12, **tolerance})
    for made in (compiled, gradient):
        (stats,) = made.stats()["specialisations"]
        assert stats["native"], stats["reason"]


def test_compiled_code_eliminates_once() -> None:
    steps = bs.jit(bs.grad(by_elimination)).lower(definite(4, 4), matrices(4)).stages["steps"]
    assert steps.count("eliminate") == 1
    assert steps.count(": solve") == 2


def test_compiled_code_says_what_failed() -> None:
    f = bs.jit(likelihood)
    b = np.ones(2)
    expected = f(np.eye(2), b)
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        f(-np.eye(2), b)
    g = bs.jit(lambda T, b: linalg.solve_triangular(T, b, lower=True))
    np.testing.assert_array_equal(g(2 * np.eye(2), b), 0.5 * b)
    with pytest.raises(np.linalg.LinAlgError, match="zero on the diagonal"):
        g(np.diag([1.0, 0.0]), b)
    np.testing.assert_array_equal(f(np.eye(2), b), expected)


def test_compiled_triangular_systems_of_every_layout() -> None:
    A, B = matrices(2, 3, 3) + 2 * np.eye(3), matrices(2, 3, 2)

    def f(A: Any, B: Any) -> Any:
        found = [
            linalg.solve_triangular(A, B, trans, lower, unit) for trans, lower, unit in VARIANTS
        ]
        flipped = linalg.solve_triangular(A[:, ::-1, ::-1], B, lower=True)
        return [*found, flipped, linalg.solve_triangular(A[0, :2, :2], B[0, :2, 0])]

    compiled = bs.jit(f)
    for x, y in zip(compiled(A, B), f(A, B), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10)
    assert compiled.stats()["specialisations"][0]["native"]


def test_three_operands_are_split_even_if_a_pair_is_larger_than_all_of_them() -> None:
    args = matrices(20, 22), matrices(28, 22, 3, 4), matrices(20, 4)
    f = bs.jit(lambda a, b, c: np.einsum("vb,abij,vj->avi", a, b, c))
    np.testing.assert_allclose(
        f(*args), np.einsum("vb,abij,vj->avi", *args), rtol=1e-10, atol=1e-12
    )
    (stats,) = f.stats()["specialisations"]
    assert stats["native"], stats["reason"]


CONTRACTIONS = ["ii->i", "ii->", "ij->j", "iij->ji", "ij,jk,kl->li", "ij,ij->", "ij,ik->kij"]


@pytest.mark.parametrize("subscripts", CONTRACTIONS)
def test_compiled_contractions_and_their_gradients(subscripts: str) -> None:
    inputs = subscripts.split("->")[0].split(",")
    args = [matrices(*[3] * len(x)) for x in inputs]

    def f(*args: Any) -> Any:
        y = np.einsum(subscripts, *args)
        return np.sum(y * np.sin(y))

    compiled = bs.jit(bs.grad(f, tuple(range(len(args)))))
    expected = bs.grad(f, tuple(range(len(args))))(*args)
    for x, y in zip(compiled(*args), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    (stats,) = compiled.stats()["specialisations"]
    assert stats["native"], stats["reason"]


def test_the_namespace_is_numpys() -> None:
    assert linalg.cholesky is np.linalg.cholesky
    assert linalg.det is np.linalg.det
    assert bs.numpy.linalg is linalg
    assert {"solve_triangular", "cho_solve", "eigh"} <= set(dir(linalg))
    with pytest.raises(AttributeError):
        _ = linalg.no_such_function


def test_source_writes_systems() -> None:
    A, b = definite(2, 2), matrices(2)
    text = bs.source(
        lambda A, b: (np.linalg.solve(A, b[:, None]) @ b[None]) + np.linalg.cholesky(A), A, b
    )
    assert "np.linalg.solve(" in text
    assert "np.linalg.cholesky(" in text


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_compiled_products_with_a_factor(turned: bool, left: bool) -> None:
    A, B = definite(20, 20), matrices(20, 20)

    def f(A: Any, B: Any) -> Any:
        L = np.linalg.cholesky(A)
        L = L.T if turned else L
        return (L @ B[:, :16] if left else B[:16] @ L), L + 1, np.sum(L)

    compiled = bs.jit(f)
    for x, y in zip(compiled(A, B), f(A, B), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    assert "triangular product" in compiled.lower(A, B).stages["steps"]


IN_PLACE = {
    "triangular": lambda a, b: linalg.solve_triangular(a, b, lower=True),
    "twice": lambda a, b: linalg.solve_triangular(a, linalg.solve_triangular(a, b), trans=1) + b,
    "one for both": lambda a, b: linalg.solve_triangular(b @ b + 9 * np.eye(5), b @ b + a),
    "factor": lambda a, b: (np.linalg.cholesky(a), a @ b),
    "eliminated once": lambda a, b: (np.linalg.solve(a, b), np.linalg.solve(a.T, b)),
    "inverse": lambda a, b: (np.linalg.inv(a), b + a),
    "diagonal": lambda a, b: (np.diagonal(a) * 2, np.einsum("ii,ij->ij", b, a)),
}


@pytest.mark.parametrize("donate", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("f", IN_PLACE.values(), ids=IN_PLACE)
def test_what_is_solved_in_place_harms_nobody(f: Any, donate: tuple[int, ...]) -> None:
    A, B = definite(5, 5), matrices(5, 5)
    compiled = bs.jit(f, donate=donate)
    got, expected = compiled(A.copy(), B.copy()), f(A, B)
    pairs = zip(got, expected, strict=True) if isinstance(got, tuple) else [(got, expected)]
    for x, y in pairs:
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-10)
    assert compiled.stats()["specialisations"][0]["native"]


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_share_triangular_systems_and_products(threads: int) -> None:
    A, B = definite(2, 96, 96), matrices(2, 96, 70)

    def f(A: Any, B: Any) -> Any:
        L = np.linalg.cholesky(A)
        x = linalg.solve_triangular(L, B, lower=True)
        y = linalg.solve_triangular(np.swapaxes(L, 1, 2), x)
        return x, y, L @ B, np.swapaxes(B, 1, 2) @ L, np.swapaxes(L, 1, 2) @ B

    before = bs.get_threads()
    try:
        bs.set_threads(threads)
        got = bs.jit(f)(A, B)
    finally:
        bs.set_threads(before)
    for x, y in zip(got, f(A, B), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_compiled_systems_with_several_right_hand_sides(dtype: Any) -> None:
    """Rows are exchanged in compiled code, forth for A and back for Aᵀ."""
    rng = np.random.default_rng(0)
    A = rng.permutation(np.triu(rng.normal(size=(6, 6))) + 3 * np.eye(6)).astype(
        dtype
    )  # pivots move
    B = rng.normal(size=(6, 4)).astype(dtype)
    if dtype is np.complex128:
        A, B = A * (1 + 2j), B * (3 - 1j)
    for f in (np.linalg.solve, lambda A, B: np.linalg.solve(A.T, B)):
        np.testing.assert_allclose(bs.jit(f)(A, B), f(A, B), rtol=1e-12, atol=1e-13)
