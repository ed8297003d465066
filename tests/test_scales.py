"""Solvers in any units: unknowns, equations and right-hand sides that are far smaller or larger than 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import ShapeError, StructureError
from backsolve.operators import Block, Diagonal

WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "eager": lambda f, x: f(x),
    "jit": lambda f, x: bs.jit(f)(x),
    "vmap": lambda f, x: bs.vmap(f)(np.stack([x, x]))[1],
}
UNITS = [(np.float64, 1e-12), (np.float64, 1e12), (np.float32, 1e-5), (np.float32, 1e-15)]
KRYLOV = ["cg", "gmres", "minres"]
pytestmark = pytest.mark.parametrize("way", WAYS)


@pytest.mark.parametrize(("dtype", "s"), UNITS)
def test_unknowns_in_other_units(way: str, dtype: Any, s: float) -> None:
    run, s, close = WAYS[way], dtype(s), 1e-4 if dtype is np.float32 else 1e-9
    settled = lambda x0, **how: bs.fixed_point(lambda x: s * np.cos(x / s), x0, **how) / s
    finds = {
        "fixed": (lambda x0: settled(x0), 0.0, 0.7390851332),
        "from afar": (lambda x0: settled(x0), 1 / s, 0.7390851332),
        "combined": (lambda x0: settled(x0, memory=3), 0.0, 0.7390851332),
        "root": (lambda x0: bs.root(lambda x: (x / s) ** 3 - 8, x0) / s, 0.3, 2.0),
        "least": (lambda x0: bs.argmin(lambda x: np.cos(x / s), x0) / s, 2.0, np.pi),
    }
    for name, (find, start, want) in finds.items():
        np.testing.assert_allclose(run(find, dtype(start * s)), want, rtol=close, err_msg=name)
    slope = bs.grad(lambda a: bs.fixed_point(lambda x, a: a * s * np.cos(x / s), 0 * s, a) / s)
    np.testing.assert_allclose(run(slope, dtype(1)), 0.4416107918, rtol=close)


def test_unknowns_in_units_of_their_own(way: str) -> None:
    """One is 10¹² times the other, and both are right."""
    units = np.array([1e3, 1e-9])
    finds = {
        "root": lambda x0: bs.root(lambda x: np.stack([x[0] - 1e3, (x[1] / 1e-9) ** 3 - 1]), x0),
        "fixed": lambda x0: bs.fixed_point(lambda x: 0.5 * x + 0.5 * units, x0),
        "least": lambda x0: bs.argmin(lambda x: np.sum(np.cosh(x / units - 1)), x0),
    }
    for name, find in finds.items():
        np.testing.assert_allclose(WAYS[way](find, 0.3 * units), units, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_solutions_at_zero(way: str, dtype: Any) -> None:
    """Where no step is small beside x."""
    c = dtype(0.97)
    finds = {
        "root": lambda x0: bs.root(lambda x: x**3 + x, x0),
        "double root": lambda x0: bs.root(lambda x: x**2, x0),
        "rounding": lambda x0: bs.root(lambda x: np.exp(x) + x - 1 + (0.1 + 0.2 - 0.3), x0),
        "fixed": lambda x0: bs.fixed_point(lambda x: x / 2, x0),
        "slow": lambda x0: bs.fixed_point(lambda x: c * x, x0),
        "least": lambda x0: bs.argmin(lambda x: x**2 + x**4, x0),
    }
    for name, find in finds.items():
        found = WAYS[way](find, dtype(1))
        np.testing.assert_allclose(
            found, 0, atol=1e-6 if dtype is np.float32 else 2e-15, err_msg=name
        )


@pytest.mark.parametrize("start", [np.zeros(5), np.array([1.0, 0.0, -2.0, 0.0, 0.1])])
def test_entries_that_are_zero_but_for_rounding(way: str, start: Any) -> None:
    A, x = np.random.default_rng(1).normal(size=(5, 5)), np.array([1.0, 0.0, -2.0, 0.0, 0.1])
    B = A / (2 * np.linalg.norm(A, 2))
    finds = {
        "root": lambda x0: bs.root(lambda v: A @ v - A @ x, x0),
        "least": lambda x0: bs.argmin(lambda v: np.sum((A @ v - A @ x) ** 2), x0),
        "fixed": lambda x0: bs.fixed_point(lambda v: B @ v + (x - B @ x), x0),
    }
    for name, find in finds.items():
        np.testing.assert_allclose(WAYS[way](find, start), x, atol=1e-10, err_msg=name)


def test_no_solution_is_told_in_any_units(way: str) -> None:
    with pytest.raises(ArithmeticError, match="did not converge"):
        WAYS[way](lambda x0: bs.root(lambda x: 1e12 * np.abs(x) + 1.0, x0), np.float64(1.0))
    for s in (1e-9, 1e-12):
        wrong = bs.implicit(lambda x, a, s=s: (x / s) ** 3 - a, lambda a, s=s: 0.5 * s + 0 * a)
        with pytest.raises(ArithmeticError, match="does not solve"):
            WAYS[way](wrong, np.float64(8.0))
    nearly = bs.implicit(lambda x, a: x**3 + x - a, lambda a: 1e-14 + 0 * a)  # the solution is 0
    assert WAYS[way](nearly, np.float64(0.0)) == 1e-14
    with pytest.raises(np.linalg.LinAlgError, match=r"singular ∂F/∂x.* Is there a solution\?"):
        WAYS[way](lambda x0: bs.root(lambda x: 0 * x + 1.0, x0), np.float64(1.0))


@pytest.mark.parametrize("scale", [1e-40, 1e-23, 1e20, 1e35])
@pytest.mark.parametrize("method", [*KRYLOV, "direct"])
def test_right_hand_sides_whose_squares_are_no_numbers(way: str, method: str, scale: float) -> None:
    S, c = np.array([[3, 1], [1, 2]], np.float32), np.float32(scale)
    for A, b in ((S, c), (S * np.float32(1e-25), np.float32(1)), (S, np.float32(1))):
        found = WAYS[way](
            lambda b, A=A: bs.linear_solve(lambda v: A @ v, b, method), b * np.ones(2, "f")
        )
        want = np.linalg.solve(A.astype(float), float(b) * np.ones(2))
        np.testing.assert_allclose(found, want, rtol=1e-4)


def test_equations_and_functions_in_small_units(way: str) -> None:
    f, run = np.float32, WAYS[way]
    for method in ("direct", "gmres"):
        find = lambda x0, m=method: bs.root(lambda x: f(1e-25) * (x**3 - 8), x0, method=m)
        np.testing.assert_allclose(run(find, f(1)), 2, rtol=1e-5)
    least = lambda x0: bs.argmin(lambda x: f(1e-20) * (x - 8) ** 2, x0)
    np.testing.assert_allclose(run(least, f(1)), 8, rtol=1e-5)
    mean = lambda a: bs.fixed_point(lambda z, a: f(0.5) * np.roll(z, 1) + a, np.zeros(200, f), a)
    slope = bs.grad(lambda a: f(1e-24) * np.sum(mean(a)))
    np.testing.assert_allclose(run(slope, np.ones(200, f)), f(2e-24), rtol=1e-4)


@pytest.mark.parametrize(("dtype", "s"), [*UNITS, (np.float64, 1.0)])
def test_recurrences_of_states_in_other_units(way: str, dtype: Any, s: float) -> None:
    """Logistic growth to s."""
    s, xs = dtype(s), np.ones(400, dtype)
    step = lambda h, x: h + dtype(0.3) * h * (1 - h / s) * x
    final = lambda method: lambda h: bs.recurrence(step, h, xs[:20], method)[-1]
    close = 1e-3 if dtype is np.float32 else 1e-8
    for method in ("auto", "newton"):
        with np.errstate(all="ignore"):  # of the states that it goes through
            found = WAYS[way](lambda h, m=method: bs.recurrence(step, h, xs, m), dtype(0.01 * s))
        want = bs.recurrence(step, dtype(0.01 * s), xs, "sequential")
        np.testing.assert_allclose(found, want, rtol=close)
        slope = WAYS[way](bs.grad(final(method)), dtype(0.01 * s))
        np.testing.assert_allclose(slope, bs.grad(final("sequential"))(dtype(0.01 * s)), rtol=close)


def test_recurrences_that_decay_or_stay_at_zero(way: str) -> None:
    step = lambda h, x: np.tanh(np.array([[0.5, 0.5], [0.5, 0.5]]) @ h) * x
    for h in (np.zeros(2), np.array([1.0, -1.0]), np.ones(2)):
        found = WAYS[way](lambda h: bs.recurrence(step, h, 0.5 * np.ones(2000), "newton"), h)
        want = bs.recurrence(step, h, 0.5 * np.ones(2000), "sequential")
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("method", [*KRYLOV, "direct"])
def test_what_linear_solve_is_given(way: str, method: str) -> None:
    solve = lambda A: lambda b: bs.linear_solve(A, b, method)
    with pytest.raises(ValueError, match="A must be linear"):
        WAYS[way](solve(lambda v: v**2 + v), np.ones(3))
    np.testing.assert_array_equal(WAYS[way](solve(lambda v: 2 * v), np.zeros(0)), np.zeros(0))
    b = np.array([np.nan, 1.0])
    if method == "direct":
        assert np.isnan(WAYS[way](solve(lambda v: 2 * v), b)[0])
    else:
        with pytest.raises(ArithmeticError, match=r"did not converge.*(nan|not a number)"):
            WAYS[way](solve(lambda v: 2 * v), b)
        short = lambda b: bs.linear_solve(lambda v: 2 * v, b, method, lambda v: v[:2])
        with pytest.raises(ShapeError, match="of 3 numbers it made 2"):
            WAYS[way](short, np.ones(3))


def test_what_backslash_is_given(way: str) -> None:
    run = WAYS[way]
    with pytest.raises(StructureError, match=r"got the function .*bs\.linear_solve"):
        run(lambda b: bs.backslash(lambda v: 2 * v, b), np.ones(3))
    with pytest.raises(StructureError, match=r"got the function .*bs\.linear_solve"):
        Block(lambda v: 2 * v)
    for A in (np.eye(3), np.ones((3, 2))):
        with pytest.raises(ShapeError, match=r"as many rows of b.*\(4,\)"):
            run(lambda b, A=A: bs.backslash(A, b), np.ones(4))


def test_diagonals_with_a_zero(way: str) -> None:
    d = np.array([1.0, 0.0, 4.0])
    A, b = np.ones((3, 3)), np.ones(3)
    solves = [
        lambda d: bs.backslash(Diagonal(d), b),
        lambda d: bs.linear_solve(Diagonal(d), b),
        lambda d: bs.backslash(Block([[Diagonal(d), 0], [A, Diagonal(d)]]), (b, b)),
    ]
    for solve in solves:
        with pytest.raises(np.linalg.LinAlgError, match="a diagonal has a zero"):
            WAYS[way](solve, d)
    np.testing.assert_array_equal(WAYS[way](solves[0], d + 1), 1 / (d + 1))
    bs.testing.check_grads(lambda d: bs.backslash(Diagonal(d), b), [d + 1], order=1)


@pytest.mark.parametrize("method", ["auto", "direct"])
def test_batches_of_nothing(way: str, method: str) -> None:
    finds = [
        lambda x: bs.root(lambda v: v**3 - 8, x, method=method),
        lambda x: bs.fixed_point(np.cos, x, method=method),
        lambda x: bs.argmin(lambda v: (v - 1) ** 2, x, method=method),
        bs.implicit(lambda v, a: v - a, lambda a: 1.0 * a, method),
    ]
    for find in finds:
        none = np.zeros((0,))
        found = bs.jit(bs.vmap(find))(none) if way == "jit" else bs.vmap(find)(none)
        assert found.shape == (0,)


def test_a_hessian_solved_in_small_units(way: str) -> None:
    f = np.float32
    H = lambda b: bs.hessian_operator(lambda x: np.sum(x**2) + x[0] * x[1])(np.ones(3, f)).solve(b)
    found = WAYS[way](lambda b: H(b), np.ones(3, f) * f(1e-24))
    np.testing.assert_allclose(found, np.array([1 / 3, 1 / 3, 1 / 2]) * 1e-24, rtol=1e-5)


def test_what_is_no_function_and_steps_that_change_shape(way: str) -> None:
    for find in (bs.root, bs.fixed_point, bs.argmin):
        with pytest.raises(TypeError, match=f"`{find.__name__}` takes a function, got 3"):
            WAYS[way](lambda x, find=find: find(3, x), np.float64(1.0))
    grows = lambda h, x: np.concatenate([h, h])
    with pytest.raises(TypeError, match=r"shapes of h0, \[\(2,\)\]; got \[\(4,\)\]"):
        WAYS[way](lambda h: bs.recurrence(grows, h, np.ones(3)), np.ones(2))
