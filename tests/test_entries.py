"""Operators by their entries: every kind against its matrix, products and sums against dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import UnsupportedError
from backsolve.ir import Type
from backsolve.operators import (
    Broadcast,
    Conjugate,
    Contraction,
    Diagonal,
    Operator,
    Slice,
    Transpose,
)
from backsolve.operators.entries import Entries, Term, entries_of
from backsolve.operators.entries.joining import join
from backsolve.operators.entries.terms import Listed
from backsolve.solve.eliminate import Graph, jacobian_entries
from backsolve.testing import check_operator

from .test_operators import array, instances

REAL = [
    pytest.param(op, id=f"{kind.__name__}-{k}")
    for kind, members in instances("float64").items()
    for k, op in enumerate(members)
    if not isinstance(op.in_type, tuple) and not isinstance(op.out_type, tuple)
]


def is_complex(op: Operator) -> bool:
    return any(t.dtype.kind == "c" for t in (op.in_type, op.out_type))


@pytest.mark.parametrize("op", REAL)
def test_entries_are_those_of_the_matrix(op: Operator) -> None:
    if is_complex(op):
        with pytest.raises(UnsupportedError, match="real"):
            entries_of(op)
        return
    found = entries_of(op)
    np.testing.assert_allclose(found.dense(), op.dense(), rtol=1e-12, atol=1e-12)
    check_operator(found)


def stencils(shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """A random map that reads, moves, weighs, adds or contracts, from an array of this shape."""
    d = np.dtype(float)
    source = Type(shape, d)
    kind = rng.integers(6)
    axis = int(rng.integers(len(shape)))
    if kind == 0:
        return Diagonal(rng.normal(size=shape))
    if kind == 1:
        spec = [(None, None, None)] * len(shape)
        start = int(rng.integers(0, shape[axis]))
        step = int(rng.choice([1, 1, 2, 3, -1, -2]))
        spec[axis] = (start, None, step)
        return Slice(source, tuple(spec))
    if kind == 2:
        return Transpose(source, tuple(int(k) for k in rng.permutation(len(shape))))
    if kind == 3:
        letters = "abcd"[: len(shape)]
        out = letters.replace(letters[axis], "z")
        W = rng.normal(size=(3, shape[axis]))
        return Contraction(f"z{letters[axis]},{letters}->{out}", 1, (W, None), source)
    if kind == 4:
        return (
            entries_of(Slice(source, ((1, None, 2),))).T if shape[0] > 2 else Diagonal(2.0, source)
        )
    return Broadcast(source, (2, *shape)) if len(shape) < 3 else Diagonal(rng.normal(size=shape))


@pytest.mark.parametrize("seed", range(60))
def test_products_of_random_maps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape: tuple[int, ...] = tuple(int(n) for n in rng.integers(1, 6, size=rng.integers(1, 4)))
    whole: Any = None
    matrix: Any = None
    for _ in range(5):
        op = stencils(shape, rng)
        if isinstance(op, Entries) and op.in_type.shape != shape:
            continue
        matrix = op.dense() if matrix is None else op.dense() @ matrix
        whole = entries_of(op) if whole is None else entries_of(op).times(whole)
        shape = op.out_type.shape
        np.testing.assert_allclose(whole.dense(), matrix, rtol=1e-12, atol=1e-12)
    both = whole.plus(whole)
    assert len(both.terms) == len(whole.terms)  # at the same places: added, not listed again
    np.testing.assert_allclose(both.dense(), 2 * matrix)
    np.testing.assert_allclose(whole.T.dense(), matrix.T)


def test_a_stencil_of_a_million_points_is_a_few_numbers() -> None:
    line = Type((1_000_000,), np.dtype(float))
    second = entries_of(Slice(line, ((2, None, None),))).plus(
        entries_of(Slice(line, ((None, -2, None),)))
    )
    fourth = entries_of(Slice(second.out_type, ((1, -1, None),))).times(second)
    assert all(isinstance(t, Term) and len(t.counts) == 1 for t in fourth.terms)
    assert fourth.nnz == 2 * 999_996


def test_kronecker_times_kronecker_multiplies_the_small_factors() -> None:
    A, B = array((4, 3)), array((5, 4), seed=1)
    many = 1000
    first = entries_of(Contraction("ij,jk->ik", 1, (A, None), Type((3, many), np.dtype(float))))
    then = entries_of(Contraction("ij,jk->ik", 1, (B, None), Type((4, many), np.dtype(float))))
    (term,) = then.times(first).terms
    assert np.size(term.values) == 15
    np.testing.assert_allclose(np.reshape(term.values, (5, 3)), B @ A)


def test_conjugation_has_no_entries() -> None:
    with pytest.raises(UnsupportedError, match="complex"):
        entries_of(Conjugate(Type((3,), np.dtype(complex))))


def listed(matrix: Any, rng: Any) -> Entries:
    """A matrix as single entries in no order."""
    rows, cols = np.nonzero(matrix)
    order = rng.permutation(rows.size)
    source = Type((matrix.shape[1],), np.dtype(float))
    term = Listed(rows[order], cols[order], matrix[rows, cols][order])
    return Entries(source, Type((matrix.shape[0],), np.dtype(float)), [term])


def test_full_blocks_that_are_listed_are_multiplied_as_matrices() -> None:
    rng = np.random.default_rng(0)
    A, B = np.zeros((60, 50)), np.zeros((50, 40))
    A[np.ix_(range(1, 60, 2), range(10, 50))] = rng.normal(size=(30, 40))
    B[np.ix_([*range(30), 49], range(1, 40, 4))] = rng.normal(size=(31, 10))
    (term,) = listed(A, rng).times(listed(B, rng)).terms
    assert isinstance(term, Term)  # even steps again
    assert term.size == 300
    uneven = np.delete(A, 3, 1)[:, :49]
    uneven[5] = 0
    whole = listed(uneven, rng).times(listed(B[:49], rng))
    assert whole.nnz == 29 * 10
    np.testing.assert_allclose(listed(A, rng).times(listed(B, rng)).dense(), A @ B)
    np.testing.assert_allclose(whole.dense(), uneven @ B[:49])


def test_products_at_one_place_are_added_up() -> None:
    """Else each further product would multiply every part by itself."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 30)) * (rng.random((30, 30)) < 0.7)
    whole = listed(A, rng)
    for _ in range(6):
        whole = listed(A, rng).times(whole)
    assert whole.nnz <= 8 * A.size
    np.testing.assert_allclose(whole.dense(), np.linalg.matrix_power(A, 7))


