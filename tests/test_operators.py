"""Operators × checks: every exported class, and the algebra between them."""

from __future__ import annotations

import functools
import inspect
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import backsolve as bs
from backsolve import operators as ops
from backsolve.errors import ShapeError
from backsolve.ir import Type
from backsolve.operators import (
    BandedSolve,
    Block,
    BlockRecurrence,
    Broadcast,
    Cast,
    Concatenate,
    Conjugate,
    Contraction,
    Convolution,
    Cumsum,
    Custom,
    Diagonal,
    Erase,
    EraseAt,
    Fold,
    Fourier,
    Frechet,
    Gather,
    HalfFourier,
    I,
    Identity,
    Inverse,
    Mask,
    Matrix,
    Operator,
    OperatorSum,
    OverGaps,
    Product,
    RealFourier,
    RealPart,
    Recurrence,
    Reshape,
    Scale,
    ScatterAdd,
    Slice,
    Solve,
    Split,
    Spread,
    SumAxes,
    SumTo,
    Sylvester,
    Transpose,
    TriangularSolve,
    Unslice,
    Windows,
    Zero,
    as_operator,
    inner,
    kronecker,
    left,
    outer,
    pad,
    right,
    trace,
)
from backsolve.operators.windows import Cut
from backsolve.testing import check_operator
from backsolve.testing.grads import random_like
from backsolve.testing.operators import real_matrix

DTYPES = ["float32", "float64", "complex64", "complex128"]


def array(shape: tuple[int, ...], dtype: Any = float, seed: int = 0) -> Any:
    return np.asarray(random_like(np.zeros(shape, dtype), np.random.default_rng(seed)))


