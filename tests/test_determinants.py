"""Derivatives of determinants at matrices of every rank: they are polynomials in the entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import NotDifferentiableError
from backsolve.testing.references import REFERENCES

det = np.linalg.det
rng = np.random.default_rng(5)


def of_rank(n: int, r: int) -> Any:
    return rng.normal(size=(n, r)) @ rng.normal(size=(r, n))


def whole_numbers(n: int, r: int) -> Any:
    """Elimination finds their zeros exactly."""
    return (rng.integers(-3, 4, (n, r)) @ rng.integers(-3, 4, (r, n))).astype(float)


MATRICES = {
    "one zero": np.zeros((1, 1)),
    "zeros": np.zeros((3, 3)),
    "ones": np.ones((3, 3)),
    "1 to 9": np.arange(1.0, 10.0).reshape(3, 3),
    "rank 3 of 4": whole_numbers(4, 3),
    "rank 2 of 4": whole_numbers(4, 2),
    "nearly of rank 3": of_rank(4, 3),
    "nearly of rank 2": of_rank(4, 2),
    "shift": np.eye(5, k=1),
    "nearly singular": np.diag([1.0, 1e-9, 2.0]),
    "identity": np.eye(4),
    "regular": rng.normal(size=(4, 4)),
    "a zero row": np.vstack([np.zeros(3), rng.normal(size=(2, 3))]),
}


def cofactors(a: Any) -> Any:
    return np.swapaxes(REFERENCES["adjugate"](a), -1, -2)


def second(a: Any) -> Any:
    """By steps along the imaginary axis, which lose no digits."""
    n = len(a)
    H = np.zeros((n, n, n, n))
    for place in np.ndindex(n, n):
        moved = a.astype(complex)
        moved[place] += 1e-30j
        H[(..., *place)] = cofactors(moved).imag / 1e-30
    return H


def close(found: Any, expected: Any, size: float = 1e3) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-15 * size)


@pytest.mark.parametrize("name", MATRICES)
def test_the_gradient_is_the_matrix_of_cofactors(name: str) -> None:
    a = MATRICES[name]
    v = rng.normal(size=a.shape)
    for compiled in (lambda f: f, bs.jit):
        close(compiled(bs.grad(det))(a), cofactors(a))
        close(compiled(lambda a: bs.jvp(det, (a,), (v,))[1])(a), np.sum(cofactors(a) * v))
    close(bs.vmap(bs.grad(det))(a[None])[0], cofactors(a))


@pytest.mark.parametrize("name", MATRICES)
def test_second_derivatives(name: str) -> None:
    a = MATRICES[name]
    close(bs.hessian(det)(a), second(a))
    close(bs.jit(bs.hessian(det))(a), second(a))


def test_some_matrices_of_a_stack_are_singular() -> None:
    names = ["rank 3 of 4", "regular", "identity", "rank 2 of 4"]
    a = np.stack([MATRICES[name] for name in names])
    weights, v = rng.normal(size=4), rng.normal(size=a.shape)

    def total(a: Any) -> Any:
        return np.sum(det(a) * weights)

    def along(a: Any) -> Any:
        return bs.jvp(bs.grad(total), (a,), (v,))[1]

    expected = cofactors(a) * weights[:, None, None]
    curved = np.stack([np.einsum("abij,ij->ab", second(x), d) for x, d in zip(a, v, strict=True)])
    for compiled in (lambda f: f, bs.jit):
        close(compiled(bs.grad(total))(a), expected)
        close(compiled(along)(a), curved * weights[:, None, None])


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_other_numbers(dtype: str) -> None:
    real = np.finfo(dtype).dtype
    for a in (
        np.ones((3, 3)),
        np.eye(4, k=1),
        np.arange(1.0, 10.0).reshape(3, 3),
        np.zeros((2, 2)),
    ):
        a = a.astype(dtype) * (1 if real == dtype else np.array(2 + 1j, dtype))
        v = rng.normal(size=a.shape).astype(dtype)
        expected = np.sum(cofactors(a) * v)
        for compiled in (lambda f: f, bs.jit):
            found = compiled(lambda a, v=v: bs.jvp(det, (a,), (v,))[1])(a)
            assert found.dtype == dtype
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def derivative(f: Any) -> Any:
    return lambda t: bs.jvp(f, (t,), (np.ones_like(t),))[1]


@pytest.mark.parametrize("name", ["rank 3 of 4", "identity", "regular", "1 to 9", "a zero row"])
def test_third_derivatives(name: str) -> None:
    a = MATRICES[name]
    v = rng.normal(size=a.shape)
    t = np.linspace(-1, 1, len(a) + 1)
    expected = 6 * np.polynomial.Polynomial.fit(t, det(a + t[:, None, None] * v), len(a)).convert()
    third = derivative(derivative(derivative(lambda t: det(a + t * v))))
    for compiled in (lambda f: f, bs.jit):
        np.testing.assert_allclose(compiled(third)(0.0), expected.coef[3], rtol=1e-9)


@pytest.mark.parametrize("name", ["zeros", "rank 2 of 4", "nearly of rank 2"])
def test_a_third_derivative_where_two_singular_values_are_zero_is_an_error(name: str) -> None:
    a = MATRICES[name]
    v = rng.normal(size=a.shape)
    third = derivative(derivative(derivative(lambda t: det(a + t * v))))
    for compiled in (lambda f: f, bs.jit):
        with pytest.raises(NotDifferentiableError, match="singular values"):
            compiled(third)(0.0)


def test_a_long_chain_of_zero_pivots_is_right_or_an_error_when_compiled() -> None:
    down, up = np.eye(20, k=-1), np.eye(20, k=1)
    expected = np.zeros((20, 20))
    expected[0, -1] = -1  # (−1)^(n−1)
    close(bs.grad(det)(down), expected)
    close(bs.grad(det)(up), expected.T)
    close(bs.jit(bs.grad(det))(up), expected.T)
    with pytest.raises(np.linalg.LinAlgError, match="zero pivots"):
        bs.jit(bs.grad(det))(down)
