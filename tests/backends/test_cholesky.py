"""Cholesky factors and their adjoints by blocks: all sizes around a block, stacks, threads, failures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.backends.native.cholesky import BLOCK, SHARED
from backsolve.primitives.linalg import cholesky, cholesky_adjoint
from backsolve.testing.backends import check_compiled

rng = np.random.default_rng(0)
SIZES = (1, 2, 5, BLOCK - 1, BLOCK, BLOCK + 1, SHARED - 1, SHARED, SHARED + 37)


def definite(*shape: int) -> Any:
    a = rng.normal(size=shape)
    return a @ np.swapaxes(a, -1, -2) / shape[-1] + 2 * np.eye(shape[-1])


def weighted(A: Any, W: Any) -> Any:
    return np.sum(np.sin(np.linalg.cholesky(A)) * W)


@pytest.mark.parametrize("n", SIZES)
def test_factor_and_adjoint(n: int, threads: int) -> None:
    A, W = definite(n, n), rng.normal(size=(n, n))
    assert check_compiled(np.linalg.cholesky, [A], f"n = {n}", ulps=1e3)
    assert check_compiled(bs.grad(weighted), [A, W], f"n = {n}", ulps=1e4)


@pytest.mark.parametrize("shape", [(3, 20, 20), (2, 2, 70, 70), (5, 200, 200), (0, 4, 4)])
def test_stacks(shape: tuple[int, ...], threads: int) -> None:
    A, W = definite(*shape), rng.normal(size=shape)
    assert check_compiled(bs.grad(weighted), [A, W], str(shape), ulps=1e4)


def test_single_precision(threads: int) -> None:
    A, W = (a.astype("f4") for a in (definite(210, 210), rng.normal(size=(210, 210))))
    assert check_compiled(bs.grad(weighted), [A, W], ulps=1e4)


def gradient_step(f: Any, *args: Any) -> str:
    return str(bs.jit(bs.grad(f)).lower(*args).stages["steps"])


@pytest.mark.parametrize("shape", [(20, 20), (3, 20, 20)])
def test_the_formula_of_reverse_mode_is_one_step(shape: tuple[int, ...]) -> None:
    A, W = definite(*shape), rng.normal(size=shape)
    steps = gradient_step(weighted, A, W)
    assert "cholesky adjoint" in steps
    assert "triangular" not in steps


def test_what_is_not_that_formula_stays_as_it_is() -> None:
    """Other weights, another factor, a solve with L instead of Lᵀ."""
    A, W = definite(20, 20), rng.normal(size=(20, 20))
    half = np.tri(20) - np.eye(20) / 2

    def solve(T: Any, b: Any, lower: bool) -> Any:
        return bs.numpy.linalg.solve_triangular(T, b, lower=lower)

    def formula(A: Any, W: Any, weights: Any, second: Any, lower: bool) -> Any:
        L = np.linalg.cholesky(A)
        M = np.linalg.cholesky(A + 1) if second else L
        X = solve(L.T, (weights * (L.T @ W)), False)
        X = solve(M if lower else M.T, X.T, lower)
        return half * (X + X.T)

    def compare(*how: Any) -> str:
        f = lambda A, W: formula(A, W, *how)
        assert check_compiled(f, [A, W], str(how), ulps=1e4)
        return str(bs.jit(f).lower(A, W).stages["steps"])

    assert "cholesky adjoint" in compare(half, False, False)
    for how in [(half + 1, False, False), (half, True, False), (half, False, True)]:
        assert "cholesky adjoint" not in compare(*how)


def test_the_upper_triangle_of_the_adjoint_is_not_read(threads: int) -> None:
    L, bar = np.linalg.cholesky(definite(200, 200)), rng.normal(size=(200, 200))
    torn = np.where(np.tri(200, dtype=bool), bar, np.nan)

    def pull(A: Any, bar: Any) -> Any:
        return cholesky_adjoint(cholesky(A), bar)

    expected = cholesky_adjoint(L, np.tril(bar))
    got = bs.jit(pull)(L @ L.T, torn)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
    assert not np.triu(got, 1).any()


@pytest.mark.parametrize("place", [0, BLOCK + 3, SHARED + 8])
def test_indefinite_matrices_raise(place: int, threads: int) -> None:
    A = definite(SHARED + 9, SHARED + 9)
    A[place, place] = -1.0
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        bs.jit(np.linalg.cholesky)(A)


def test_second_derivatives(threads: int) -> None:
    A, W = definite(12, 12), rng.normal(size=(12, 12))
    hvp = lambda A, V: bs.hvp(lambda A: weighted(A, W))(A, V)
    assert check_compiled(hvp, [A, W + W.T], ulps=1e5)