def instances(dtype: str) -> dict[type[Operator], list[Operator]]:
    """Operators of every class, on arrays of one dtype, empty ones included."""
    d = np.dtype(dtype)
    v3, m23, m33 = Type((3,), d), Type((2, 3), d), Type((3, 3), d)
    none, number = Type((0,), d), Type((), d)
    a3, a23 = array((3,), d), array((2, 3), d)
    A = array((3, 3), d) + 3 * np.eye(3, dtype=d)
    bands = array((3, 4), d) + np.array([[3], [9], [3]], d)
    real = np.zeros((), d).real.dtype
    index, more = np.array([2, 0, 2]), np.array([[0], [1]])
    mask = np.array([True, False, True])
    wide = np.result_type(d, np.float64)
    spec = ((None, None, -1), 1)
    return {
        Identity: [Identity(v3), Identity(none), Identity(number)],
        Zero: [Zero(v3, m23), Zero(none, v3)],
        Scale: [Scale(2.5, v3), Scale(-1.0, m23), *([Scale(1 - 2j, v3)] if d.kind == "c" else [])],
        Diagonal: [Diagonal(a3), Diagonal(a3, m23), Diagonal(1.5, v3), Diagonal(array((0,), d))],
        Mask: [Mask(mask, v3), Mask(mask, m23), Mask(np.array(False), number)],
        Matrix: [Matrix(array((2, 3), wide)), Matrix(array((3, 3), wide))],
        Contraction: [
            Contraction("ij,jk->ik", 0, (None, array((3, 2), d)), m23),
            Contraction("ij,kj->ik", 1, (a23, None), Type((4, 3), d)),
            Contraction("ii->", 0, (None,), m33),
            Contraction("i->ii", 0, (None,), v3),
            Contraction("i->ij", 0, (None,), v3, (("j", 2),)),
            Contraction("ij->ji", 0, (None,), m23),
            Contraction("ij,ij->ij", 1, (a23, None), m23),
            Contraction("hij,hjk->hik", 1, (array((2, 1, 3), d), None), Type((2, 3, 2), d)),
            Contraction("i,i->", 0, (None, array((0,), d)), none),
        ],
        Reshape: [Reshape(m23, (3, 2)), Reshape(m23, (6,)), Reshape(Type((1,), d), ())],
        Transpose: [Transpose(m23, (1, 0)), Transpose(Type((2, 1, 3), d), (2, 0, 1))],
        Broadcast: [Broadcast(v3, (2, 3)), Broadcast(Type((2, 1), d), (2, 3)), Broadcast(v3, (3,))],
        SumTo: [SumTo(m23, (3,)), SumTo(m23, (2, 1)), SumTo(m23, ()), SumTo(v3, (3,))],
        SumAxes: [SumAxes(m23, (1,)), SumAxes(m23, (0, 1), True), SumAxes(Type((2, 0), d), (1,))],
        Spread: [Spread(m23, (1,), False), Spread(m23, (0, 1), True)],
        Slice: [Slice(m23, spec), Slice(m23, (None, 0)), Slice(v3, ((0, 0, 1),))],
        Unslice: [Unslice(m23, spec), pad(m23, ((1, 0), (0, 2)))],
        Erase: [Erase(m23, spec), Erase(v3, (1,))],
        Gather: [Gather(v3, (index,)), Gather(m33, (more, index)), Gather(m33, (np.array(1),))],
        Windows: [
            Windows(m23, Cut((1,), (2,), (1,), (1,))),
            Windows(v3, Cut((0,), (2,), (2,), (1,))),
        ],
        Convolution: [
            Convolution(v3, array((2,), d), "full"),
            Convolution(v3, array((2,), d), "valid"),
            Convolution(v3, array((4,), d), "valid", 1),
            Convolution(v3, array((4,), d), "full", 1),
        ],
        Fold: [Fold(m33, Cut((1, 0), (2, 2), (1, 1), (1, 2)))],
        ScatterAdd: [ScatterAdd(v3, (index,)), ScatterAdd(m33, (more, index))],
        EraseAt: [EraseAt(v3, (index,)), EraseAt(m33, (more, index))],
        Cumsum: [Cumsum(m23, 0), Cumsum(m23, 1, reverse=True)],
        BlockRecurrence: [
            BlockRecurrence(array((3, 2, 2), d)),
            BlockRecurrence(array((2, 3, 1, 1), d), reverse=True),
        ],
        Recurrence: [
            Recurrence(a23, 1),
            Recurrence(a23, 1, reverse=True),
            Recurrence(a23, 0),
            Recurrence(array((1,), d), 0),
        ],
        Solve: [Solve(A), Solve(A, Type((3, 2), d)), Solve(np.stack([A, A.T]))],
        Fourier: [] if d.kind == "f" else [Fourier(m23, (1,)), Fourier(m23, (0, 1), True)],
        RealFourier: [] if d.kind == "c" else [RealFourier(m23, 1), RealFourier(v3, 0, False)],
        HalfFourier: [] if d.kind == "c" else [HalfFourier(m23, 0), HalfFourier(m23, 1, True)],
        Frechet: [Frechet(A), Frechet(np.stack([A, A.T]))],
        OverGaps: [OverGaps(A), OverGaps(np.array([1.0, np.inf], real), Type((2,), d))],
        TriangularSolve: [
            TriangularSolve(A, True),
            TriangularSolve(A, False, True, Type((3, 1), d)),
            TriangularSolve(np.stack([A, A.T]), True),
        ],
        BandedSolve: [
            BandedSolve(bands, 1, 1, Type((4, 2), d)),
            BandedSolve(np.stack([bands[:2], bands[1:]]), 0, 1, Type((2, 4, 1), d)),
        ],
        Sylvester: [
            Sylvester(A, array((2, 2), d), Type((3, 2), d)),
            Sylvester(np.stack([A, A.T]), np.stack([A, A]), Type((2, 3, 3), d)),
        ],
        Concatenate: [Concatenate((m23, Type((1, 3), d))), Concatenate((m23, m23), axis=1)],
        Split: [Split((m23, Type((1, 3), d))), Split((v3,))],
        Cast: [Cast(v3, np.complex128), Cast(v3, real), Cast(m23, d)],
        Conjugate: [Conjugate(v3)],
        RealPart: [RealPart(v3)],
        Custom: [Custom(lambda t: A @ t, lambda t: A.conj().T @ t, v3, v3, "A")],
        Inverse: [
            Inverse(Diagonal(a3)),
            Inverse(Scale(4.0, v3)),
            Inverse(Identity(v3)),
            Inverse(Transpose(m23, (1, 0))),
            Inverse(Contraction("ij,jk->ik", 1, (A, None), Type((3, 2), d))),
            Inverse(Recurrence(a3, 0)),
            Inverse(Inverse(Diagonal(a3))),
        ],
        Product: [
            Product([Diagonal(array((2,), d)), SumAxes(m23, (1,)), Mask(mask, m23)]),
            Product([Slice(m23, (1,)), Diagonal(a23)]),
        ],
        OperatorSum: [
            OperatorSum([Identity(v3), Cumsum(v3, 0)]),
            OperatorSum([Mask(mask, v3), Diagonal(a3), Conjugate(v3)]),
        ],
        Block: [
            Block([[Diagonal(a3), 0], [SumAxes(v3, (0,)), Scale(2.0, number)]]),
            Block([[Identity(v3), Unslice(v3, (1,))]]),
            Block([[Cumsum(v3, 0), Broadcast(number, (3,))], [None, Identity(number)]]),
        ],
    }


