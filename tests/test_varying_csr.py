"""Sparse Jacobians whose numbers vary or are staged: as dense arrays and in products, in every mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import backsolve as bs

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=5), RNG.normal(size=4)
M, N = RNG.normal(size=(5, 3)), RNG.normal(size=(2, 4))


def f(x: Any) -> Any:
    return x[1:] ** 3 * np.sin(x[:-1])


def sparse(x: Any) -> Any:
    return bs.jacobian(f, sparse=True)(x)


USES = {
    "toarray": lambda A, x: A.toarray() if scipy.sparse.issparse(A) else A,
    "todense": lambda A, x: A.todense() if scipy.sparse.issparse(A) else A,
    "transpose": lambda A, x: A.T.toarray() if scipy.sparse.issparse(A) else A.T,
    "A @ x": lambda A, x: A @ x,
    "A @ matrix": lambda A, x: A @ M,
    "A @ list": lambda A, x: A @ [1.0, 2.0, 3.0, 4.0, 5.0],
    "y @ A": lambda A, x: Y @ A,
    "matrix @ A": lambda A, x: N @ A,
    "list @ A": lambda A, x: [1.0, 2.0, 3.0, 4.0] @ A,
    "varying @ A": lambda A, x: x[1:] @ A,
    "A.T @ y": lambda A, x: A.T @ Y,
}


@pytest.mark.parametrize("name", USES)
def test_values_and_derivatives_are_those_of_the_dense_matrix(name: str) -> None:
    use = USES[name]
    found = lambda x: use(sparse(x), x)
    expected = lambda x: use(bs.jacobian(f)(x), x)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    close(bs.jit(found)(X), expected(X))
    close(bs.jacobian(found)(X), bs.jacobian(expected)(X))
    close(bs.jit(bs.jacobian(found))(X), bs.jacobian(expected)(X))
    close(bs.jvp(found, (X,), (X,))[1], bs.jvp(expected, (X,), (X,))[1])
    several = np.stack([X, X + 1])
    close(bs.vmap(found)(several), bs.vmap(expected)(several))


def test_a_matrix_without_entries() -> None:
    found = bs.jit(lambda x: bs.jacobian(lambda u: u[:0] * u[0], sparse=True)(x).T.toarray())(X)
    assert found.shape == (5, 0)


def test_plain_numbers_stay_scipys_business() -> None:
    assert type(sparse(X)) is scipy.sparse.csr_array
    assert type(sparse(X).toarray()) is np.ndarray


@pytest.mark.parametrize("within", [bs.jit, bs.jacobian])
def test_what_takes_plain_numbers_is_an_error(within: Any) -> None:
    with pytest.raises(bs.errors.UnsupportedError, match=r"write A @ B\.toarray\(\)"):
        within(lambda x: sparse(x).T @ sparse(x))(X)
    with pytest.raises(bs.errors.UnsupportedError, match="without out="):
        within(lambda x: sparse(x).toarray(out=np.zeros((4, 5))))(X)
    with pytest.raises(bs.errors.BacksolveError, match=r"A\.toarray\(\) have derivatives"):
        within(lambda x: sparse(x).diagonal())(X)
    with pytest.raises(ValueError, match="axes"):
        within(lambda x: sparse(x).transpose((0, 1)))(X)
