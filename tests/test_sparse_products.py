"""A constant sparse matrix of SciPy's times a Tensor: as its dense form, in every mode, and sparse."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import backsolve as bs

DENSE = np.zeros((7, 5))
DENSE[[0, 0, 2, 3, 6, 6], [1, 4, 0, 3, 1, 2]] = [2.0, -1.0, 0.5, 3.0, 1.5, -2.0]
KINDS = (
    scipy.sparse.csr_array, scipy.sparse.csc_array, scipy.sparse.coo_array, scipy.sparse.dia_array,
    scipy.sparse.csr_matrix,
)  # fmt: skip
RNG = np.random.default_rng(0)
X, Y, XS = RNG.normal(size=5), RNG.normal(size=7), RNG.normal(size=(5, 3))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_values_and_derivatives(kind):
    A = kind(DENSE)
    np.testing.assert_allclose(bs.jacobian(lambda x: A @ x)(X), DENSE)
    np.testing.assert_allclose(bs.jacobian(lambda y: y @ A)(Y), DENSE.T)
    np.testing.assert_allclose(bs.jvp(lambda x: A @ x, (XS,), (XS,))[1], DENSE @ XS)
    cubes = lambda M: lambda x: np.sum((M @ x) ** 3)
    for x in (X, XS):
        np.testing.assert_allclose(bs.grad(cubes(A))(x), bs.grad(cubes(DENSE))(x))
    np.testing.assert_allclose(bs.vmap(lambda x: A @ x)(XS.T), (DENSE @ XS).T)


def test_compiled_and_again_differentiated():
    A = scipy.sparse.csr_array(DENSE)
    energy = lambda x: np.sum(np.exp(A @ x))
    np.testing.assert_allclose(bs.jit(energy)(X), np.exp(DENSE @ X).sum())
    expected = DENSE.T @ (np.exp(DENSE @ X)[:, None] * DENSE)
    np.testing.assert_allclose(bs.hessian(energy)(X), expected)
    np.testing.assert_allclose(bs.jit(bs.hessian(energy))(X), expected)


def test_a_sparse_jacobian_has_its_pattern():
    A = scipy.sparse.csr_array(DENSE)
    found = bs.jacobian(lambda x: A @ np.sin(x), sparse=True)(X)
    assert found.nnz == A.nnz
    np.testing.assert_allclose(found.toarray(), DENSE * np.cos(X))


def test_constants_stay_scipys_business():
    A = scipy.sparse.csr_array(DENSE)
    assert type(A @ bs.tensor(X)) is np.ndarray
    np.testing.assert_allclose(A @ bs.tensor(X), DENSE @ X)


def test_lengths_that_do_not_fit():
    A = scipy.sparse.csr_array(DENSE)
    with pytest.raises(bs.errors.ShapeError, match=r"got \(7, 5\) and \(7,\)"):
        bs.jacobian(lambda y: A @ y)(Y)
    with pytest.raises(bs.errors.DTypeError, match="is a sparse matrix: A @ x"):
        bs.jit(lambda x: bs.jacobian(np.sin, sparse=True)(x))(X)