EVERY = [
    pytest.param(op, id=f"{kind.__name__}-{dtype}-{k}")
    for dtype in DTYPES
    for kind, members in instances(dtype).items()
    for k, op in enumerate(members)
]


@pytest.mark.parametrize("op", EVERY)
def test_operator(op: Operator) -> None:
    check_operator(op)


@pytest.mark.parametrize("op", EVERY)
def test_operator_has_html_latex_and_text(op: Operator) -> None:
    shown = ElementTree.fromstring(op._repr_html_() or "")
    words = [w.strip() for w in shown.itertext()]
    assert repr(op).split("\n")[0] in words[0]
    assert "takes" in words
    text = op._repr_latex_() or ""
    assert text.startswith(r"$\displaystyle ")
    assert text.count("{") == text.count("}")
    assert text.count(r"\left") == text.count(r"\right")


def test_every_exported_class_is_checked() -> None:
    exported = {
        v
        for v in vars(ops).values()
        if inspect.isclass(v) and issubclass(v, Operator) and v is not Operator
    }
    assert exported == set(instances("float64"))


@pytest.mark.parametrize("op", [left(array((2, 3)), 4), right(array((3, 2)), 4), trace(3)])
def test_named_contractions(op: Operator) -> None:
    check_operator(op)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_constructors_are_what_they_are_named(dtype: str) -> None:
    A, B, X = array((2, 3), dtype), array((4, 2), dtype, 1), array((2, 3), dtype, 2)
    v, u = array((3,), dtype, 3), array((2,), dtype, 4)
    for op in (kronecker(A, B), inner(A), outer(v, 2)):
        check_operator(op)
    np.testing.assert_allclose(left(B, 3) @ X, B @ X)
    np.testing.assert_allclose(right(A, 4) @ B, B @ A)
    np.testing.assert_allclose(inner(A) @ X, np.sum(A.conj() * X))
    np.testing.assert_allclose(outer(v, 2) @ u, np.outer(u, v))
    np.testing.assert_allclose(trace(3) @ np.arange(9.0).reshape(3, 3), 12.0)
    # vec, column by column, is the usual Kronecker product
    Y = array((2, 3), dtype, 5)
    image = kronecker(A, B) @ Y
    np.testing.assert_allclose(image.ravel("F"), np.kron(A, B) @ Y.ravel("F"))


# ---- simplification


def same(a: Operator, b: Operator | np.ndarray, kind: type | None = None) -> None:
    expected = real_matrix(b) if isinstance(b, Operator) else b
    np.testing.assert_allclose(real_matrix(a), expected, atol=1e-12)
    if kind is not None:
        assert type(a) is kind, a


V, M = Type((3,), np.dtype(float)), Type((2, 3), np.dtype(float))


def test_diagonals_join() -> None:
    a, b = array((3,)), array((3,), seed=1)
    same(Diagonal(a) @ Diagonal(b), np.diag(a * b), Diagonal)
    same(Diagonal(a) + Diagonal(b), np.diag(a + b), Diagonal)
    same(Diagonal(a) + Identity(V), np.diag(a + 1), Diagonal)
    same(2.0 * Diagonal(a), np.diag(2 * a), Diagonal)
    same(Diagonal(a) @ Scale(3.0, V), np.diag(3 * a), Diagonal)
    same(Scale(3.0, V) @ Scale(0.5, V), 1.5 * np.eye(3), Scale)
    same(Scale(2.0, V) @ Scale(0.5, V), np.eye(3), Identity)
    same(Scale(2.0, V) + Scale(-2.0, V), np.zeros((3, 3)), Zero)


def test_diagonals_of_different_shape_join() -> None:
    row, column = Diagonal(array((3,)), M), Diagonal(array((2, 1), seed=1), M)
    same(row @ column, real_matrix(row) @ real_matrix(column))
    same(row + column, real_matrix(row) + real_matrix(column))


