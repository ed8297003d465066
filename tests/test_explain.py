"""What carries a gradient, and how exact it is, the latter against mpmath."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import NotScalarError, TracedValueError, UnsupportedError

AT = np.array([2.0, 5.0])


def f(x: Any) -> Any:
    return np.log(x[0]) + x[0] * x[1] - np.sin(x[1])


# ---- explain


def test_inputs_and_paths_are_ranked() -> None:
    found = bs.explain(f, AT)
    assert [i.name for i in found.inputs] == ["x[0]", "x[1]"]
    np.testing.assert_allclose([i.gradient for i in found.inputs], bs.grad(f)(AT))
    np.testing.assert_allclose(sum(i.share for i in found.inputs), 1)
    assert found.count == 4
    # What all paths carry adds up to the gradient.
    np.testing.assert_allclose([p.carries for p in found.paths], [5, 2, 0.5, -np.cos(5)])
    np.testing.assert_allclose(sum(p.carries for p in found.paths), bs.grad(f)(AT).sum())


def test_the_table_tells_rows_and_lines() -> None:
    text = str(bs.explain(f, AT))
    assert "x → v1 → v4 → v5 → v7            5.0" in text
    assert "v4 = v1 · v3" in text
    assert "test_explain.py" in text
    assert "return np.log(x[0])" in text


def test_arrays_and_several_arguments() -> None:
    W = np.random.default_rng(0).normal(size=(4, 3))

    def g(x: Any, y: Any) -> Any:
        return np.tanh(W @ x).sum() * y + x[0]

    x = np.array([0.1, -0.2, 0.3])
    found = bs.explain(g, x, 0.5)
    by_x, by_y = bs.grad(g, (0, 1))(x, 0.5)
    carried = {"x": 0.0, "y": 0.0}
    for p in found.paths:
        carried[p.parameter] += p.carries
    np.testing.assert_allclose([carried["x"], carried["y"]], [by_x.sum(), by_y])


def test_a_long_path_is_cut_in_print() -> None:
    def long(x: Any) -> Any:
        for _ in range(50):
            x = np.sin(x) + np.cos(x)
        return x

    found = bs.explain(long, 0.5, paths=2)
    assert found.count == 2**50
    assert found.is_proven  # of numbers, the bound is what a path carries
    assert len(found.paths) == 2
    assert len(found.paths[0].rows) == 100
    assert "v2 → … →" not in str(found)
    assert "→ … →" in str(found)


def all_paths(system: Any) -> list[Any]:
    """Every path with what it carries, most first."""
    found = []

    def walk(row: Any, carried: Any, path: tuple[int, ...]) -> None:
        if row in system.parameters:
            found.append((float(np.abs(carried).sum()), path[::-1]))
            return
        for parent, block in system.edges(row):
            walk(parent, block.T.apply(carried), (*path, system.number[row]))

    walk(system.outputs[0], np.ones(()), ())
    return sorted(found, key=lambda p: -p[0])


@pytest.mark.parametrize("seed", range(4))
def test_paths_of_arrays_are_those_that_carry_most(seed: int) -> None:
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(3, 5, 5)) * rng.uniform(0.1, 3, size=(3, 1, 1))
    c = rng.normal(size=5)

    def g(x: Any) -> Any:
        for w in W:
            x = np.tanh(w @ x) + np.sin(w.T @ x) * x
        return c @ x

    x = rng.normal(size=5)
    found = bs.explain(g, x, paths=6)
    every = all_paths(found.system)
    assert found.is_proven
    assert found.count == len(every)
    np.testing.assert_allclose([p.size for p in found.paths], [size for size, _ in every[:6]])
    assert found.paths[0].rows == every[0][1]
    # by gains alone another would be first, or they would be in another order
    by_gain = [p.rows for p in found.system.strongest_paths(6)]
    assert by_gain != [p.rows for p in found.paths]


def test_a_bound_is_said_to_be_one() -> None:
    rng = np.random.default_rng(0)
    A = np.linalg.qr(rng.normal(size=(2, 8, 8)))[
        0
    ]  # turn, so that gains are far above what is carried

    def g(x: Any) -> Any:
        for _ in range(30):
            x = A[0] @ x + A[1] @ x
        return x.sum()

    found = bs.explain(g, np.ones(8), paths=3)
    assert not found.is_proven
    assert len(found.paths) == 3
    assert "by a bound" in str(found)
    assert "by a bound" not in str(bs.explain(f, AT))


def test_a_constant_has_no_paths() -> None:
    found = bs.explain(lambda x: 3.0 + 0.0 * bs.stop_gradient(x), 1.0)
    assert found.paths == ()
    assert found.is_proven


def test_a_number_of_paths_is_checked() -> None:
    assert len(bs.explain(f, AT, paths=np.int64(2)).paths) == 2
    for paths in (0, -1, 2.5, True):
        with pytest.raises(
            ValueError, match="number of paths must be a whole number of at least 1"
        ):
            bs.explain(f, AT, paths=paths)


@pytest.mark.parametrize("within", [bs.jit, lambda g: lambda x: bs.vmap(g)(x[None])])
def test_inside_compiled_code_there_are_no_numbers(within: Any) -> None:
    with pytest.raises(TracedValueError, match=r"explain finds what carries .* by its numbers"):
        within(lambda x: bs.explain(f, x).entropy)(AT)
    with pytest.raises(TracedValueError, match=r"rounding bounds the errors .* by its numbers"):
        within(lambda x: bs.rounding(f, x).bound)(AT)


def test_explain_needs_a_number() -> None:
    with pytest.raises(NotScalarError, match="one number"):
        bs.explain(lambda x: x * 2, AT)


# ---- rounding: (in NumPy, in mpmath, where)

CANCELLING = [
    (lambda x: (1 - np.cos(x)) / x**2, lambda x: (1 - mpmath.cos(x)) / x**2, 1e-3),
    (lambda x: x - np.sin(x), lambda x: x - mpmath.sin(x), 1e-4),
    (lambda x: np.sqrt(x + 1) - np.sqrt(x), lambda x: mpmath.sqrt(x + 1) - mpmath.sqrt(x), 1e7),
    (
        lambda x: x**5 - 5 * x**4 + 10 * x**3 - 10 * x**2 + 5 * x - 1,
        lambda x: x**5 - 5 * x**4 + 10 * x**3 - 10 * x**2 + 5 * x - 1,
        1.01,
    ),
    (lambda x: np.exp(x) - np.exp(-x) - 2 * x, lambda x: 2 * mpmath.sinh(x) - 2 * x, 1e-3),
    (lambda x: np.log(1 + x) / x, lambda x: mpmath.log(1 + x) / x, 1e-6),
    (lambda x: 0.1 * (0.3 * x), lambda x: mpmath.mpf(0.1) * (mpmath.mpf(0.3) * x), 1.0),
]


@pytest.mark.parametrize("k", range(len(CANCELLING)))
def test_the_bound_holds_and_is_not_absurd(k: int) -> None:
    g, exact, x0 = CANCELLING[k]
    errors, bounds = [], []
    with mpmath.workdps(60):
        for x in (x0 * (1 + t) for t in np.linspace(0, 0.01, 40)):
            found = bs.rounding(g, float(x))
            assert found.gradient == bs.grad(g)(float(x))
            true = mpmath.diff(exact, mpmath.mpf(float(x)))
            errors.append(float(abs(mpmath.mpf(float(found.gradient)) - true)))
            bounds.append(float(found.bound))
    assert all(e <= b for e, b in zip(errors, bounds, strict=True))
    assert max(bounds) < 60 * max(errors)


def test_a_product_of_matrices_that_cancels() -> None:
    rng = np.random.default_rng(1)
    A, big = rng.normal(size=(30, 30)), 1e8

    def g(x: Any) -> Any:
        y = A @ x
        return ((y + big) - big) @ y

    x = rng.normal(size=30)
    found = bs.rounding(g, x)
    with mpmath.workdps(50):
        M = mpmath.matrix(A.tolist())
        true = 2 * (M.T * (M * mpmath.matrix(x.tolist())))
        errors = [
            float(abs(mpmath.mpf(float(a)) - b)) for a, b in zip(found.gradient, true, strict=True)
        ]
    assert np.all(errors <= found.bound)
    assert found.bound.max() < 100 * max(errors)
    assert found.bound.max() > 1e-8  # far above a bound that sees no cancellation


def test_what_rounds_in_ways_unknown_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"`eig` is not known"):
        bs.rounding(lambda x: np.linalg.eigvals(x)[0].real, np.diag([1.0, 2.0]))


def test_a_compiled_call_is_looked_into() -> None:
    def g(x: Any) -> Any:
        return np.sin(x) * x

    inner = bs.jit(g)
    assert bs.rounding(lambda x: inner(x) - 1, 0.5) == bs.rounding(lambda x: g(x) - 1, 0.5)


def test_a_compiled_function_is_explained_as_it_is_written() -> None:
    found, plain = bs.explain(bs.jit(f), AT), bs.explain(f, AT)
    assert found.inputs == plain.inputs
    assert [p.carries for p in found.paths] == [p.carries for p in plain.paths]


def test_rounding_is_of_one_number() -> None:
    with pytest.raises(NotScalarError, match=r"one number.*\(2,\)"):
        bs.rounding(np.sin, AT)
