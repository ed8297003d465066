"""LAPACK's routines of complex matrices in compiled code: blocks, stacks, threads, derivatives, failures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native.cholesky import BLOCK, SHARED
from backsolve.primitives.linalg import triangular_solve
from backsolve.testing.backends import check_compiled

rng = np.random.default_rng(0)


def matrices(*shape: int) -> Any:
    drawn = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return drawn / shape[-1] + 2 * np.eye(shape[-1])


def definite(*shape: int) -> Any:
    a = matrices(*shape)
    return a @ np.conj(np.swapaxes(a, -1, -2))


@pytest.mark.parametrize("shape", [(3, 5, 5), (BLOCK + 1,) * 2, (SHARED + 37,) * 2])
def test_cholesky_reads_the_lower_triangle(shape: tuple[int, ...], threads: int) -> None:
    a = definite(*shape)
    torn = a + np.triu(rng.normal(size=shape), 1) + 1j * np.eye(shape[-1])  # of no account
    assert check_compiled(np.linalg.cholesky, [torn], ulps=1e3)
    assert check_compiled(np.linalg.cholesky, [torn.astype("c8")], ulps=1e3)


OF_ONE = {
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "slogdet": lambda a: tuple(np.linalg.slogdet(a)),
    "inverse of the transposed": lambda a: np.linalg.inv(np.swapaxes(a, -1, -2)),
    "both": lambda a: np.linalg.inv(a) + np.linalg.det(a)[..., None, None],
    "factor times matrix": lambda a: np.linalg.cholesky(a @ np.conj(np.swapaxes(a, -1, -2))) @ a,
}


@pytest.mark.parametrize("name", OF_ONE)
@pytest.mark.parametrize("shape", [(4, 4), (3, 2, 5, 5), (40, 40)])
def test_functions_of_a_matrix(name: str, shape: tuple[int, ...]) -> None:
    f, a = OF_ONE[name], matrices(*shape)
    assert check_compiled(f, [a], name, ulps=1e3)
    assert check_compiled(f, [a.astype("c8")], name, ulps=1e3)

    def total(a: Any) -> Any:
        found = f(a)
        parts = found if isinstance(found, tuple) else (found,)
        return sum(np.sum(p.real * (2 - p.imag)) for p in parts)

    assert check_compiled(bs.grad(total), [a], name, ulps=1e5)


@pytest.mark.parametrize("k", [1, 3, 200])
def test_systems(k: int, threads: int) -> None:
    a, b = matrices(2, 90, 90), matrices(2, 90, 90)[..., :1] + rng.normal(size=(2, 90, k))
    for left, right in [(a, b), (a.real.copy(), b), (a, b.real.copy())]:
        assert check_compiled(np.linalg.solve, [left, right], ulps=1e3)
        for lower in (True, False):
            given = lambda a, b, low=lower: triangular_solve(a, b, lower=low, unit=False)
            turned = lambda a, b, given=given: given(np.swapaxes(a, -1, -2), b)
            assert check_compiled(given, [left, right], ulps=1e3)
            assert check_compiled(turned, [left, right], ulps=1e3)


@pytest.mark.parametrize("a", [np.zeros((2, 2)), np.diag([1.0, 0.0]), np.diag([0.0, 1.0])])
def test_matrices_without_an_inverse(a: Any) -> None:
    a = a.astype(complex)
    column = np.ones((2, 1), complex)
    for call in (np.linalg.inv, lambda a: np.linalg.solve(a, column)):
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            bs.jit(call)(a)
    with pytest.raises(np.linalg.LinAlgError, match="zero on the diagonal"):
        bs.jit(lambda a: triangular_solve(a, column, lower=True, unit=False))(a)
    assert bs.jit(np.linalg.det)(a) == 0
    assert bs.jit(lambda a: np.linalg.slogdet(a).logabsdet)(a) == -np.inf


def test_a_purely_imaginary_pivot_is_no_zero() -> None:
    a = 1j * np.eye(2)
    np.testing.assert_array_equal(bs.jit(np.linalg.inv)(a), -a)


@pytest.mark.parametrize("n", [2, SHARED + 1])
def test_an_indefinite_matrix(n: int, threads: int) -> None:
    a = definite(n, n)
    f = bs.jit(np.linalg.cholesky)
    f(a)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        f(a - 100 * np.eye(n))
    np.testing.assert_allclose(f(a), np.linalg.cholesky(a), atol=1e-12)
