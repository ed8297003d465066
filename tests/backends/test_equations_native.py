"""Equations between matrices in compiled code: all dtypes, sizes and structures, shared factors, refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.linalg

import backsolve as bs
from backsolve.primitive import P
from backsolve.testing.backends import check_compiled

L = bs.scipy.linalg
DTYPES = (np.float32, np.float64, np.complex64, np.complex128)
RNG = np.random.default_rng(3)


def drawn(shape, dtype):
    a = RNG.normal(size=shape)
    return (a + 1j * RNG.normal(size=shape) if np.dtype(dtype).kind == "c" else a).astype(dtype)


def residual(y, a):
    return np.linalg.norm(y @ y - a) / np.linalg.norm(a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 40])
def test_square_roots(n, dtype):
    """Squares of random matrices: of real ones some eigenvalues come in pairs."""
    eps, found = np.finfo(dtype).eps, 0
    for _ in range(6):
        a = drawn((n, n), dtype)
        a = (a @ a).astype(dtype)
        expected = scipy.linalg.sqrtm(a)
        has_none = np.dtype(dtype).kind == "f" and np.iscomplexobj(expected)
        if has_none and np.any(expected.imag):
            with pytest.raises(np.linalg.LinAlgError, match="no real square root"):
                bs.jit(L.sqrtm)(a)
            continue
        y, found = bs.jit(L.sqrtm)(a), found + 1
        assert y.dtype == dtype
        assert residual(y, a) <= 30 * residual(expected.astype(dtype), a) + 30 * n * eps
    assert found


def test_roots_of_blocks():
    for a, b in ((3.0, 2.0), (-3.0, 0.5), (0.0, 1e-3), (1e-200, 1e200), (-1e160, 1e150)):
        turned = np.array([[a, -b], [b, a]])
        scale = max(abs(a), abs(b))
        y = bs.jit(L.sqrtm)(turned) / np.sqrt(scale)
        np.testing.assert_allclose(y @ y, turned / scale, atol=1e-14)


def test_roots_of_singular_matrices():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)
        for a in (np.zeros((3, 3)), np.diag([4.0, 0.0, 1.0]), np.outer([1.0, 2.0], [1.0, 2.0])):
            try:
                expected = P.sqrtm(a)
            except np.linalg.LinAlgError:
                continue  # an eigenvalue that rounding made negative
            if not np.isfinite(expected).all():
                continue  # SciPy 1.18 divides by the sum of two eigenvalues that are 0, and warns
            np.testing.assert_allclose(bs.jit(L.sqrtm)(a), expected, atol=1e-7)
    np.testing.assert_array_equal(bs.jit(L.sqrtm)(np.zeros((3, 3))), np.zeros((3, 3)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (5, 2), (30, 20)])
def test_sylvester(m, n, dtype):
    args = [drawn(s, dtype) for s in ((2, m, m), (2, n, n), (2, m, n))]
    args[0] += (m + 2) * np.eye(m, dtype=dtype)
    args[1] += (n + 2) * np.eye(n, dtype=dtype)
    assert check_compiled(lambda *a: P.sylvester(*a), args, ulps=1e4)


def test_half_precision():
    a = (drawn((3, 3), np.float64) * 0.1 + np.eye(3)).astype(np.float16)
    for f in (lambda a: P.sqrtm(a), lambda a: P.sylvester(a, a, a)):
        assert f(a).dtype == np.float16
        assert check_compiled(f, [a], ulps=8)
        assert check_compiled(bs.grad(lambda a, f=f: np.sum(f(a))), [a], ulps=16)
    banded = lambda a: P.banded_solve(a, a.T, lower=1, upper=1)
    assert check_compiled(
        banded, [np.tile(np.eye(3)[1], (3, 1)).astype(np.float16) + a / 8], ulps=64
    )


def test_dtypes_mix():
    a, b = drawn((3, 3), np.float64), drawn((2, 2), np.complex64)
    q = drawn((3, 2), np.float32)
    assert check_compiled(lambda *x: P.sylvester(*x), [a, b, q], ulps=1e3)
    bands, right = drawn((3, 4), np.float32), drawn((4, 2), np.complex128)
    for x, y in ((bands, right), (bands.astype(complex), right.real.copy())):
        assert check_compiled(lambda a, b: P.banded_solve(a, b, lower=1, upper=1), [x, y], ulps=1e4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("lower", "upper"), [(0, 0), (1, 1), (2, 1), (0, 3), (3, 0), (4, 4)])
@pytest.mark.parametrize("n", [1, 2, 6, 50])
def test_banded_systems(n, lower, upper, dtype):
    bands, right = drawn((2, lower + upper + 1, n), dtype), drawn((2, n, 3), dtype)
    bands[:, upper] += 6
    outside = bands.copy()  # corners that are not read
    for d in range(lower + upper + 1):
        i = np.arange(n) + d - upper
        outside[:, d, (i < 0) | (i >= n)] = np.nan
    call = lambda a, b: P.banded_solve(a, b, lower=lower, upper=upper)
    assert check_compiled(call, [bands, right], ulps=1e3)
    np.testing.assert_array_equal(bs.jit(call)(outside, right), bs.jit(call)(bands, right))


def test_schur_forms_are_shared():
    def steps(f, *args):
        return bs.jit(f).lower(*args).stages["steps"].count("schur ")

    a = drawn((4, 4), np.float64) + 4 * np.eye(4)
    b, q = a.T.copy(), drawn((4, 4), np.float64)
    for dtype in (float, complex):
        total = lambda a, b, q: np.sum(np.abs(L.solve_sylvester(a, b, q)))
        gradient = bs.grad(total, argnums=(0, 1, 2))
        args = [x.astype(dtype) for x in (a, b, q)]
        assert steps(gradient, *args) == 2
        assert check_compiled(gradient, args, ulps=1e4)
        root = bs.grad(lambda a: np.sum(np.abs(L.sqrtm(a)) ** 2))
        assert steps(root, (a @ a.T).astype(dtype)) == 1
        assert check_compiled(root, [(a @ a.T).astype(dtype)], ulps=1e4)


def test_refusals():
    def raised(f, *args):
        errors = []
        for call in (f, bs.jit(f)):
            with pytest.raises(ValueError) as error:  # noqa: PT011 - its type and words are compared
                call(*args)
            errors.append((type(error.value), str(error.value)[:15]))
        assert errors[0] == errors[1]
        return errors[0][0]

    singular = np.linalg.LinAlgError
    for n, lower, upper in ((1, 0, 0), (1, 1, 1), (3, 1, 1), (3, 2, 1)):
        bands = np.zeros((lower + upper + 1, n))
        call = lambda a, lower=lower, upper=upper, n=n: P.banded_solve(
            a, np.ones((n, 1)), lower=lower, upper=upper
        )
        assert raised(call, bands) is singular
    eye = np.eye(2)
    assert raised(lambda a: P.sylvester(a, -a, eye), np.array([[1.0, 2.0], [0.0, 3.0]])) is singular
    not_finite = np.array([[1.0, np.nan], [1.0, 2.0]])
    assert raised(lambda a: P.sylvester(a, eye, eye), not_finite) is singular
    assert raised(lambda a: P.sqrtm(a), not_finite) is singular
    assert raised(lambda a: P.sqrtm(a), not_finite + 1j) is singular
    assert issubclass(raised(lambda a: P.sqrtm(a), -eye), singular)


def test_empty_ones_and_loops():
    assert check_compiled(lambda a: P.sqrtm(a), [np.zeros((0, 0))])
    assert check_compiled(lambda a: P.sqrtm(a), [np.zeros((0, 2, 2))])
    assert check_compiled(lambda a, q: P.sylvester(a, a, q), [np.zeros((0, 0)), np.zeros((0, 0))])
    call = lambda a, b: P.banded_solve(a, b, lower=1, upper=0)
    assert check_compiled(call, [np.ones((2, 3)), np.ones((3, 0))])

    def repeated(a):
        for _ in range(3):
            a = L.sqrtm(a) + np.eye(3)
        return a

    a = drawn((3, 3), np.float64)
    a = a @ a.T
    np.testing.assert_allclose(bs.jit(repeated)(a), repeated(bs.tensor(a)).value, rtol=1e-10)