def test_moves_join() -> None:
    same(Reshape(Type((3, 2), np.dtype(float)), (6,)) @ Reshape(M, (3, 2)), np.eye(6), Reshape)
    same(Reshape(Type((6,), np.dtype(float)), (2, 3)) @ Reshape(M, (6,)), np.eye(6), Identity)
    t = Transpose(Type((2, 1, 3), np.dtype(float)), (2, 0, 1))
    same(t.T @ t, np.eye(6), Identity)
    u = Transpose(t.out_type, (1, 0, 2))
    same(u @ t, real_matrix(u) @ real_matrix(t), Transpose)
    b = Broadcast(V, (2, 3))
    c = Broadcast(b.out_type, (4, 2, 3))
    same(c @ b, real_matrix(c) @ real_matrix(b), Broadcast)
    same((c @ b).T, (b.T @ c.T), SumTo)


def test_masks_join() -> None:
    p, q = np.array([True, True, False]), np.array([False, True, True])
    same(Mask(p, V) @ Mask(q, V), np.diag([0.0, 1.0, 0.0]), Mask)


def test_masks_of_different_shape_join() -> None:
    p, q = Mask(np.array([True, False, True]), M), Mask(np.array([[True], [False]]), M)
    same(p @ q, real_matrix(p) @ real_matrix(q))


def test_zero_absorbs_and_vanishes() -> None:
    z = Zero(V, M)
    same(z @ Diagonal(array((3,))), np.zeros((6, 3)), Zero)
    same(Diagonal(array((2, 3))) @ z, np.zeros((6, 3)), Zero)
    same(z + Broadcast(V, (2, 3)), Broadcast(V, (2, 3)), Broadcast)


def test_conjugating_twice_is_nothing() -> None:
    t = Type((2,), np.dtype(complex))
    same(Conjugate(t) @ Conjugate(t), np.eye(4), Identity)


def test_left_multiplications_join() -> None:
    A, B = array((2, 3)), array((3, 4), seed=1)
    joined = left(A, 5) @ left(B, 5)
    assert isinstance(joined, Contraction)
    assert sum(a is not None for a in joined.operands) == 1
    same(joined, left(A @ B, 5))
    same(right(B, 2) @ right(A, 2), right(A @ B, 2))
    same(left(A, 4) @ right(B, 3), kronecker(B.T, A))


def test_mixed_product_of_kronecker_products() -> None:
    A, B, C, D = (array((3, 3), seed=k) for k in range(4))
    joined = kronecker(A, B) @ kronecker(C, D)
    same(joined, kronecker(A @ C, B @ D), Contraction)
    assert sum(a is not None for a in joined.operands) == 2
    same(kronecker(A, B).T, kronecker(A.T, B.T))


def test_matrices_join() -> None:
    A, B = array((2, 3)), array((3, 2), seed=1)
    same(Matrix(A) @ Matrix(B), A @ B, Matrix)
    same(Matrix(A) + Matrix(B.T), A + B.T, Matrix)
    same(Matrix(A) - Matrix(B.T), A - B.T, Matrix)
    same(2.0 * Matrix(A), 2 * A, Matrix)


def test_inverse_cancels() -> None:
    A = Matrix(array((3, 3)) + 3 * np.eye(3))
    same(Inverse(A) @ A, np.eye(3), Identity)
    same(A @ Inverse(A), np.eye(3), Identity)
    same(Inverse(A), np.linalg.inv(A.A))


def test_structure_of_products_and_sums() -> None:
    t = Transpose(M, (1, 0))
    d = Diagonal(array((3, 2)))
    assert "permutation" in (t.T @ Reshape(t.out_type, (3, 2)) @ t).structure
    assert "orthogonal" not in (d @ t).structure
    assert "diagonal" in OperatorSum([d, Erase(d.in_type, (0,))]).structure
    # A product of symmetric maps need not be symmetric.
    assert "symmetric" not in (Cumsum(V, 0) @ Diagonal(array((3,)))).structure


def test_mismatched_shapes_are_errors() -> None:
    with pytest.raises(ShapeError, match="cannot compose"):
        Diagonal(array((3,))) @ Diagonal(array((2,)))
    with pytest.raises(ShapeError, match="cannot add"):
        Broadcast(V, (2, 3)) + Identity(V)
    with pytest.raises(ShapeError, match="takes arrays of shape"):
        Cumsum(V, 0) @ np.ones(4)
    with pytest.raises(ShapeError, match="not square"):
        Inverse(Broadcast(V, (2, 3)))
    with pytest.raises(ShapeError, match="expected a number"):
        as_operator(np.zeros((2, 2, 2)))