def test_as_many_entries_as_a_full_block_has_need_not_be_one() -> None:
    """A place comes twice, and at another one nothing stands."""
    rng = np.random.default_rng(0)
    n = 80
    places = np.arange(n * n)
    places[1] = 0
    twice = Listed(places // n, places % n, rng.normal(size=n * n))
    full = Listed(np.repeat(np.arange(n), n), np.tile(np.arange(n), n), rng.normal(size=n * n))
    matrix = [np.zeros((n, n)) for _ in range(2)]
    for m, e in zip(matrix, (twice, full), strict=True):
        np.add.at(m, (e.rows, e.cols), e.values)
    found = np.zeros((n, n))
    e = join(twice, full, n)
    assert isinstance(e, Listed)
    np.add.at(found, (e.rows, e.cols), e.values)
    np.testing.assert_allclose(found, matrix[0] @ matrix[1], rtol=1e-10, atol=1e-12)


def test_too_many_single_products_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backsolve.operators.entries.joining._MOST", 1000)
    rng = np.random.default_rng(0)
    A = np.tri(30)
    with pytest.raises(UnsupportedError, match=r"multiply 4,960 pairs of single entries"):
        listed(A, rng).times(listed(A, rng))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.angle(2 + 1j * x),
        lambda x: np.imag(np.ones((3, 3), np.complex64) @ (x + 1j)),
        lambda x: np.abs(np.fft.fft(x * 1j)),
    ],
)
def test_entries_that_go_through_complex_rows_stay_in_single_precision(f: Any) -> None:
    x = np.array([0.3, 0.5, 0.9], np.float32)
    system = bs.linearize(f)(x)
    entries = jacobian_entries(system, graph=Graph(system, "entries"))[0][0]
    assert entries.dense().dtype == np.float32
    np.testing.assert_allclose(entries.dense(), bs.jacobian(f, method="forward")(x), rtol=1e-5)
