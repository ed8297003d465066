"""Sparse Jacobians and Hessians against dense ones; plans; what they do and do not compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import backsolve as bs
from backsolve.errors import StructureError
from backsolve.ir import Type
from backsolve.solve.sparse import Pick, Put
from backsolve.trace import stage

from .test_eliminate import bratu, broyden, brusselator, matrices

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("f", "shape"),
    [(bratu, (9,)), (brusselator, (2, 4, 5)), (broyden, (12,))],
    ids=["bratu", "brusselator", "broyden"],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_jacobian(f: Any, shape: tuple[int, ...], dtype: str) -> None:
    x = RNG.normal(size=shape).astype(dtype)
    plan = bs.sparsity(f, x)
    found = bs.jacobian(f, sparse=plan)(x)
    expected = bs.jacobian(f)(x).reshape(plan.shape)
    assert isinstance(found, sp.csr_array)
    assert found.dtype == dtype
    assert found.nnz == np.count_nonzero(expected) == plan.nnz
    np.testing.assert_allclose(
        found.toarray(), expected, rtol=1e-12 if dtype == "float64" else 1e-5
    )
    other = x + 1
    again = bs.jacobian(f, sparse=plan)(other)
    np.testing.assert_allclose(
        again.toarray(), bs.jacobian(f)(other).reshape(plan.shape), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(plan.pattern.toarray(), expected != 0)


def test_results_and_arguments_in_containers() -> None:
    x = {"a": RNG.normal(size=12), "b": 2.0}

    def f(p: Any) -> Any:
        return [*matrices(p["a"] * p["b"])], p["b"] ** 2, np.ones(3)

    found = bs.jacobian(f, sparse=True)(x)
    expected = bs.jacobian(f)(x)
    for A, B in zip(bs.tree.flatten(found)[0], bs.tree.flatten(expected)[0], strict=True):
        np.testing.assert_allclose(A.toarray(), np.reshape(B, A.shape), rtol=1e-10, atol=1e-12)


def energy(x: Any) -> Any:
    """A chain of springs and a quartic well at each place."""
    return ((x[1:] - x[:-1]) ** 2 * (1 + x[1:])).sum() + (x**4).sum() + np.sin(x[0]) * x[-1]


def test_hessian() -> None:
    x = RNG.normal(size=8)
    found = bs.hessian(energy, sparse=True)(x)
    expected = bs.hessian(energy)(x)
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-12, atol=1e-12)
    assert found.nnz == np.count_nonzero(expected)


def test_a_plan_is_of_one_structure() -> None:
    plan = bs.sparsity(bratu, np.zeros(5))
    with pytest.raises(StructureError, match="another structure"):
        bs.jacobian(broyden, sparse=plan)(np.zeros(5))
    with pytest.raises(StructureError, match="another structure"):
        bs.jacobian(bratu, sparse=plan)(np.zeros(6))


def test_a_million_unknowns_are_planned_on_index_structure() -> None:
    plan = bs.sparsity(bratu, np.zeros(1_000_000))
    assert plan.nnz == 2_999_998
    J = bs.jacobian(bratu, sparse=plan)(np.zeros(1_000_000))
    np.testing.assert_array_equal(J[:2, :3].toarray(), [[-199, 100, 0], [100, -199, 100]])


def test_matrices_do_not_share_their_numbers() -> None:
    x = RNG.normal(size=6)
    jacobian = bs.jacobian(bratu, sparse=True)
    first = jacobian(x)
    kept = first.toarray()
    second = jacobian(x + 1)
    np.testing.assert_array_equal(first.toarray(), kept)
    assert second.data is not first.data
    linear = bs.jacobian(lambda u: u[1:] - u[:-1], sparse=True)
    one, two = linear(x), linear(x)
    one.data[:] = 7
    assert two.data[0] != 7


def test_functions_with_nothing_to_vary() -> None:
    x = np.zeros(3)
    assert bs.jacobian(lambda u: np.ones(2), sparse=True)(x).nnz == 0
    assert bs.jacobian(lambda u: u[:0], sparse=True)(x).shape == (0, 3)
    assert bs.jacobian(lambda u: u * 2, sparse=True)(np.zeros(0)).shape == (0, 0)


# ---- patterns of all kinds of blocks, and random programs, against dense Jacobians

A = np.arange(12.0).reshape(3, 4) % 5
AT = np.array([3, 0, 0, 2])

FORMS: dict[str, Any] = {
    "gather": lambda x: np.sin(x)[AT] * x[:4],
    "gather twice": lambda x: x[AT][AT[::-1]] ** 2,
    "broadcast": lambda x: x.reshape(3, 4) * x[:3, None] + x[:4],
    "sum": lambda x: (x.reshape(3, 4) ** 2).sum(axis=0),
    "mean and keepdims": lambda x: x.reshape(3, 4) - x.reshape(3, 4).mean(axis=1, keepdims=True),
    "where": lambda x: np.where(np.arange(12) % 3 == 0, x**2, 1.0),
    "where on values": lambda x: np.where(x > 0, x[::-1], 2 * x),
    "matmul with a constant": lambda x: A @ np.cos(x[:4]),
    "batched matmul": lambda x: x.reshape(3, 4)[:, None, :] @ A.T,
    "convolution": lambda x: np.convolve(x**2, [1.0, -2.0, 1.0], mode="valid"),
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x * x, 3).sum(axis=-1),
    "reshape and transpose": lambda x: np.exp(x).reshape(2, 6).T.reshape(3, 4)[:, ::2],
    "scan": lambda x: np.cumsum(x[:5] * x[5:10]),
    "stack and roll": lambda x: np.stack([np.roll(x, 3), x * x], axis=1),
    "extremes": lambda x: np.maximum(x[:6], x[6:]) * x[0],
    "diff": lambda x: np.diff(x, n=2) / x[1:-1],
    "repeat and tile": lambda x: np.repeat(x[:3], 4) * np.tile(x[:4], 3),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("method", ["eliminate", "colour"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_forms(name: str, method: str, dtype: str) -> None:
    x = np.random.default_rng(3).normal(size=12).astype(dtype)
    _compare_at(FORMS[name], method, x, x[::-1] * np.asarray(1.5, dtype))


def _compare_at(f: Any, method: str, *points: Any) -> None:
    plan = bs.sparsity(f, points[0], method=method)
    jacobian = bs.jacobian(f, sparse=plan)
    rtol = 1e-10 if points[0].dtype == float else 1e-4
    for x in points:
        found = jacobian(x)
        expected = np.asarray(bs.jacobian(f)(x)).reshape(found.shape)
        assert found.dtype == x.dtype
        np.testing.assert_allclose(found.toarray(), expected, rtol=rtol, atol=rtol)
        assert not plan.is_local
        assert not np.any((expected != 0) & ~plan.pattern.toarray())


def random_program(seed: int) -> Any:
    """Steps on a vector of 12 entries, each of them sparse or not, in any order."""
    rng = np.random.default_rng(seed)
    at = rng.integers(0, 12, 12)
    c = np.round(rng.normal(size=12), 1)
    steps: list[Any] = [
        lambda x: np.sin(x),
        lambda x: x * np.roll(x, 2),
        lambda x: x[at],
        lambda x: np.concatenate([x[6:], x[:6] * 2]),
        lambda x: np.where(c > 0, x, x[::-1]),
        lambda x: x.reshape(3, 4).T.reshape(-1),
        lambda x: (x.reshape(3, 4) + x.reshape(4, 3).sum(axis=1)).reshape(-1),
        lambda x: c * x,
        lambda x: np.convolve(x, [1.0, 2.0], mode="full")[:12],
        lambda x: np.concatenate([x[::2], x[1::2]]),
        lambda x: np.repeat(x[:6] ** 2, 2),
        lambda x: x.reshape(2, 6)[:, ::-1].reshape(-1) + x,
    ]
    chosen = [steps[k] for k in rng.integers(0, len(steps), 5)]

    def f(x: Any) -> Any:
        kept = x
        for step in chosen:
            kept, x = x, step(x)
        return x + kept[at]

    return f


@pytest.mark.parametrize("seed", range(25))
def test_random_programs(seed: int) -> None:
    x = np.random.default_rng(100 + seed).normal(size=12)
    f = random_program(seed)
    _compare_at(f, "eliminate", x, x + 1)
    if seed % 5 == 0:
        _compare_at(f, "colour", x, x + 1)


def test_elimination_computes_each_entry_once() -> None:
    """No stack of seeds: nothing in the staged program is larger than the entries of the matrix."""
    n = 400
    plan = bs.sparsity(bratu, np.zeros(n))
    program, _ = stage(plan._made._traced, [Type((n,), np.dtype(float))])
    largest = max(v.type.size for e in program.equations for v in e.outputs)
    assert largest <= plan.nnz


def fills(layout: Any) -> str:
    return type(layout.fill).__name__


@pytest.mark.parametrize(
    ("f", "shape", "fill"),
    [(bratu, (30,), "Put"), (brusselator, (2, 6, 7), "Pick"), (broyden, (40,), "Pick")],
    ids=["bratu", "brusselator", "broyden"],
)
def test_numbers_are_put_in_even_steps_and_picked_otherwise(f: Any, shape: Any, fill: str) -> None:
    x = RNG.normal(size=shape)
    plan = bs.sparsity(f, x)
    assert fills(plan.only) == fill
    program, _ = stage(plan._made._traced, [Type(x.shape, x.dtype)])
    scatters = [e for e in program.equations if e.primitive.name == "scatter_add"]
    assert len(scatters) == (fill == "Put")


@pytest.mark.parametrize("seed", range(30))
def test_numbers_at_any_places(seed: int) -> None:
    """Places that several values have, values beside constants, many and few constants."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 60)), int(rng.integers(1, 60))
    at = rng.integers(0, n, m) if seed % 2 else rng.permutation(n)[:m]
    template = rng.integers(0, 3, n).astype("f4" if seed % 3 else "f8")
    if seed % 5 == 0:
        template = rng.normal(size=n)
    if seed % 7 == 0:
        template[:] = 0
    values = rng.normal(size=at.size).astype(template.dtype)
    expected = template.copy()
    np.add.at(expected, at, values)
    pick = Pick.of(at, template)
    for fill in [Put(at), *([] if pick is None else [pick])]:
        np.testing.assert_allclose(fill.numbers([values], template), expected, rtol=1e-6, atol=1e-6)
    assert pick is not None or np.unique(at).size < at.size or template[at].any()


def test_constants_are_told_apart_by_their_bits() -> None:
    template = np.array([np.nan, -0.0, 0.0, np.inf, np.nan, 0.0, 1.0])
    pick = Pick.of(np.array([6, 2]), np.where(np.isin(np.arange(7), [2, 6]), 0.0, template))
    assert pick is not None
    assert pick.constants.size == 4
    found = pick.numbers([np.array([5.0, 7.0])], template)
    np.testing.assert_array_equal(found, [np.nan, -0.0, 7.0, np.inf, np.nan, 0.0, 5.0])
    assert np.signbit(found[1])
    assert not np.signbit(found[5])