def test_a_masked_infinity_is_zero() -> None:
    t = np.array([np.inf, np.nan, 2.0])
    keep = np.array([False, False, True])
    np.testing.assert_array_equal(Mask(keep, V) @ t, [0, 0, 2])
    np.testing.assert_array_equal(Zero(V, V) @ t, [0, 0, 0])
    np.testing.assert_array_equal(EraseAt(V, (np.array([0, 1]),)) @ t, [0, 0, 2])
    np.testing.assert_array_equal(Erase(V, ((0, 2, 1),)) @ t, [0, 0, 2])


# ---- blocks


def test_block_of_numbers_solves_by_substitution() -> None:
    L = np.array([[0.0, 0, 0], [2.0, 0, 0], [3.0, 4.0, 0]])
    lower = I - Block(L.tolist())
    assert isinstance(lower, Block)
    assert lower.is_lower
    assert not lower.is_upper
    b = (1.0, 2.0, 3.0)
    np.testing.assert_allclose(lower.solve(b), np.linalg.solve(np.eye(3) - L, b))
    np.testing.assert_allclose(lower.T.solve(b), np.linalg.solve((np.eye(3) - L).T, b))
    np.testing.assert_allclose(lower.dense(), np.eye(3) - L)


def test_block_of_matrices_solves_by_substitution() -> None:
    A, B, C = (array((2, 2), seed=k) + 3 * np.eye(2) for k in range(3))
    block = Block([[A, 0], [B, C]])
    full = np.block([[A, np.zeros((2, 2))], [B, C]])
    b = (array((2,)), array((2,), seed=1))
    np.testing.assert_allclose(block.dense(), full)
    np.testing.assert_allclose(np.concatenate(block.solve(b)), np.linalg.solve(full, np.hstack(b)))
    back = np.concatenate(block.T.solve(b))
    np.testing.assert_allclose(back, np.linalg.solve(full.T, np.hstack(b)))


def test_block_of_operators_solves_by_substitution() -> None:
    d = array((3,)) + 3
    block = Block([[Diagonal(d), 0], [SumAxes(V, (0,)), Scale(2.0, Type((), np.dtype(float)))]])
    b = (array((3,), seed=1), np.float64(0.5))
    x = block.solve(b)
    for got, expected in zip(block @ x, b, strict=True):
        np.testing.assert_allclose(got, expected)
    y = block.T.solve(b)
    for got, expected in zip(block.T @ y, b, strict=True):
        np.testing.assert_allclose(got, expected)


def test_block_algebra() -> None:
    a, b = Block([[1.0, 2.0], [0, 3.0]]), Block([[4.0, 0], [5.0, 6.0]])
    np.testing.assert_allclose((a @ b).dense(), a.dense() @ b.dense())
    np.testing.assert_allclose((a + b).dense(), a.dense() + b.dense())
    np.testing.assert_allclose((a - b).dense(), a.dense() - b.dense())
    np.testing.assert_allclose((2.0 * a).dense(), 2 * a.dense())
    np.testing.assert_allclose((a - 2.0).dense(), a.dense() - 2 * np.eye(2))


def test_block_mistakes_are_errors() -> None:
    full = Block([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(ShapeError, match="cyclic"):
        full.solve((1.0, 1.0))
    with pytest.raises(ShapeError, match="must be square"):
        Block([[1.0, 2.0]]).solve((1.0,))
    with pytest.raises(ShapeError, match="equal length"):
        Block([[1.0], [1.0, 2.0]])
    with pytest.raises(ShapeError, match="takes 2 parts"):
        full @ (1.0,)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        Block([[0.0, 0], [1.0, 1.0]]).solve((1.0, 1.0))


# ---- any shape

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


@given(SHAPES, st.data())
def test_moving_entries(shape: tuple[int, ...], data: Any) -> None:
    t = Type(shape, np.dtype(float))
    axes = data.draw(st.permutations(range(len(shape))))
    check_operator(Transpose(t, tuple(axes)))
    some = data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True)) if shape else []
    check_operator(SumAxes(t, tuple(sorted(some)), data.draw(st.booleans())))
    check_operator(Reshape(t, (t.size,)))


