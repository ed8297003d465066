"""Operators in the iterations of scipy.sparse.linalg, which ask for shape, dtype, matvec and rmatvec."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator, cg, eigsh, svds

import backsolve as bs
from backsolve import operators as ops
from backsolve.errors import ShapeError


def energy(x):
    return np.sum(x**4) + x[0] * x[1]


def test_eigenvalues_of_a_hessian():
    at = np.arange(1.0, 7.0)
    H = bs.hessian_operator(energy)(at)
    dense = bs.hessian(energy)(at)
    np.testing.assert_allclose(eigsh(H, k=2)[0], np.linalg.eigvalsh(dense)[-2:])
    x, info = cg(H, np.ones(6), rtol=1e-10)
    assert info == 0
    np.testing.assert_allclose(x, np.linalg.solve(dense, np.ones(6)))


def test_parameters_in_parts_are_one_vector():
    start = {"w": np.ones((2, 2)), "b": 2.0}
    H = bs.hessian_operator(lambda p: np.sum(p["w"] ** 3) * p["b"])(start)
    assert H.shape == (5, 5)
    np.testing.assert_allclose(aslinearoperator(H) @ np.eye(5), H.dense())


def test_products_of_rectangular_and_complex_operators():
    rng = np.random.default_rng(0)
    A = ops.Matrix(rng.normal(size=(6, 4)) + 1j * rng.normal(size=(6, 4)))
    assert A.dtype == complex
    y = rng.normal(size=6) + 1j * rng.normal(size=6)
    np.testing.assert_allclose(A.rmatvec(y), A.dense().conj().T @ y)
    np.testing.assert_allclose(svds(A, k=1)[1][0], np.linalg.svd(A.dense())[1][0])


def test_quotients_and_matrices_on_the_left():
    D = ops.Diagonal(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal((D / 2).dense(), np.diag([0.5, 1.0, 1.5]))
    M = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal((M @ D).dense(), M @ D.dense())
    with pytest.raises(ShapeError, match="a matrix or an operator"):
        np.ones(3) @ D
