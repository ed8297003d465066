"""Equations and unknowns in any units: none hides what is left of another."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import fsolve

import backsolve as bs
from backsolve.errors import ConvergenceError

N = 200  # more than is solved directly
Q = np.array([1.0, 2.0, -0.5])


def held_ends(u: Any, q: Any) -> Any:
    """Diffusion and reaction, with values at both ends by a penalty, as finite elements have it."""
    r = 3 * u - 0.5 * np.concatenate([u[1:], u[-1:]]) - 0.5 * np.concatenate([u[:1], u[:-1]])
    ends = np.zeros((2, N))
    ends[0, 0] = ends[1, -1] = 1e10
    return r + 0.1 * u**3 - q[1] + ends[0] * (u - q[0]) + ends[1] * (u - q[2])


@pytest.mark.parametrize("way", [lambda f: f, bs.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("method", ["auto", "gmres", "cg", "minres"])
def test_a_penalty_hides_no_other_equation(method: str, way: Any) -> None:
    solution = lambda method: lambda q: bs.root(held_ends, np.zeros(N), q, method=method)
    f, sure = solution(method), solution("direct")
    for k in range(3):
        found = way(lambda q, e: bs.jvp(f, (q,), (e,))[1])(Q, np.eye(3)[k])
        np.testing.assert_allclose(
            found, bs.jvp(sure, (Q,), (np.eye(3)[k],))[1], rtol=1e-6, atol=1e-9
        )
    w = np.cos(np.arange(N))
    for of in (bs.grad, bs.hessian):
        total = lambda f: lambda q: f(q) @ w
        np.testing.assert_allclose(way(of(total(f)))(Q), of(total(sure))(Q), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("method", ["gmres", "cg", "minres"])
@pytest.mark.parametrize("unit", [1e12, 1e-12, 1e150, 1e-150])
def test_linear_solve_in_two_units(method: str, unit: float) -> None:
    D = np.array([unit, 1.0, 2.0, 3.0])
    x = bs.linear_solve(np.diag(D), D, method=method)
    np.testing.assert_allclose(x, np.ones(4), rtol=1e-9)
    by_hand = bs.jacobian(lambda b: bs.linear_solve(np.diag(D), b, method=method))(D)
    np.testing.assert_allclose(by_hand, np.diag(1 / D), rtol=1e-9)


@pytest.mark.parametrize("rows", [1.0, 1e10, 1e-10])
@pytest.mark.parametrize("columns", [1.0, 1e10, 1e-10])
def test_both_sides_of_a_general_matrix(rows: float, columns: float) -> None:
    """Of x = C⁻¹ B⁻¹ R⁻¹ b each derivative is small by the units alone."""
    rng = np.random.default_rng(0)
    B = rng.normal(size=(6, 6)) + 6 * np.eye(6)
    R, C = np.ones(6), np.ones(6)
    R[1], C[4] = rows, columns
    A, b = R[:, None] * B * C, R * rng.normal(size=6)
    w = C * rng.normal(size=6)
    found = bs.grad(lambda b: bs.linear_solve(A, b, method="gmres") @ w)(b)
    np.testing.assert_allclose(found * R, np.linalg.solve(B.T, w / C), rtol=1e-8)


def test_an_equation_in_small_units_is_checked() -> None:
    F = lambda x, p: np.stack([1e6 * (x[0] - p[0]), x[1] ** 2 - p[1]])
    p = np.array([1.0, 1.5])
    solved = bs.implicit(F, lambda p: np.stack([p[0], np.sqrt(p[1])]))
    np.testing.assert_allclose(bs.jacobian(solved)(p), np.diag([1.0, 0.5 / 1.5**0.5]), rtol=1e-12)
    careless = bs.implicit(F, lambda p: np.array([p[0], 1.0]))
    with pytest.raises(ConvergenceError, match="does not solve"):
        bs.jacobian(careless)(p)
    staged = bs.implicit(F, lambda p: np.stack([p[0], 1.0 + 0 * p[1]]))
    with pytest.raises(ArithmeticError, match="does not solve"):
        bs.jit(bs.jacobian(staged))(p)


@pytest.mark.parametrize("like", [None, np.zeros(2)])
def test_a_solver_may_return_its_own_memory(like: Any) -> None:
    memory = np.ones(2)

    def solver(p: Any) -> Any:
        memory[:] = fsolve(lambda x: x**3 - p, np.ones(2))
        return memory

    solved = bs.implicit(lambda x, p: x**3 - p, solver, like=like)
    f = lambda p: np.sum(solved(p) * solved(2 * p))
    p = np.array([1.0, 8.0])
    exact = lambda p: np.sum(np.cbrt(2.0) * p ** (2 / 3))
    slope = 2 / 3 * np.cbrt(2.0) * p ** (-1 / 3)
    np.testing.assert_allclose(f(p), exact(p))
    np.testing.assert_allclose(bs.grad(f)(p), slope)
    if like is not None:
        many = np.stack([p, 2 * p, p])
        np.testing.assert_allclose(bs.vmap(f)(many), [exact(p) for p in many])
        np.testing.assert_allclose(bs.jit(bs.grad(f))(p), slope)


def test_tangents_that_are_known_where_the_rest_is_staged() -> None:
    f = lambda q: bs.root(lambda u: u**3 + u - q, np.zeros(6), method="gmres")
    q, e = np.arange(1.0, 7), np.eye(6)[0]
    want = bs.jvp(f, (q,), (e,))[1]
    np.testing.assert_allclose(bs.jit(lambda q: bs.jvp(f, (q,), (e,))[1])(q), want, rtol=1e-9)
    np.testing.assert_allclose(
        bs.vmap(lambda q: bs.jvp(f, (q,), (e,))[1])(q[None])[0], want, rtol=1e-9
    )


def test_no_unknowns() -> None:
    f = lambda p: np.sum(bs.root(lambda x, p: x**3 - p, np.zeros(0), p))
    for way in (lambda f: f, bs.jit):
        assert way(bs.grad(f))(np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("method", ["gmres", "cg", "minres"])
def test_equations_of_any_sizes(method: str) -> None:
    """Solutions and derivatives, each in units of its own."""
    rng = np.random.default_rng(3)
    for sizes in (10.0 ** rng.uniform(-6, 6, 12), np.where(rng.random(12) < 0.5, 1.0, 1e8)):
        B = rng.normal(size=(12, 12)) / 4
        half, B = sizes**0.5, B @ B.T + np.eye(12)
        A = half[:, None] * B * half
        for units in (half, np.ones(12)):
            x, w = rng.normal(size=12) / units, rng.normal(size=12) * units
            solve = lambda b, A=A: bs.linear_solve(A, b, method)
            np.testing.assert_allclose(solve(A @ x) * half, x * half, rtol=1e-6, atol=1e-7)
            found = bs.grad(lambda b, w=w, solve=solve: solve(b) @ w)(A @ x)
            want = np.linalg.solve(B, w / half)
            scale = np.max(np.abs(want))
            np.testing.assert_allclose(found * half / scale, want / scale, atol=1e-7)


@pytest.mark.parametrize("way", [lambda f: f, bs.jit], ids=["eager", "jit"])
def test_right_hand_sides_span_more_than_the_equations(way: Any) -> None:
    A = np.array([[2, 1.0], [0, 2]]) * np.array([1e6, 1e-5])
    w, one = np.array([1e6, 1e-5]), np.ones(2)
    want = np.linalg.solve(A.T, w)
    solve = lambda b: bs.linear_solve(A, b, "gmres") @ w
    find = lambda q: bs.root(lambda x, q: A @ x - q, np.zeros(2), q, method="gmres") @ w
    for f in (solve, find):
        np.testing.assert_allclose(way(bs.grad(f))(one), want, rtol=1e-7)


@pytest.mark.parametrize("way", [lambda f: f, bs.jit], ids=["eager", "jit"])
def test_equations_whose_squares_are_no_numbers(way: Any) -> None:
    D, c = np.array([1e20, 1, 2, 3], np.float32), np.ones(4, np.float32)
    for sizes in (D, np.float32(1e20) * np.array([1, 1.2, 2, 3], np.float32)):
        f = bs.implicit(lambda x, c, s=sizes: s * (x - c), lambda c: c + 0, method="cg")
        np.testing.assert_allclose(way(bs.jacobian(f))(c), np.eye(4), rtol=1e-5)
    B = np.array([[1, 5, 0], [0, 2, 3], [1, 0, 1.0]])
    f = bs.implicit(
        lambda x, c: 1e160 * (B @ x - c), lambda c: np.linalg.solve(B, c), method="minres"
    )
    with pytest.raises(ArithmeticError, match="did not converge"):  # it is not symmetric
        way(bs.jacobian(f))(np.ones(3))


@pytest.mark.parametrize("way", [lambda f: f, bs.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("method", ["gmres", "cg", "minres"])
def test_an_infinite_right_hand_side_is_told(method: str, way: Any) -> None:
    b = np.array([np.inf, 2, 1])
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(ArithmeticError, match="did not converge"),
    ):
        way(lambda b: bs.linear_solve(2 * np.eye(3), b, method))(b)


FLAT = {
    "softplus": (lambda x: np.logaddexp(0, x / 1e7) - 0.3 * x / 1e7, 4e8, 1e7 * np.log(3 / 7)),
    "Huber": (
        lambda x: np.where(
            abs(x * 1e-6 - 1) < 1, 0.5 * (x * 1e-6 - 1) ** 2, abs(x * 1e-6 - 1) - 0.5
        ),
        5e6,
        1e6,
    ),
    "small": (lambda x: 1e-12 * np.cos(x), 1.3, np.pi),
    "cosine": (lambda x: np.cos(1e-6 * x), 1.3e6, 1e6 * np.pi),
}
APART = {
    "large": (
        lambda x: np.cosh(x[0] / 1e10 - 3) + np.cosh(x[1] - 3) + 100 * (x[2] - x[1] ** 2) ** 2,
        [4e10, 2.9, 5.0],
        [3e10, 3, 9],
    ),
    "weak": (
        lambda x: 1e-8 * np.cosh(x[0] / 1e9 - 3) + np.cosh(x[1] - 3),
        [4e9, 2.9],
        [3e9, 3],
    ),
    "Rosenbrock": (
        lambda x: (x[0] / 1e9 - 1) ** 2 + (1 - x[1]) ** 2 + 100 * (x[2] - x[1] ** 2) ** 2,
        [1e9, -1.2, 1.0],
        [1e9, 1, 1],
    ),
}


@pytest.mark.parametrize("way", [lambda f: f, bs.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", [*FLAT, *APART])
def test_minima_from_flat_starts_and_in_two_units(name: str, way: Any) -> None:
    f, start, least = {**FLAT, **APART}[name]
    x0 = np.array(start, float)[()]
    found = way(lambda shift: bs.argmin(lambda x: f(x - shift), x0))(0.0 * x0)
    np.testing.assert_allclose(found, least, rtol=1e-6)


@pytest.mark.parametrize("way", [lambda f: f, bs.jit], ids=["eager", "jit"])
def test_roots_of_equations_far_apart(way: Any) -> None:
    for size, unit, start in ((1e-16, 1e-6, 4e-6), (1e-12, 1e-6, 2e-6), (1e-12, 1.0, 2.0)):
        F = lambda x, c, s=size, u=unit: np.stack([s * (np.exp(x[0] / u) - c), np.exp(x[1]) - c])
        x = way(lambda c, x0, F=F: bs.root(F, x0, c))(3.0, np.array([start, 1.1]))
        np.testing.assert_allclose(x / np.array([unit, 1.0]), np.log(3) * np.ones(2), rtol=1e-8)
