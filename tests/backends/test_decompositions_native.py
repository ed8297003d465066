"""Decompositions inside of compiled programs: NumPy's values, signs included, and eager mode's derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import backsolve as bs
import backsolve.numpy as bnp
from backsolve.errors import NotDifferentiableError
from backsolve.primitive import P

DTYPES = ["float32", "float64", "complex64", "complex128"]
SHAPES = [(5, 3), (3, 5), (2, 3, 6, 6), (40, 40), (2, 0, 0), (0, 3, 3)]
DECOMPOSED = {
    "eigh": lambda a: np.linalg.eigh(a),
    "eigh of the upper triangle": lambda a: np.linalg.eigh(a, UPLO="U"),
    "eigenvalues of eigh": lambda a: np.linalg.eigh(a)[0],
    "eigvalsh": lambda a: np.linalg.eigvalsh(a),
    "svd": lambda a: np.linalg.svd(a, full_matrices=False),
    "singular values of svd": lambda a: np.linalg.svd(a, full_matrices=False)[1],
    "svdvals": lambda a: np.linalg.svdvals(a),
    "qr": lambda a: np.linalg.qr(a),
    "triangle of qr": lambda a: np.linalg.qr(a)[1],
    "qr, mode r": lambda a: np.linalg.qr(a, mode="r"),
    "complete qr": lambda a: np.linalg.qr(a, mode="complete"),
    "pinv": lambda a: np.linalg.pinv(a),
}
SQUARE = ("eigh", "eigh of the upper triangle", "eigenvalues of eigh", "eigvalsh")


def matrix(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.normal(size=shape)
    return a.astype(dtype)


def parts(y):
    return [np.asarray(x) for x in y] if isinstance(y, tuple) else [np.asarray(y)]


def assert_native(f):
    (made,) = f.stats()["specialisations"]
    assert made["native"]
    assert not made["elsewhere"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DECOMPOSED)
def test_numpys_values(name, dtype):
    for shape in SHAPES:
        if name in SQUARE and shape[-1] != shape[-2]:
            continue
        a = matrix(shape, dtype)
        compiled = bs.jit(DECOMPOSED[name])
        for x, y in zip(parts(compiled(a)), parts(DECOMPOSED[name](a)), strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            rounding = 500 * np.finfo(dtype).eps * max(1.0, np.max(np.abs(y), initial=0))
            np.testing.assert_allclose(x, y, rtol=0, atol=rounding, err_msg=f"{name} {shape}")
        assert_native(compiled)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (30, 30), (0, 0)])
def test_numpys_eigenvalues_of_any_matrix(shape, dtype):
    a = matrix(shape, dtype)
    wide = np.result_type(dtype, np.complex64)
    tolerance = {"rtol": 0, "atol": 1e4 * np.finfo(dtype).eps}
    values, both = bs.jit(np.linalg.eigvals), bs.jit(lambda a: tuple(np.linalg.eig(a)))
    np.testing.assert_allclose(values(a), np.linalg.eigvals(a).astype(wide), **tolerance)
    (w, v), theirs = both(a), np.linalg.eig(a)
    assert (w.dtype, v.dtype, v.shape) == (wide, wide, a.shape)
    np.testing.assert_allclose(w, theirs[0], **tolerance)
    # Vectors up to a sign: NumPy and SciPy may bring different versions of LAPACK.
    np.testing.assert_allclose(a @ v, v * w[..., None, :], **tolerance)
    along = np.abs(np.sum(np.conj(v) * theirs[1], axis=-2))
    np.testing.assert_allclose(along, np.ones_like(along), **tolerance)
    assert_native(values)
    assert_native(both)


def test_real_and_complex_pairs():
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    a = np.zeros((5, 5))
    a[:2, :2], a[2, 2], a[3:, 3:] = turn, 3.0, 2 * turn
    for x, y in zip(bs.jit(lambda a: tuple(np.linalg.eig(a)))(a), np.linalg.eig(a), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-14)


def weighted(f):
    """A smooth function of all that f gives; of vectors, of their sizes."""

    def loss(a):
        total = 0.0
        for k, y in enumerate(f(a) if isinstance(f(a), tuple) else (f(a),)):
            weights = np.cos(np.arange(y.size) + k).reshape(y.shape)
            total = total + np.sum(weights * np.abs(y) ** 2)
        return total

    return loss


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", ["eigh", "eigvalsh", "svd", "svdvals", "qr", "qr, mode r"])
def test_gradients(name, dtype):
    for shape in [(2, 4, 4), (5, 3), (3, 5)]:
        if name in SQUARE and shape[-1] != shape[-2]:
            continue
        a, loss = matrix(shape, dtype), weighted(DECOMPOSED[name])
        expected, compiled = bs.grad(loss)(a), bs.jit(bs.grad(loss))
        scale = np.max(np.abs(expected))
        np.testing.assert_allclose(compiled(a), expected, rtol=0, atol=1e-9 * scale)
        assert_native(compiled)


def test_gradients_of_eigenvalues_of_any_matrix():
    loss = lambda a: np.sum(np.abs(np.linalg.eigvals(a)) ** 3)
    a = matrix((6, 6), "float64")
    compiled = bs.jit(bs.grad(loss))
    np.testing.assert_allclose(compiled(a), bs.grad(loss)(a), rtol=1e-9, atol=1e-12)
    assert_native(compiled)


def test_repeated_values_and_deficient_rank():
    eye = np.eye(3)
    values = bs.jit(bs.grad(lambda a: np.sum(np.linalg.eigh(a)[0] ** 2)))
    np.testing.assert_allclose(values(eye), 2 * eye)
    lengths = bs.jit(bs.grad(lambda a: np.linalg.norm(a, "nuc")))
    low = np.outer([1.0, 2.0, 3.0], [1.0, -1.0])
    np.testing.assert_allclose(lengths(low), bs.grad(lambda a: np.linalg.norm(a, "nuc"))(low))
    for f in (lambda a: np.linalg.eigh(a)[1], lambda a: np.linalg.svd(a)[0]):
        vectors = bs.jit(bs.grad(lambda a, f=f: np.sum(np.sin(f(a)))))
        with pytest.raises(NotDifferentiableError, match="repeated"):
            vectors(eye)
        assert np.all(np.isfinite(vectors(matrix((3, 3), "float64"))))  # it is not spoilt


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("f", [np.linalg.eig, np.linalg.eigvals])
def test_what_is_not_finite_is_refused(f, bad):
    a = matrix((4, 4), "complex128")
    a[1, 2] = bad
    compiled = bs.jit(lambda a: f(a))
    for run in (f, compiled):
        with pytest.raises(np.linalg.LinAlgError, match="infs or NaNs"):
            run(a)
    compiled(matrix((4, 4), "complex128"))


def test_no_convergence_is_an_error_as_in_numpy():
    a = np.full((5, 5), np.nan)
    for f, message in [(np.linalg.svd, "SVD did not"), (np.linalg.eigvalsh, "Eigenvalues did not")]:
        try:
            f(a)
        except np.linalg.LinAlgError:
            with pytest.raises(np.linalg.LinAlgError, match=message):
                bs.jit(lambda a, f=f: f(a))(a)
        else:  # some versions of LAPACK give NaN
            assert np.all(np.isnan(bs.jit(lambda a, f=f: f(a))(a)[0]))


def test_batches():
    a = matrix((6, 4, 4), "float64")
    for name, f in DECOMPOSED.items():
        compiled = bs.jit(bs.vmap(weighted(f)))
        expected = [weighted(f)(x) for x in a]
        np.testing.assert_allclose(compiled(a), expected, rtol=1e-9, err_msg=name)
        assert_native(compiled)


@pytest.mark.parametrize("n", [2, 3, 12])
def test_inside_of_loops(n):
    def f(a, rounds):
        total = 0.0
        for k in range(rounds):
            w, V = np.linalg.eigh(a)
            Q, R = np.linalg.qr(a + k)
            s = np.linalg.svd(Q @ R * 0.5, full_matrices=False)[1]
            total = total + np.sum(w**2) + np.sum(np.abs(V[0])) + s[0]
            a = a * 0.9 + V * 0.01
        return total

    a = matrix((n, n), "float64")
    a = a + a.T
    np.testing.assert_allclose(bs.jit(f)(a, 4), f(a, 4), rtol=1e-10)
    expected = bs.grad(f)(a, 4)
    for run in (bs.jit(bs.grad(f)), bs.grad(bs.jit(f))):
        np.testing.assert_allclose(run(a, 4), expected, rtol=1e-7, atol=1e-9)


def test_arguments_in_other_orders_and_as_parts():
    a = matrix((9, 8), "float64")
    f = lambda a: np.linalg.svd(a[1:8:2, ::2].T, full_matrices=False)
    for x, y in zip(bs.jit(f)(np.asfortranarray(a)), f(a), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-13)


def test_the_matrix_is_left_as_it_was():
    a = matrix((5, 5), "float64")
    before = a.copy()
    for f in DECOMPOSED.values():
        bs.jit(f)(a)
        np.testing.assert_array_equal(a, before)
    twice = bs.jit(lambda a: (np.linalg.qr(a)[1], a * 2, np.linalg.svd(a)[1]))
    np.testing.assert_array_equal(twice(a)[1], 2 * before)


@pytest.mark.parametrize(
    ("f", "step"),
    [
        (lambda a: np.linalg.svd(a)[1], "svdvals"),
        (lambda a: np.linalg.svd(a)[2], "svd"),
        (lambda a: np.linalg.eigh(a)[0], "eigvalsh"),
        (lambda a: np.linalg.eigh(a)[1][0], "eigh"),
        (lambda a: np.linalg.qr(a)[1], "r of qr"),
        (lambda a: np.linalg.qr(a)[0], "qr"),
    ],
)
def test_what_nobody_reads_is_not_computed(f, step):
    assert f": {step} (1, 20, 20)" in str(bs.jit(lambda a: np.sum(f(a))).lower(np.eye(20)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (2, 3, 5), (150, 150), (0, 0), (3, 0)])
def test_scipys_triangles(shape, dtype):
    a = matrix(shape, dtype)
    compiled = bs.jit(lambda a: bnp.linalg.lu(a))
    if a.size:
        for x, y in zip(compiled(a), bnp.linalg.lu(a), strict=True):
            assert np.asarray(x).dtype == np.asarray(y).dtype
            np.testing.assert_allclose(x, y, rtol=0, atol=1e4 * np.finfo(dtype).eps)
    else:
        assert [x.shape for x in compiled(a)] == [y.shape for y in bnp.linalg.lu(a)]
    assert_native(compiled)


def test_gradients_of_triangles_and_inverses():
    for f in (lambda a: bnp.linalg.lu(a)[1:], lambda a: (np.linalg.pinv(a),)):
        for a in (matrix((70, 70), "float64"), matrix((2, 4, 4), "complex128")):
            loss = weighted(f)
            expected, compiled = bs.grad(loss)(a), bs.jit(bs.grad(loss))
            scale = np.max(np.abs(expected))
            np.testing.assert_allclose(compiled(a), expected, rtol=0, atol=1e-9 * scale)
            assert_native(compiled)


def test_a_pivot_of_zero():
    compiled = bs.jit(lambda a: P.lu(a))
    with pytest.raises(np.linalg.LinAlgError, match="pivot of 0"):
        compiled(np.zeros((3, 3)))
    np.testing.assert_allclose(compiled(np.diag([1.0, 2.0, 0.0])), np.diag([1.0, 2.0, 0.0]))


EXPONENTS = {
    "small": matrix((3, 4, 4), "float64") * 0.01,
    "as it comes": matrix((2, 2, 7, 7), "complex128"),
    "large": matrix((6, 6), "float64") * 20,
    "one number": np.array([[0.3]]),
    "of single precision": matrix((5, 5), "float32"),
    "upper triangle": np.triu(matrix((6, 6), "float64", 3)) * 10,
    "lower triangle of large numbers": np.tril(np.ones((5, 5)), -1) * 1e4,
    "upper triangle of large numbers": np.triu(np.ones((5, 5)), 1) * 1e4,
    "zeros": np.zeros((3, 3)),
    "nothing": np.zeros((2, 0, 0)),
}


@pytest.mark.parametrize("name", EXPONENTS)
def test_exponentials(name):
    a = EXPONENTS[name]
    compiled = bs.jit(lambda a: bnp.linalg.expm(a))
    expected = scipy.linalg.expm(a) if a.size else a
    rounding = 3e4 * np.finfo(a.dtype).eps * np.max(np.abs(expected), initial=0)
    got = compiled(a)
    assert got.dtype == a.dtype
    np.testing.assert_allclose(got, expected, rtol=0, atol=rounding)
    assert_native(compiled)


def test_exponentials_that_are_not_numbers():
    bad = np.array([np.full((2, 2), np.nan), np.zeros((2, 2))])
    got = bs.jit(lambda a: bnp.linalg.expm(a))(bad)
    assert np.all(np.isnan(got[0]))
    np.testing.assert_allclose(got[1], np.eye(2), rtol=1e-15)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_gradients_of_exponentials(size):
    a, weights = matrix((2, 4, 4), "float64"), size * matrix((4, 4), "float64", 1)
    loss = lambda a: np.sum(weights * bnp.linalg.expm(a))
    compiled = bs.jit(bs.grad(loss))
    np.testing.assert_allclose(compiled(a), bs.grad(loss)(a), rtol=0, atol=1e-10 * size)
    assert_native(compiled)


def test_a_long_program_raises_too():
    def f(a):
        for k in range(40):
            a = np.cos(a[k % 4]) * 0.1 + np.roll(a, 1, 0) @ a / (1 + np.sum(a * a))
            a = a + np.eye(4) * k / 40
        return np.linalg.eigvals(a)

    compiled = bs.jit(f)
    a = matrix((4, 4), "float64")
    np.testing.assert_allclose(compiled(a), f(a), rtol=1e-8)
    a[0, 0] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match="infs or NaNs"):
        compiled(a)