@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3))
def test_broadcasting(shapes: Any) -> None:
    for shape in shapes.input_shapes:
        t = Type(shape, np.dtype(float))
        check_operator(Broadcast(t, shapes.result_shape))
        check_operator(Diagonal(array(shape), Type(shapes.result_shape, t.dtype)))


@given(hnp.array_shapes(max_dims=3, max_side=4), st.data())
def test_slicing(shape: tuple[int, ...], data: Any) -> None:
    key = data.draw(hnp.basic_indices(shape, allow_ellipsis=False, allow_newaxis=True))
    parts = key if isinstance(key, tuple) else (key,)
    spec = tuple((e.start, e.stop, e.step) if isinstance(e, slice) else e for e in parts)
    t = Type(shape, np.dtype(float))
    check_operator(Slice(t, spec))
    check_operator(Erase(t, spec))
    a = array(shape)
    np.testing.assert_array_equal(Slice(t, spec) @ a, a[key])


@given(st.data())
def test_contractions(data: Any) -> None:
    """Any two operands over at most three labels, and the swap rule on them."""
    length = {"i": 2, "j": 3, "k": 1}
    labels = st.lists(st.sampled_from("ijk"), max_size=3).map("".join)
    x, y = data.draw(labels), data.draw(labels)
    output = "".join(data.draw(st.permutations(sorted(set(x + y)))))
    output = output[: data.draw(st.integers(0, len(output)))]
    operand = array(tuple(length[c] for c in y))
    t = Type(tuple(length[c] for c in x), np.dtype(float))
    check_operator(Contraction(f"{x},{y}->{output}", 0, (None, operand), t))


@pytest.mark.parametrize("d", [2.0, np.arange(3.0), np.ones((5000, 1)), np.ones((5000, 3))])
def test_a_differential_that_repeats_is_multiplied_once(d):
    """Compiling a derivative along ones must not fill memory with them."""
    t = np.broadcast_to(np.arange(3.0), (5000, 3))
    y = Diagonal(d).apply(t)
    np.testing.assert_array_equal(y, np.array(t) * d)
    assert (0 in y.strides) == (np.shape(d)[:1] != (5000,))


def test_a_tangent_of_repeated_rows_is_an_array_of_its_own():
    _, t = bs.jvp(lambda x: np.broadcast_to(x, (5000, 3)) * 2.0, (np.ones(3),), (np.ones(3),))
    assert t.flags.writeable
    assert t.flags.c_contiguous
    assert np.all(t == 2)


def _cosine_in_place(a):
    def times(t):
        t *= np.cos(a)
        return t

    return ops.Custom(times, times)


@functools.cache
def own_rows():
    """Made when they are needed: other tests go through all rows that there are."""
    sine = bs.primitive("test_own_sine", np.sin, blocks=(lambda a: _cosine_in_place(a),))
    twice_both = bs.primitive(
        "test_twice_both",
        lambda a, b: 2 * a + 2 * b,
        blocks=(ops.Custom(lambda t: 2 * t, lambda u: 2 * u),) * 2,
    )
    return sine, twice_both


@pytest.mark.parametrize("method", ["auto", "forward", "reverse", "eliminate", "colour"])
@pytest.mark.parametrize("n", [2, 5])
def test_custom_operators_own_what_they_are_given(method, n):
    """They may write into it, and need not say what they go between."""
    own_sine, x = own_rows()[0], np.linspace(0.1, 1.0, n)
    found = bs.jacobian(lambda x: own_sine(x) * x + x, method=method)(x)
    np.testing.assert_allclose(found, np.diag(np.cos(x) * x + np.sin(x) + 1))
    found = bs.jacobian(lambda x: own_sine(2 * x) + x, method=method)(x)
    np.testing.assert_allclose(found, np.diag(2 * np.cos(2 * x) + 1))


@pytest.mark.parametrize("method", ["auto", "forward", "reverse", "eliminate", "colour"])
def test_custom_operators_that_broadcast(method):
    twice_both, x, rows = own_rows()[1], np.arange(1.0, 4.0), np.ones((2, 3))
    found = bs.jacobian(lambda x: twice_both(x, rows * x) * x, method=method)(x)
    np.testing.assert_allclose(found, np.broadcast_to(np.diag(8 * x), (2, 3, 3)))
