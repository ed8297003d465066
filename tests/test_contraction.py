"""Derivatives of fixed points of many unknowns: by the iteration itself where it is quick, else by GMRES."""

from __future__ import annotations

import numpy as np
import pytest

import backsolve as bs
from backsolve.solve.square import Linear

N = 150  # more than are solved for directly, eagerly and compiled
RNG = np.random.default_rng(3)
U = RNG.normal(size=N)


def matrix(radius: float) -> np.ndarray:
    J = RNG.normal(size=(N, N))
    return radius * J / np.max(np.abs(np.linalg.eigvals(J)))


def loss(W: np.ndarray, **options):
    x = bs.fixed_point(lambda x, W: np.tanh(W @ x + U), np.zeros(N), W, **options)
    return np.sum(np.sin(x))


def truth(W: np.ndarray) -> np.ndarray:
    """The gradient by dense linear algebra."""
    x = np.zeros(N)
    for _ in range(20_000):
        x = np.tanh(W @ x + U)
    slope = 1 - x * x
    w = np.linalg.solve((np.eye(N) - slope[:, None] * W).T, np.cos(x))
    return np.outer(w * slope, x)


@pytest.fixture
def by_krylov(monkeypatch):
    """Which methods were asked for."""
    methods = []
    ask = Linear._by

    def asked(self, method, b, transposed, is_step=False):
        methods.append(method)
        return ask(self, method, b, transposed, is_step)

    monkeypatch.setattr(Linear, "_by", asked)
    return methods


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("radius", [0.0, 0.3, 0.7, 0.99])
def test_gradients(radius, compiled):
    W = matrix(radius)
    grad = bs.jit(bs.grad(loss)) if compiled else bs.grad(loss)
    np.testing.assert_allclose(
        grad(W), truth(W), rtol=0, atol=1e-8 * (1 + np.max(np.abs(truth(W))))
    )


def test_quick_ones_need_no_krylov_method_and_slow_ones_do(by_krylov):
    for radius, expected in ((0.3, []), (0.95, ["gmres"])):
        W = matrix(radius)
        bs.grad(lambda c, W=W: np.sum(bs.fixed_point(lambda x, c: W @ x + c, np.zeros(N), c)))(U)
        assert by_krylov == expected


def test_a_method_or_preconditioner_that_is_given_is_taken(by_krylov):
    W = matrix(0.3)
    expected = truth(W)
    for options in (
        {"method": "gmres"},
        {"preconditioner": lambda x, W: lambda v: v},
    ):
        found = bs.grad(lambda W, options=options: loss(W, **options))(W)
        np.testing.assert_allclose(found, expected, atol=1e-8)
    assert by_krylov == ["gmres", "gmres"]


@pytest.mark.parametrize("compiled", [False, True])
def test_what_grows_before_it_falls(compiled):
    """J is nilpotent: the series ends, but its terms are large on the way."""
    J = np.diag(np.full(N - 1, 3.0), 1) * (np.arange(N) % 12 != 11)

    def f(c):
        return bs.fixed_point(lambda x, c: J @ x + c, np.zeros(N), c)

    w = RNG.normal(size=N)
    gradient = bs.grad(lambda c: w @ f(c))
    found = (bs.jit(gradient) if compiled else gradient)(U)
    np.testing.assert_allclose(found, np.linalg.solve((np.eye(N) - J).T, w), rtol=1e-9)


@pytest.mark.parametrize("compiled", [False, True])
def test_units(compiled):
    """Unknowns in units far apart: each adjoint is right by itself."""
    d = 10.0 ** RNG.uniform(-9, 9, N)
    J = matrix(0.3) * d[:, None] / d
    w = RNG.normal(size=N) / d
    gradient = bs.grad(lambda c: w @ bs.fixed_point(lambda x, c: J @ x + c, np.zeros(N), c))
    found = (bs.jit(gradient) if compiled else gradient)(U * d)
    plain = J * d / d[:, None]
    expected = np.linalg.solve((np.eye(N) - plain).T, w * d) / d
    np.testing.assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize("radius", [0.3, 0.95])
def test_batches_orders_and_both_modes(radius):
    W, c = matrix(radius), RNG.normal(size=(3, N))
    A = np.linalg.inv(np.eye(N) - W)
    f = lambda c: bs.fixed_point(lambda x, c: W @ x + np.sin(c), np.zeros(N), c)
    loss = lambda c: np.sum(f(c) ** 3)
    x = np.sin(c) @ A.T
    expected = 3 * x**2 @ A * np.cos(c)
    close = lambda found, expected: np.testing.assert_allclose(
        found, expected, rtol=1e-7, atol=1e-8 * np.max(np.abs(expected))
    )
    close(bs.vmap(bs.grad(loss))(c), expected)
    close(bs.jit(bs.vmap(bs.grad(loss)))(c), expected)
    v = RNG.normal(size=N)
    dx = A @ (np.cos(c[0]) * v)
    second = (6 * x[0] * dx) @ A * np.cos(c[0]) - 3 * x[0] ** 2 @ A * np.sin(c[0]) * v
    close(bs.jvp(f, (c[0],), (v,))[1], dx)
    close(bs.hvp(loss)(c[0], v), second)
    close(bs.jit(bs.hvp(loss))(c[0], v), second)


def test_numbers_that_are_no_numbers_are_an_error():
    W = matrix(0.3)
    _, back = bs.vjp(lambda c: bs.fixed_point(lambda x, c: W @ x + c, np.zeros(N), c), U)
    with pytest.raises(ArithmeticError, match="did not converge"):
        back(np.full(N, np.nan))
