"""Decompositions: NumPy's values, derivatives of what depends on nobody's choice, and what has none."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import backsolve as bs
import backsolve.numpy as bnp
from backsolve.errors import NotDifferentiableError
from backsolve.testing import check_grads

RNG = np.random.default_rng(5)
SQUARE = RNG.normal(size=(2, 4, 4))
TALL = RNG.normal(size=(5, 3))
COMPLEX = TALL + 1j * RNG.normal(size=(5, 3))
SYMMETRIC = SQUARE + np.swapaxes(SQUARE, -1, -2)
HERMITIAN = SYMMETRIC + 1j * (SQUARE - np.swapaxes(SQUARE, -1, -2))


def adjoint(a):
    return np.conjugate(np.swapaxes(a, -1, -2))


VALUES = [
    (np.linalg.eigh, SYMMETRIC, {}),
    (np.linalg.eigh, HERMITIAN, {"UPLO": "U"}),
    (np.linalg.eigvalsh, HERMITIAN, {}),
    (np.linalg.eig, SQUARE, {}),
    (np.linalg.eig, SYMMETRIC, {}),
    (np.linalg.eigvals, SYMMETRIC, {}),
    (np.linalg.eigvals, HERMITIAN * 1j, {}),
    (np.linalg.svd, SQUARE, {}),
    (np.linalg.svd, TALL, {"full_matrices": False}),
    (np.linalg.svd, TALL.T, {"full_matrices": False}),
    (np.linalg.svd, COMPLEX, {"compute_uv": False}),
    (np.linalg.svd, SYMMETRIC, {"hermitian": True, "compute_uv": False}),
    (np.linalg.svdvals, TALL, {}),
    (np.linalg.qr, TALL, {}),
    (np.linalg.qr, TALL.T, {}),
    (np.linalg.qr, COMPLEX, {"mode": "r"}),
    (np.linalg.pinv, TALL, {}),
    (np.linalg.pinv, COMPLEX.T, {"rcond": 1e-8}),
    (np.linalg.cond, SQUARE, {}),
    (np.linalg.cond, SQUARE, {"p": -2}),
    (np.linalg.cond, SQUARE, {"p": "fro"}),
    (np.linalg.cond, SQUARE, {"p": np.inf}),
    (np.linalg.norm, TALL, {"ord": 2}),
    (np.linalg.norm, TALL, {"ord": -2}),
    (np.linalg.norm, SQUARE, {"ord": "nuc", "axis": (0, 2), "keepdims": True}),
    (np.linalg.matrix_norm, SQUARE, {"ord": 2}),
    (np.linalg.matrix_rank, TALL, {}),
]


@pytest.mark.parametrize(("f", "a", "options"), VALUES)
def test_numpys_values_eager_and_compiled(f, a, options):
    expected = f(a, **options)
    results = [f(bs.tensor(a, requires_grad=vary), **options) for vary in (False, True)]
    if f not in (np.linalg.eig, np.linalg.eigvals):  # which look at values
        results.append(bs.jit(lambda a: f(a, **options))(a))
    for got in results:
        parts = (
            zip(got, expected, strict=True) if isinstance(expected, tuple) else [(got, expected)]
        )
        for x, y in parts:
            x = np.asarray(bs.stop_gradient(x))
            assert x.dtype == np.asarray(y).dtype
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


def recomposed(a):
    w, V = np.linalg.eigh(a)
    return np.abs(V) ** 2, np.real((V * np.exp(w / 9)[..., None, :]) @ adjoint(V)), w


def factors(a):
    U, s, Vh = np.linalg.svd(a, full_matrices=False)
    return np.abs(U), s, np.abs(Vh), np.real((U * np.sqrt(s)) @ Vh)


def triangles(a):
    _, L, U = bnp.linalg.lu(a)
    return np.real(L), np.real(U), np.imag(L @ U)


def squares(a):
    x, rest, _, s = np.linalg.lstsq(a, np.arange(10.0).reshape(5, 2), rcond=None)
    return np.real(x), rest, s


SMOOTH = [
    (recomposed, SYMMETRIC),
    (recomposed, HERMITIAN[0]),
    (factors, TALL),
    (factors, COMPLEX),
    (factors, COMPLEX.T),
    (lambda a: np.linalg.qr(a), TALL.T),
    (triangles, SQUARE[0]),
    (triangles, TALL),
    (triangles, COMPLEX.T),
    (lambda a: bnp.linalg.lu(a, permute_l=True), SQUARE),
    (squares, TALL),
    (lambda a: np.linalg.norm(a, "nuc"), COMPLEX),
    (lambda a: np.linalg.cond(a), TALL),
    (lambda a: np.abs(np.linalg.eigvals(a)), SQUARE),
    (lambda a: bnp.linalg.expm(a / 3), SQUARE),
]


@pytest.mark.parametrize(("f", "a"), SMOOTH)
def test_derivatives_of_both_modes_and_two_orders(f, a):
    check_grads(f, (np.array(a),), order=2)


@pytest.mark.parametrize(("f", "a"), [(recomposed, SYMMETRIC), (factors, TALL), (squares, TALL)])
def test_compiled_and_batched_gradients(f, a):
    def loss(a):
        return sum(np.sum(np.sin(y)) for y in f(a))

    expected = bs.grad(loss)(a)
    np.testing.assert_allclose(bs.jit(bs.grad(loss))(a), expected, rtol=1e-9, atol=1e-12)
    twice = bs.vmap(bs.grad(loss))(np.stack([a, 2 * a]))
    np.testing.assert_allclose(twice[0], expected, rtol=1e-9, atol=1e-12)


def test_scipys_values():
    a = RNG.normal(size=(4, 3))
    for got, expected in zip(bnp.linalg.lu(a), scipy.linalg.lu(a), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-14)
    np.testing.assert_allclose(bnp.linalg.expm(SQUARE), scipy.linalg.expm(SQUARE), rtol=1e-12)


def test_deficient_rank():
    a = np.outer(np.arange(1.0, 5), [1.0, 2.0, -1.0])
    loss = lambda a, b: np.sum(
        np.linalg.pinv(np.outer(a, b)) ** 2
    )  # of rank one, whatever they are
    check_grads(loss, (np.arange(1.0, 5), np.array([1.0, 2.0, -1.0])))
    nuclear = bs.grad(lambda a: np.linalg.norm(a, "nuc"))(a)
    U, _, Vh = np.linalg.svd(a, full_matrices=False)
    np.testing.assert_allclose(U[:, 0] @ nuclear @ Vh[0], 1.0)  # along the one direction there is


def test_repeated_values():
    eye = np.eye(3)
    np.testing.assert_allclose(bs.grad(lambda a: np.sum(np.linalg.eigvalsh(a) ** 2))(eye), 2 * eye)
    np.testing.assert_allclose(bs.grad(lambda a: np.sum(np.linalg.eigh(a)[0] ** 2))(eye), 2 * eye)
    np.testing.assert_allclose(bs.grad(lambda a: np.linalg.norm(a, "nuc"))(eye), eye)
    weights = RNG.normal(size=(3, 3))

    def root(a):
        w, V = np.linalg.eigh(a)
        return np.sum(weights * ((V * np.sqrt(w)) @ V.T))

    for gradient in (bs.grad(root), bs.jit(bs.grad(root))):
        with pytest.raises(NotDifferentiableError, match="repeated"):
            gradient(eye)
    with pytest.raises(NotDifferentiableError, match="repeated"):
        bs.grad(lambda a: np.sum(weights * (np.linalg.svd(a)[0] @ weights)))(eye)


@pytest.mark.parametrize("a", [TALL, TALL.T])
@pytest.mark.parametrize(
    ("whole", "reduced"),
    [
        (lambda a: np.linalg.svd(a)[1], lambda a: np.linalg.svd(a, full_matrices=False)[1]),
        (lambda a: np.linalg.qr(a, "complete")[1][:3], lambda a: np.linalg.qr(a)[1][:3]),
    ],
)
def test_what_does_not_rest_on_completed_bases_has_derivatives(a, whole, reduced):
    check_grads(whole, [a])
    for way in (bs.jacobian, lambda f: bs.jit(bs.jacobian(f))):
        np.testing.assert_allclose(way(whole)(a), bs.jacobian(reduced)(a), atol=1e-12)


def test_bases_that_are_completed_have_no_derivative():
    with pytest.raises(NotDifferentiableError, match="full_matrices=False"):
        bs.grad(lambda a: np.sum(np.linalg.svd(a)[0]))(TALL)
    with pytest.raises(NotDifferentiableError, match="reduced"):
        bs.grad(lambda a: np.sum(np.linalg.qr(a, mode="complete")[0]))(TALL)
    assert np.linalg.svd(bs.tensor(TALL))[0].shape == (5, 5)
    assert np.linalg.qr(bs.tensor(TALL), mode="complete")[0].shape == (5, 5)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 0)])
def test_empty_matrices(shape):
    a = np.zeros(shape)
    assert bs.grad(lambda a: np.sum(np.linalg.svd(a, full_matrices=False)[1]))(a).shape == shape
    assert np.linalg.pinv(bs.tensor(a)).shape == (*shape[:-2], shape[-1], shape[-2])
    if shape[-1] == shape[-2]:
        assert bs.grad(lambda a: np.sum(np.linalg.eigh(a)[1]))(a).shape == shape
        assert bs.grad(lambda a: np.sum(np.abs(np.linalg.eig(a)[1])))(a).shape == shape


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: np.linalg.eigh(bs.tensor([1.0, 2.0])), np.linalg.LinAlgError),
        (lambda: np.linalg.eigh(bs.tensor(TALL)), ValueError),
        (lambda: np.linalg.eigh(bs.tensor(SQUARE), "X"), ValueError),
        (lambda: np.linalg.norm(bs.tensor(TALL), 3), ValueError),
        (lambda: np.linalg.qr(bs.tensor(TALL), mode="economic"), ValueError),
        (lambda: np.linalg.lstsq(bs.tensor(TALL), np.ones(4)), np.linalg.LinAlgError),
        (lambda: bnp.linalg.expm(bs.tensor(TALL)), ValueError),
        (lambda: bnp.linalg.lu(bs.tensor(np.zeros((2, 2)))), np.linalg.LinAlgError),
    ],
)
def test_mistakes(call, kind):
    with pytest.raises(kind):
        call()


def test_the_standards_eigenvalues_are_complex():
    w, V = bnp.linalg.eig(bnp.asarray(SYMMETRIC))
    assert w.dtype == V.dtype == np.complex128
    assert bnp.linalg.eigvals(bnp.asarray(SYMMETRIC[0].astype(np.float32))).dtype == np.complex64


@pytest.mark.parametrize(
    ("f", "products"),
    [
        (lambda a: np.linalg.eigh(a)[0], 1),  # (V w̄) Vᵀ
        (np.linalg.eigvalsh, 1),
        (lambda a: np.linalg.svd(a, full_matrices=False)[1], 1),
        (np.linalg.svdvals, 1),
        (lambda a: np.linalg.eigh(a)[1], 3),  # V ((Vᵀ V̄) / gaps) Vᵀ
        (lambda a: np.linalg.svd(a, full_matrices=False)[0], 3),
        (lambda a: np.linalg.qr(a)[1], 2),  # Q upper(R̄ Rᵀ) R⁻ᵀ
        (lambda a: np.concatenate(np.linalg.svd(a, full_matrices=False)[::2]), 4),
    ],
)
def test_gradients_take_as_few_products_as_they_can(f, products):
    compiled = bs.jit(bs.grad(lambda a: np.sum(np.sin(f(a)))))
    assert str(compiled.lower(np.eye(30))).count("product (30, 30) × (30, 30)") == products


@pytest.mark.parametrize("a", [TALL, TALL.T, TALL + 1j * TALL[::-1], np.stack([TALL, 2 * TALL])])
def test_full_bases_are_compiled(a):
    U, s, Vh = bs.jit(np.linalg.svd)(bs.tensor(a))
    U, s, Vh = (np.asarray(x) for x in (U, s, Vh))
    k = s.shape[-1]
    np.testing.assert_allclose((U[..., :k] * s[..., None, :]) @ Vh[..., :k, :], a, atol=1e-12)
    for Q in (U, Vh):
        np.testing.assert_allclose(
            Q @ np.conj(Q.swapaxes(-1, -2)),
            np.broadcast_to(np.eye(Q.shape[-1]), Q.shape),
            atol=1e-12,
        )
    Q, R = (np.asarray(x) for x in bs.jit(lambda a: np.linalg.qr(a, "complete"))(bs.tensor(a)))
    assert Q.shape[-1] == Q.shape[-2] == R.shape[-2]
    np.testing.assert_allclose(Q @ R, a, atol=1e-12)


def test_full_bases_have_no_derivative_in_compiled_code_either():
    f = bs.jit(lambda a: np.sum(np.linalg.svd(a)[0]))
    assert np.isfinite(f(TALL))
    for g in (bs.grad(f), bs.jit(bs.grad(f))):
        with pytest.raises(NotDifferentiableError, match="full_matrices=False"):
            g(TALL)


@pytest.mark.parametrize("rtol", [0.4, np.array([1e-3, 0.9])])
def test_a_pseudo_inverse_with_a_bound_that_is_traced(rtol):
    a = np.stack([TALL, TALL + np.eye(*TALL.shape)])
    f = bs.jit(lambda a, r: bnp.linalg.pinv(a, rtol=r))
    np.testing.assert_allclose(f(a, rtol), np.linalg.pinv(a, rtol=rtol), atol=1e-12)
    slope = lambda rtol: bs.grad(lambda a: np.sum(np.sin(bnp.linalg.pinv(a, rtol=rtol))))
    traced = bs.jit(lambda a, r: slope(r)(a))
    np.testing.assert_allclose(traced(a, rtol), slope(rtol)(a), atol=1e-10)


@pytest.mark.parametrize("a", [TALL, TALL.T, COMPLEX, SQUARE[0]])
def test_a_pseudo_inverse_that_leaves_large_values_out(a):
    s = np.linalg.svd(a, compute_uv=False)
    cut = float((s[1] + s[2]) / 2 / s[0])
    check_grads(lambda a: np.linalg.pinv(a, cut), (a,))
    check_grads(lambda a: np.linalg.lstsq(a, np.ones(a.shape[0]), cut)[0], (a,), order=1)


def test_a_bound_of_pinv_that_varies_is_constant():
    a = np.diag([1.0, 1e-3])
    got = bs.grad(lambda a, r: np.linalg.pinv(a, r)[0, 0], (0, 1))(a, 0.1)
    np.testing.assert_allclose(got[0], [[-1.0, 0.0], [0.0, 0.0]], atol=1e-12)
    assert got[1] == 0
