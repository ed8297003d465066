"""Colourings recover every entry; compressed solves need as many seeds as there are colours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import backsolve as bs
from backsolve.errors import NotScalarError, ShapeError, StructureError, UnsupportedError
from backsolve.solve import greedy, many
from backsolve.solve.colouring import KINDS, Colouring, Pattern, coloured
from backsolve.solve.compressed import substituted

from .test_eliminate import bratu, broyden, brusselator
from .test_sparse import energy

RNG = np.random.default_rng(0)


def pattern_of(A: Any) -> Pattern:
    return Pattern(A.shape, *np.nonzero(A))


def recovered(A: Any, c: Colouring) -> Any:
    """A from its compressed products alone."""
    ahead, back = c.counts
    S = (np.arange(ahead)[:, None] == c.columns).astype(float)
    W = (np.arange(back)[:, None] == c.rows).astype(float)
    numbers = np.concatenate([(S @ A.T).ravel(), (W @ A).ravel()])
    B = np.zeros_like(A)
    B[np.nonzero(A)] = substituted(c, numbers[c.source])
    return B


@pytest.mark.parametrize("kind", ["auto", *KINDS])
def test_random_matrices(kind: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        m, n = rng.integers(0, 13, 2)
        if kind in ("star", "acyclic"):
            m = n
        A = rng.normal(size=(m, n)) * (rng.random((m, n)) < rng.random())
        A = A + A.T if kind in ("star", "acyclic") else A
        np.testing.assert_allclose(
            recovered(A, coloured(pattern_of(A), kind)), A, rtol=1e-9, atol=1e-9
        )


def arrow(n: int) -> Any:
    A = np.eye(n)
    A[0], A[:, 0] = 1, 1
    return A


@pytest.mark.parametrize(
    ("kind", "count"),
    [("column", 9), ("row", 9), ("both", 3), ("star", 2), ("acyclic", 2), ("auto", 3)],
)
def test_an_arrow(kind: str, count: int) -> None:
    assert coloured(pattern_of(arrow(9)), kind).count == count


@pytest.mark.parametrize(
    ("kind", "count"), [("column", 3), ("row", 3), ("both", 3), ("star", 3), ("acyclic", 2)]
)
def test_a_band_of_a_hundred_thousand(kind: str, count: int) -> None:
    n = 100_000
    band = sp.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1]).tocsr()
    rows, cols = band.nonzero()
    c = coloured(Pattern((n, n), rows.astype(np.intp), cols.astype(np.intp)), kind)
    assert c.count == count


def grid(m: int) -> Any:
    near = np.eye(m, k=1) + np.eye(m, k=-1)
    return np.kron(near, np.eye(m)) + np.kron(np.eye(m), near) + 4 * np.eye(m * m)


@pytest.mark.parametrize("kind", ["star", "acyclic"])
@pytest.mark.parametrize("name", ["chain", "grid", "bands", "scattered"])
def test_larger_symmetric_matrices(name: str, kind: str) -> None:
    rng = np.random.default_rng(2)
    mask = {
        "chain": np.eye(60, k=1) + np.eye(60, k=-1),
        "grid": grid(8),
        "bands": sum(np.eye(50, k=k) for k in (-9, -4, -1, 0, 1, 4, 9)),
        "scattered": np.triu(rng.random((70, 70)) < 0.05),
    }[name]
    A = rng.uniform(1, 2, mask.shape) * (mask != 0)
    A = A + A.T
    np.testing.assert_allclose(recovered(A, coloured(pattern_of(A), kind)), A, rtol=1e-9, atol=1e-9)


def without_edges(n: int, seed: int, part: float) -> Any:
    A = np.random.default_rng(seed).random((n, n)) < part
    return (A | A.T).astype(float)


@pytest.mark.parametrize("kind", list(KINDS))
def test_compiled_loops_give_the_same_colours(kind: str, monkeypatch: Any) -> None:
    """Also where there are more colours than a word has bits."""
    calls: list[str] = []
    compiled = greedy._compiled

    def watched(loop: Any) -> Any:
        calls.append(loop.__name__)
        return compiled(loop)

    monkeypatch.setattr(greedy, "_compiled", watched)
    bs.jit  # noqa: B018
    for A in [without_edges(70, 0, 0.03), without_edges(64, 1, 0.02), np.ones((70, 70))]:
        monkeypatch.setattr(greedy, "MANY", 10**9)
        expected = coloured(pattern_of(A), kind)
        assert not calls
        monkeypatch.setattr(greedy, "MANY", 1)
        found = coloured(pattern_of(A), kind)
        assert calls
        calls.clear()
        for name in ("columns", "rows", "source"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        np.testing.assert_allclose(recovered(A, found), A)
    assert expected.count == 70


FUNCTIONS: dict[str, Any] = {
    "bratu": (bratu, RNG.normal(size=9)),
    "brusselator": (brusselator, RNG.normal(size=(2, 4, 5))),
    "broyden": (broyden, RNG.normal(size=12)),
    "arrow": (lambda x: np.concatenate([[x.sum() ** 2], x[1:] * x[0]]), RNG.normal(size=9)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", ["auto", "column", "row", "both"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_jacobian(name: str, kind: str, dtype: str) -> None:
    f, x = FUNCTIONS[name]
    x = x.astype(dtype)
    plan = bs.sparsity(f, x, method="colour", colouring=kind)
    assert plan.method == "colour"
    found = bs.jacobian(f, sparse=plan)(x + 1)
    expected = bs.jacobian(f)(x + 1).reshape(plan.shape)
    assert found.dtype == dtype
    np.testing.assert_allclose(
        found.toarray(), expected, rtol=1e-12 if dtype == "float64" else 1e-4
    )
    by_elimination = bs.sparsity(f, x)
    assert by_elimination.method == "eliminate"
    np.testing.assert_array_equal(plan.pattern.toarray(), by_elimination.pattern.toarray())


@pytest.mark.parametrize("kind", ["star", "acyclic", "column", "auto"])
def test_hessian(kind: str) -> None:
    x = RNG.normal(size=9)
    plan = bs.sparsity(energy, x, hessian=True, method="colour", colouring=kind)
    found = bs.hessian(energy, sparse=plan)(x - 0.5)
    np.testing.assert_allclose(found.toarray(), bs.hessian(energy)(x - 0.5), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["column", "row", "both", "star"])
def test_numbers_by_colours_are_differentiated_and_compiled_again(kind: str) -> None:
    x = RNG.normal(size=9)
    second = kind == "star"
    f, dense = (energy, bs.hessian) if second else (bratu, bs.jacobian)
    plan = bs.sparsity(f, x, hessian=second, colouring=kind)
    weights = RNG.normal(size=plan.nnz)
    rows = np.repeat(np.arange(9), np.diff(plan.only.indptr))
    numbers = lambda x: dense(f, sparse=plan)(x).data
    expected = lambda x: dense(f)(x)[rows, plan.only.indices]
    np.testing.assert_allclose(bs.jit(numbers)(x), expected(x), rtol=1e-12)
    found = bs.grad(lambda x: (weights * numbers(x)).sum())(x)
    np.testing.assert_allclose(
        found, bs.grad(lambda x: (weights * expected(x)).sum())(x), rtol=1e-9, atol=1e-9
    )


def test_entries_found_from_each_other_are_no_derivative() -> None:
    plan = bs.sparsity(energy, np.ones(9), hessian=True, colouring="acyclic")
    with pytest.raises(UnsupportedError, match="star"):
        bs.grad(lambda x: bs.hessian(energy, sparse=plan)(x).data.sum())(np.ones(9))


def test_several_arguments_and_results() -> None:
    x, y = RNG.normal(size=5), RNG.normal(size=4)

    def f(x: Any, y: Any) -> Any:
        return {"a": x[1:] * y, "b": x[:2] ** 2, "c": np.ones(2)}

    for kind in ("column", "row", "both"):
        plan = bs.sparsity(f, x, y, argnums=(0, 1), colouring=kind)
        found = bs.jacobian(f, (0, 1), sparse=plan)(x, y)
        expected = bs.jacobian(f, (0, 1))(x, y)
        for A, B in zip(bs.tree.flatten(found)[0], bs.tree.flatten(expected)[0], strict=True):
            np.testing.assert_allclose(A.toarray(), B, rtol=1e-12)


def test_as_many_seeds_as_colours(monkeypatch: Any) -> None:
    """Neither n columns nor m rows are solved for: stacks are as high as there are colours."""
    heights: list[tuple[str, int]] = []

    def counting(name: str) -> Any:
        solve = getattr(many, name)

        def run(system: Any, seeds: Any) -> Any:
            heights.append((name, len(seeds[0])))
            return solve(system, seeds)

        return run

    for name in ("forward_images", "reverse_images"):
        monkeypatch.setattr(f"backsolve.solve.compressed.{name}", counting(name))
    bs.sparsity(bratu, np.zeros(50), colouring="column")
    assert heights == [("forward_images", 3)]
    heights.clear()
    bs.sparsity(bratu, np.zeros(50), colouring="row")
    assert heights == [("reverse_images", 3)]
    heights.clear()
    f, _ = FUNCTIONS["arrow"]
    assert bs.sparsity(f, np.zeros(50), colouring="both").colours.counts == (2, 1)
    assert heights == [("forward_images", 2), ("reverse_images", 1)]
    heights.clear()
    bs.sparsity(bratu, np.zeros(50))  # by elimination there are no seeds
    assert not heights


# ---- functions whose blocks have no entries, given a pattern


def three(n: int) -> Any:
    return sp.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1])


def test_a_compiled_call_inside() -> None:
    inner = bs.jit(bratu)
    f = lambda x: inner(x) * 2
    x = RNG.normal(size=8)
    plan = bs.sparsity(f, x, pattern=three(8))
    assert plan.colours.count == 3
    np.testing.assert_allclose(
        bs.jacobian(f, sparse=plan)(x).toarray(), bs.jacobian(f)(x), rtol=1e-12
    )


@pytest.mark.parametrize("kind", ["column", "row", "both"])
def test_a_pattern_of_a_result_that_does_not_depend(kind) -> None:
    plan = bs.sparsity(
        lambda x, y: np.sin(y), np.ones(3), np.ones(2), pattern=np.ones((2, 3)), colouring=kind
    )
    found = bs.jacobian(plan.f, sparse=plan)(np.ones(3), np.ones(2))
    np.testing.assert_array_equal(found.toarray(), np.zeros((2, 3)))


@pytest.mark.parametrize("kind", ["column", "row", "both"])
def test_a_result_that_is_given_twice(kind) -> None:
    def f(x: Any) -> Any:
        y = np.hypot(x, x[::-1])
        return y, x, y

    x = RNG.normal(size=4)
    plan = bs.sparsity(f, x, colouring=kind)
    for found, want in zip(bs.jacobian(f, sparse=plan)(x), bs.jacobian(f)(x), strict=True):
        np.testing.assert_allclose(found.toarray(), want, rtol=1e-12)


def test_a_complex_function() -> None:
    x = RNG.normal(size=6) + 1j * RNG.normal(size=6)
    f = lambda z: z**2 + 2j * np.concatenate([z[1:], z[:1] ** 3])
    expected = bs.jacobian(f)(x)
    plan = bs.sparsity(f, x, pattern=expected != 0)
    np.testing.assert_allclose(bs.jacobian(f, sparse=plan)(x).toarray(), expected, rtol=1e-12)
    for known in ({"pattern": expected != 0}, {}):
        with pytest.raises(UnsupportedError, match="colour the columns") as error:
            bs.sparsity(f, x, colouring="row", **known)
        assert "give its pattern" not in str(error.value)  # which would not help
    with pytest.raises(NotScalarError, match="holomorphic"):
        bs.sparsity(lambda z: np.conj(z), x, pattern=np.eye(6))


def test_a_pattern_that_leaves_an_entry_out_is_refused() -> None:
    x = RNG.normal(size=6)
    P = three(6).toarray()
    P[3, 2] = 0
    with pytest.raises(StructureError, match="row 3"):
        bs.sparsity(bratu, x, pattern=P)
    with pytest.raises(ShapeError, match="6 × 6"):
        bs.sparsity(bratu, x, pattern=three(5))
    with pytest.raises(StructureError, match="one result"):
        bs.sparsity(lambda x: (x, x), x, pattern=np.eye(6))
    with pytest.raises(ShapeError, match="matrix"):
        bs.sparsity(bratu, x, pattern=np.ones(6))


def test_bad_names() -> None:
    x = np.zeros(3)
    with pytest.raises(ValueError, match='"eliminate" or "colour"'):
        bs.sparsity(bratu, x, method="color")
    with pytest.raises(ValueError, match='"auto", "column"'):
        bs.sparsity(bratu, x, colouring="columns")
    with pytest.raises(ValueError, match="Hessians"):
        bs.sparsity(bratu, x, colouring="star")
    with pytest.raises(ValueError, match="method="):
        bs.sparsity(bratu, x, method="eliminate", colouring="row")
    with pytest.raises(StructureError, match="symmetric"):
        coloured(pattern_of(np.triu(np.ones((3, 3)))), "star")
    with pytest.raises(StructureError, match=r"bs\.sparsity"):
        bs.jacobian(bratu, sparse="yes")
    plan = bs.sparsity(energy, x, hessian=True)
    with pytest.raises(StructureError, match="hessian=False"):
        bs.jacobian(energy, sparse=plan)


# ---- at a point


def branching(x: Any) -> Any:
    if x[0].value > 0:
        return x[1:] * x[:-1]
    return x[1:] ** 2


def test_a_function_that_branches_on_values_has_a_pattern_at_each_point() -> None:
    up, down = np.array([1.0, 2.0, 3.0]), np.array([-1.0, 2.0, 3.0])
    plan = bs.sparsity(branching, up)
    assert plan.is_local
    assert not bs.sparsity(bratu, up).is_local
    assert plan.nnz == 4
    jacobian = bs.jacobian(branching, sparse=plan)
    for x, nnz in [(up, 4), (down, 2), (up, 4)]:
        found = jacobian(x)
        assert found.nnz == nnz
        np.testing.assert_allclose(found.toarray(), bs.jacobian(branching)(x))


@pytest.mark.parametrize("wrap", [bs.jit, bs.checkpoint])
def test_calls_without_blocks_are_coloured_by_their_places(wrap: Any) -> None:
    f = lambda x: x[1:] * np.sin(x[:-1])
    x = np.linspace(0.1, 1.0, 12)
    whole = bs.jacobian(lambda x: x[0] * wrap(f)(x) ** 2, method="colour")(x)
    expected = bs.jacobian(lambda x: x[0] * f(x) ** 2, method="reverse")(x)
    np.testing.assert_allclose(whole, expected, rtol=1e-12, atol=1e-15)
