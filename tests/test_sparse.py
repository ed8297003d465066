"""Sparse Jacobians and Hessians against dense ones; plans; what they do and do not compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import special

import backsolve as bs
from backsolve.errors import NotScalarError, StructureError, TracedValueError
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


# ---- infinities behind masks


def root(x: Any) -> Any:
    return np.where(x > 0, np.sqrt(x), 0.0)


def seen_and_masked(x: Any) -> Any:
    """The infinity of sqrt is masked on one way; on the other it meets an entry of another row."""
    s = np.sqrt(x)
    return np.where(x > 0, s, 0.0)[1:] + x[:-1] * x[1:] + np.where(x > 4, s, 1.0)[:-1]


def stencil(x: Any) -> Any:
    s = np.sqrt(x)
    v = np.concatenate([[0.0], np.where(x > 0, s, 0.0), [0.0]])
    return v[:-2] - 2 * v[1:-1] * x + v[2:] + np.where(x > 2, s, x)


def side_by_side(x: Any) -> Any:
    """Of one row, a result that shows the infinity and one that does not."""
    s = np.sqrt(x)
    return np.concatenate([np.where(x > 0, s, 0.0) * x[::-1], s])


def folded(x: Any) -> Any:
    s = np.sqrt(np.concatenate([x, x[::-1]]))
    y = np.where(s > 0, s, 0.0) * 2.0
    return y[:6] - y[6:] + np.where(x > 1, s[:6], 0.0) + s[5::-1] * np.where(x > 0, 1.0, 0.0)


MASKED: dict[str, Any] = {
    "where": lambda x: root(x)[1:] * 2 + x[:-1] + root(x)[:-1] * x[1:],
    "seen and masked": seen_and_masked,
    "stencil": stencil,
    "side by side": side_by_side,
    "folded": folded,
}
ZEROS = np.array([0.0, 1.0, 0.0, 4.0, 9.0, 0.0])


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize("method", ["eliminate", "colour"])
def test_infinities_behind_masks(name: str, method: str) -> None:
    """As dense Jacobians have them: 0 where all ways are masked, infinite or NaN where one is not."""
    f = MASKED[name]
    plan = bs.sparsity(f, ZEROS + 1, method=method)
    assert (plan.method, plan.is_local) == (method, False)
    for x in (ZEROS, ZEROS + 1, ZEROS[::-1].copy()):
        expected = bs.jacobian(f, method="forward")(x)
        for jacobian in (bs.jacobian(f, sparse=plan), bs.jacobian(f, sparse=True)):
            np.testing.assert_array_equal(jacobian(x).toarray(), expected)
        numbers = bs.jit(lambda x: bs.jacobian(f, sparse=plan)(x).data)(x)
        np.testing.assert_array_equal(numbers, bs.jacobian(f, sparse=plan)(x).data)


def test_elimination_is_not_replaced_where_nothing_is_nan() -> None:
    plan = bs.sparsity(side_by_side, ZEROS + 1)
    jacobian = bs.jacobian(side_by_side, sparse=plan)
    jacobian(ZEROS + 2)
    assert plan._made.is_mixed
    assert plan._made._solves is None
    jacobian(ZEROS)
    assert plan._made._solves is not None
    assert not bs.sparsity(broyden, ZEROS)._made.is_mixed


@pytest.mark.parametrize("method", ["eliminate", "colour"])
def test_hessian_behind_masks(method: str) -> None:
    f = lambda x: (stencil(x) ** 2 * x).sum() + (root(x) * x**2).sum()
    plan = bs.sparsity(f, ZEROS + 1, hessian=True, method=method)
    for x in (ZEROS, ZEROS + 1):
        expected = bs.hessian(f)(x)
        np.testing.assert_allclose(
            bs.hessian(f, sparse=plan)(x).toarray(), expected, rtol=1e-12, atol=1e-12
        )


# ---- complex functions

Z = RNG.normal(size=12) + 1j * RNG.normal(size=12)
COMPLEX: dict[str, Any] = {
    "product": lambda z: z[1:] * z[:-1],
    "stencil": lambda z: np.exp(z)[:-2] - 2j * z[1:-1] ** 2 + z[2:] / (1 + z[:-2] ** 2),
    "conjugated twice": lambda z: np.conj(np.conj(z)[::-1] * 2j) + z**3,
    "gather": lambda z: np.sin(z)[AT] * z[:4],
    "matmul": lambda z: (A @ z.reshape(3, 4).T)[:, 0] * z[:3],
    "constant": lambda z: z[1:] * 3 - 2j * z[:-1],
    "a loop": lambda z: bs.fori_loop(0, 2, lambda k, u: u[::-1] * z, z),
    "only on the numbers": lambda z: z**2 * (np.conj(z) / np.conj(z)),
}


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("method", [None, "colour"])
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_complex_functions(name: str, method: Any, dtype: str) -> None:
    f, z = COMPLEX[name], Z.astype(dtype)
    plan = bs.sparsity(f, z, method=method)
    assert not plan.is_local
    loops = name in ("a loop", "only on the numbers")
    assert plan.method == ("colour" if method or loops else "eliminate")
    for at in (z, z[::-1] * 2):
        found = bs.jacobian(f, sparse=plan)(at)
        expected = bs.jacobian(f)(at)
        assert found.dtype == dtype
        rtol = 1e-10 if dtype == "complex128" else 1e-4
        np.testing.assert_allclose(found.toarray(), expected, rtol=rtol, atol=rtol)
        assert found.nnz < expected.size


@pytest.mark.parametrize("method", [None, "colour"])
def test_complex_results_and_steps_of_real_arguments(method: Any) -> None:
    x = RNG.normal(size=6)
    through = lambda x: np.abs((x[1:] + 2j * x[:-1]) ** 2)
    for f, dtype in [(through, "float64"), (lambda x: (1 + 2j) * x[1:] * x[:-1], "complex128")]:
        plan = bs.sparsity(f, x, method=method)
        found = bs.jacobian(f, sparse=plan)(x + 1)
        assert found.dtype == dtype
        assert found.nnz == 10
        np.testing.assert_allclose(found.toarray(), bs.jacobian(f)(x + 1), rtol=1e-12)


@pytest.mark.parametrize("method", [None, "colour"])
def test_functions_that_are_not_holomorphic_are_refused(method: Any) -> None:
    for f in (np.conj, lambda z: z[1:] * np.conj(z[:-1]), lambda z: np.abs(z) ** 2, np.real):
        with pytest.raises(NotScalarError, match="holomorphic"):
            bs.sparsity(f, Z, method=method)


def test_inside_jit_a_function_that_needs_numbers_is_an_error_that_says_so() -> None:
    needs = lambda y: special.logsumexp(y) * y  # a function of SciPy that is no ufunc
    with pytest.raises(TracedValueError, match="only its type is known"):
        bs.jit(lambda x: bs.jacobian(needs, sparse=True)(x).data)(np.ones(3))


@pytest.mark.parametrize("method", [None, "colour"])
def test_matrices_of_16_bits_are_ones_that_scipy_computes_with(method: Any) -> None:
    x = np.linspace(-1, 1, 5).astype(np.float16)
    f = lambda x: x[1:] * x[:-1]
    J = bs.jacobian(f, sparse=bs.sparsity(f, x, method=method))(x)
    assert J.dtype == np.float32
    np.testing.assert_allclose(J.toarray(), bs.jacobian(f)(x), atol=1e-3)
    np.testing.assert_allclose(J @ np.ones(5), bs.jacobian(f)(x).sum(axis=1), atol=1e-2)
