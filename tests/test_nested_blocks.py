"""Blocks of operators, and of Blocks: solved blockwise, against dense algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import ShapeError
from backsolve.solve import krylov

RNG = np.random.default_rng(0)
METHODS = ["direct", "gmres"]


def test_cyclic_blocks_need_a_solver() -> None:
    A = np.array([[4.0, 1.0], [0.5, 3.0]])
    block = bs.Block([[A, 0.5 * np.eye(2)], [np.eye(2), 2.0]])
    b = (np.ones(2), np.arange(2.0))
    dense = np.block([[A, 0.5 * np.eye(2)], [np.eye(2), 2.0 * np.eye(2)]])
    want = np.linalg.solve(dense, np.concatenate(b))
    with pytest.raises(ShapeError, match="cyclic"):
        bs.backslash(block, b)
    for method in METHODS:
        np.testing.assert_allclose(np.concatenate(bs.backslash(block, b, method)), want, rtol=1e-9)
    g = bs.grad(lambda t: np.sum(bs.backslash(block, (t, b[1]), "gmres")[0]))(b[0])
    np.testing.assert_allclose(g, np.linalg.inv(dense)[:2, :2].sum(axis=0), rtol=1e-8)


def test_blocks_of_blocks_are_solved_blockwise_in_any_order() -> None:
    inner = bs.Block([[2.0, 0], [1.0, 4.0]])
    outer = bs.Block([[inner, bs.Block([[1.0, 0], [0, 1.0]])], [0, inner]])
    x = bs.backslash(outer, ((1.0, 2.0), (3.0, 5.0)))
    m = np.array([[2.0, 0], [1.0, 4.0]])
    dense = np.block([[m, np.eye(2)], [np.zeros((2, 2)), m]])
    want = np.linalg.solve(dense, [1.0, 2.0, 3.0, 5.0])
    np.testing.assert_allclose(np.ravel(x), want, rtol=1e-12)
    shuffled = bs.Block([[2.0, 3.0, 0], [0, 1.0, 0], [0, 4.0, 5.0]])  # neither lower nor upper
    y = bs.backslash(shuffled, (1.0, 2.0, 3.0))
    want = np.linalg.solve([[2.0, 3, 0], [0, 1, 0], [0, 4, 5]], [1.0, 2, 3])
    np.testing.assert_allclose(y, want, rtol=1e-12)


M1, M2, M3, M4 = (RNG.normal(size=(3, 3)) + 4 * np.eye(3) for _ in range(4))
ZERO, ONE = np.zeros((3, 3)), np.eye(3)
LOWER, UPPER = bs.Block([[M1, 0], [M2, M3]]), bs.Block([[M4, M2], [0, M1]])
CYCLIC, BETWEEN = bs.Block([[M1, M2], [M3, M4]]), bs.Block([[ONE, None], [M3, ONE]])
PARTS = ((RNG.normal(size=3), RNG.normal(size=3)), (RNG.normal(size=3), RNG.normal(size=3)))
# nested blocks, and the same as one matrix
NESTED = {
    "triangular": (
        bs.Block([[LOWER, 0], [BETWEEN, UPPER]]),
        np.block(
            [[M1, ZERO, ZERO, ZERO], [M2, M3, ZERO, ZERO], [ONE, ZERO, M4, M2], [M3, ONE, ZERO, M1]]
        ),
    ),
    "cyclic inside": (
        bs.Block([[CYCLIC, 0], [BETWEEN, LOWER]]),
        np.block(
            [[M1, M2, ZERO, ZERO], [M3, M4, ZERO, ZERO], [ONE, ZERO, M1, ZERO], [M3, ONE, M2, M3]]
        ),
    ),
    "cyclic": (
        bs.Block([[CYCLIC, BETWEEN], [BETWEEN, LOWER]]),
        np.block(
            [[M1, M2, ONE, ZERO], [M3, M4, M3, ONE], [ONE, ZERO, M1, ZERO], [M3, ONE, M2, M3]]
        ),
    ),
}


def flat(x: Any) -> Any:
    return np.concatenate([flat(y) for y in x]) if isinstance(x, tuple) else np.ravel(x)


@pytest.mark.parametrize("name", sorted(NESTED))
@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_nested_blocks(name: str, method: str) -> None:
    block, dense = NESTED[name]
    np.testing.assert_allclose(block.dense(), dense, atol=1e-14)
    np.testing.assert_allclose(flat(block @ PARTS), dense @ flat(PARTS), rtol=1e-12)
    if method == "auto" and name != "triangular":
        with pytest.raises(ShapeError, match="cyclic"):
            bs.backslash(block, PARTS)
        return
    for A, matrix in ((block, dense), (block.T, dense.T)):
        want = np.linalg.solve(matrix, flat(PARTS))
        np.testing.assert_allclose(flat(bs.backslash(A, PARTS, method)), want, rtol=1e-8)
    inverse = np.linalg.inv(dense)[6:9, :3]
    last = lambda t: np.sum(bs.backslash(block, ((t, PARTS[0][1]), PARTS[1]), method)[1][0])
    np.testing.assert_allclose(bs.grad(last)(PARTS[0][0]), inverse.sum(axis=0), rtol=1e-7)
    np.testing.assert_allclose(bs.jit(bs.grad(last))(PARTS[0][0]), inverse.sum(axis=0), rtol=1e-7)


def test_only_what_is_cyclic_is_iterated(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def watched(A: Any, b: Any, *rest: Any, **options: Any) -> Any:
        sizes.append(len(b))
        return krylov.gmres(A, b, *rest, **options)

    monkeypatch.setitem(krylov.METHODS, "gmres", watched)
    bs.backslash(NESTED["cyclic inside"][0], PARTS, "gmres")
    assert sizes == [6]  # of the cyclic block; the others are substituted
    bs.backslash(NESTED["triangular"][0], PARTS, "gmres")
    assert sizes == [6]
    bs.backslash(NESTED["cyclic"][0], PARTS, "gmres")
    assert sizes == [6, 12]


def test_entries_of_blocks_may_vary() -> None:
    f = lambda s: np.sum(
        bs.backslash(bs.Block([[LOWER, 0], [BETWEEN, bs.Block([[s * M4, M2], [0, M1]])]]), PARTS)[
            1
        ][0]
    )
    np.testing.assert_allclose(bs.grad(f)(1.3), bs.numeric.derivative(f, 1.3).value, rtol=1e-7)


def test_kronecker_products_are_solved_by_their_factors() -> None:
    K = bs.operators.kronecker(M1, M2)
    X = RNG.normal(size=(3, 3))
    want = np.linalg.solve(np.kron(M1, M2), X.T.reshape(-1)).reshape(3, 3).T
    np.testing.assert_allclose(bs.backslash(K, X), want, rtol=1e-10)
    big = RNG.normal(size=(2, 100, 100)) / 20 + 2 * np.eye(100)  # dense: 10⁴ × 10⁴, 800 MB
    Y = RNG.normal(size=(100, 100))
    found = bs.backslash(bs.operators.kronecker(big[0], big[1]), Y)
    np.testing.assert_allclose(big[1] @ found @ big[0].T, Y, rtol=1e-8, atol=1e-10)
    block = bs.Block([[K, 0], [bs.operators.Diagonal(X), bs.operators.Diagonal(np.exp(X))]])
    solved = bs.backslash(block, (X, X))
    np.testing.assert_allclose(flat(block @ solved), flat((X, X)), rtol=1e-9)
