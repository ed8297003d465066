"""Taylor mode through staged loops, implicit functions, and derivatives written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import UnsupportedError
from backsolve.ir import Type
from backsolve.primitives.control import LOOP
from backsolve.solve import square
from backsolve.trace import stage

RNG = np.random.default_rng(3)
X, V = RNG.normal(size=(2, 4)) * 0.4
A = RNG.normal(size=(4, 4))


def nested(f: Any, x: Any, v: Any, order: int) -> list[Any]:
    g = lambda t: f(x + t * v)
    found = []
    for _ in range(order):
        g = lambda t, g=g: bs.jvp(g, (t,), (1.0,))[1]
        found.append(g(0.0))
    return found


def along(f: Any, order: int, v: Any = V) -> Any:
    return lambda x: bs.jet(f, (x,), [[v, *[np.zeros_like(v)] * (order - 1)]])[1]


# ---- loops inside jit


def newton(x: Any) -> Any:
    a = 2 + x @ x
    r = a
    while abs(r * r - a) > 1e-13:
        r = 0.5 * (r + a / r)
    return r * np.cos(x[0])


def turning(x: Any) -> Any:
    y, s, k = x, 0.0, 0
    while k < 40 and s < 6:
        y = np.sin(y) * x[::-1] if y[0] > 0.2 else np.cos(y) + 0.1 * x
        s = s + y @ y
        k += 1
    return s * y.sum()


def within(x: Any) -> Any:
    total = x[0]
    k = 0
    while total < 5 and k < 30:
        inner = total
        while inner > 0.5:
            inner = 0.5 * inner + 0.1 * np.sin(inner * x[1])
        total = total + np.exp(inner) * 0.5
        k += 1
    return total


def with_sequences(x: Any) -> Any:
    def step(h: Any, u: Any) -> Any:
        h = np.tanh(h * u + x[:2])
        return h, h * h

    h, seen = bs.scan(step, x[2:], np.linspace(-1, 1, 60))
    return h.sum() + seen.sum() * 0.01


def constant_state(x: Any) -> Any:
    """What is carried does not vary at first, and never does, in two of the values."""
    y, k, scale = 0.0, 0, 1.0
    while y < 4 and k < 20:
        y, scale, k = y + scale * np.exp(x[k % 4]), 0.5 * scale, k + 1
    return y


@pytest.mark.parametrize("f", [newton, turning, within, with_sequences, constant_state])
def test_a_staged_loop_stays_one(f: Any) -> None:
    expected = nested(f, X, V, 5)
    inside = bs.jit(along(f, 5))
    np.testing.assert_allclose(inside(X), expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(along(f, 5)(X), expected, rtol=1e-7, atol=1e-9)
    program, _ = stage(lambda x: tuple(inside(x)), [Type((4,), np.dtype(float))])
    assert _loops(program), "the loop was written out"


def _loops(program: Any) -> int:
    found = 0
    for e in program.equations:
        region = e.params.get("region")
        if e.primitive is LOOP:
            found += 1
        elif getattr(region, "program", None) is not None:
            found += _loops(region.program)
    return found


@pytest.mark.parametrize("f", [newton, turning, with_sequences])
def test_gradients_of_series_through_staged_loops(f: Any) -> None:
    expected = bs.grad(lambda x: nested(f, x, V, 3)[-1])(X)
    third = lambda x: along(f, 3)(x)[-1]
    np.testing.assert_allclose(bs.jit(bs.grad(third))(X), expected, rtol=1e-7, atol=1e-9)
    both = np.stack([X, X + 0.1])
    np.testing.assert_allclose(bs.vmap(third)(both), [third(x) for x in both], rtol=1e-9)


def test_a_failure_inside_a_loop_is_reported() -> None:
    """F_x is Hilbert's matrix, singular up to rounding: the solve for a coefficient finds out."""
    B = 1 / (np.arange(14) + np.arange(1, 15)[:, None])
    flat = bs.implicit(lambda x, p: B @ (x - p), lambda p: 1.0 * p, check=False)

    def f(x: Any) -> Any:
        while x[0] < 3:
            x = flat(x) + 1
        return x

    with pytest.raises(np.linalg.LinAlgError, match="matrix of a linear system is singular"):
        bs.jit(lambda x: bs.jet(f, (x,), [[np.ones(14)] * 2])[1])(np.ones(14))


def test_what_a_loop_stores_is_refused() -> None:
    def f(x: Any) -> Any:
        return bs.jet(bs.grad(newton), (x,), [[V, V]])[1][1]

    with pytest.raises(UnsupportedError, match="what a loop stores"):
        bs.jit(f)(X)


# ---- implicit functions


def F(x: Any, p: Any) -> Any:
    u, v = x["u"], x["v"]
    return {
        "u": A @ u + p * v + 5 * u + u**3 / 3 - 1,
        "v": np.cos(v) - 3 * v + (u @ u) * np.sum(p) * 0.1,
    }


def of_root(p: Any) -> Any:
    x = bs.root(F, {"u": np.zeros(4), "v": 0.0}, np.sin(p))
    return np.sum(x["u"]) * x["v"]


def of_fixed_point(p: Any) -> Any:
    w = 2 * p[0]  # closed over
    f = lambda x, p: np.tanh(0.2 * (A @ x) + p * w)
    return bs.fixed_point(f, np.zeros(4), p, method="gmres") @ p


def of_argmin(p: Any) -> Any:
    f = lambda x, p: np.sum(x**4) + np.sum((x - np.sin(p)) ** 2) + x[0] * x[1]
    return np.sum(bs.argmin(f, np.zeros(4), p) * p)


def of_system(p: Any) -> Any:
    return bs.linear_solve(lambda v: 3 * v + p * np.sum(v * p), np.cos(p), method="cg") @ p


def of_solver(p: Any) -> Any:
    return bs.implicit(lambda x, p: x**3 - p, np.cbrt)(2 + p @ p) * p[0]


IMPLICIT = [of_root, of_fixed_point, of_argmin, of_system, of_solver]


@pytest.mark.parametrize("f", IMPLICIT)
def test_implicit_functions(f: Any) -> None:
    expected = nested(f, X, V, 4)
    np.testing.assert_allclose(along(f, 4)(X), expected, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(bs.jit(along(f, 4))(X), expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("f", [of_root, of_fixed_point])
def test_gradients_of_series_of_implicit_functions(f: Any) -> None:
    """By the point and by the direction, of which one varies alone."""
    second = lambda x, v: bs.jet(f, (x,), [[v, np.zeros(4)]])[1][-1]
    for k in (0, 1):
        expected = bs.grad(lambda x, v: nested(f, x, v, 2)[-1], argnums=k)(X, V)
        got = bs.grad(second, argnums=k)(X, V)
        assert isinstance(got, np.ndarray)
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)
        compiled = bs.jit(bs.grad(second, argnums=k))(X, V)
        np.testing.assert_allclose(compiled, expected, rtol=1e-6, atol=1e-7)


def test_each_order_is_one_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Order 8 of a cube root against its closed form, by eight solves."""
    solves = 0
    solve = square.Linear.solve

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal solves
        solves += 1
        return solve(self, *args, **kwargs)

    monkeypatch.setattr(square.Linear, "solve", counted)
    root = bs.implicit(lambda x, p: x**3 - p, np.cbrt)
    found = bs.jet(root, (2.0,), [[1.0, *[0.0] * 7]])[1]
    assert solves == 8
    powers = 1 / 3 - np.arange(8)
    np.testing.assert_allclose(found, np.cumprod(powers) * 2.0 ** (powers - 1), rtol=1e-12)


# ---- derivatives by hand


class Wave(bs.Function):
    """x sin y; its derivative says so by hand."""

    forwards = 0

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        Wave.forwards += 1
        ctx.save_for_backward(x, y)
        return x * np.sin(y)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * np.sin(y), g * x * np.cos(y)


class Straight(bs.Function):
    """A staircase with the derivative of a line."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> tuple[Any, Any]:
        return np.round(x * 10), 2 * x

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        return 10 * g + 2 * h


def test_derivatives_by_hand() -> None:
    f = lambda x: np.sum(Wave.apply(np.exp(x), x * x[::-1]))
    exact = lambda x: np.sum(np.exp(x) * np.sin(x * x[::-1]))
    expected = along(exact, 6)(X)
    np.testing.assert_allclose(along(f, 6)(X), expected, rtol=1e-10)
    np.testing.assert_allclose(bs.jit(along(f, 6))(X), expected, rtol=1e-10)
    gradient = bs.grad(lambda x: along(exact, 3)(x)[-1])(X)
    np.testing.assert_allclose(bs.grad(lambda x: along(f, 3)(x)[-1])(X), gradient, rtol=1e-10)
    np.testing.assert_allclose(
        bs.vmap(along(f, 6))(X[None]), np.array(expected)[:, None], rtol=1e-9
    )


def test_forward_is_not_run_more_often_for_a_higher_order() -> None:
    f = lambda x: np.sum(Wave.apply(x, x))
    counts = []
    for order in (2, 8):
        Wave.forwards = 0
        along(f, order)(X)
        counts.append(Wave.forwards)
    assert counts[0] == counts[1]


def test_a_derivative_by_hand_counts_also_where_it_differs() -> None:
    def f(x: Any) -> Any:
        steps, line = Straight.apply(x)
        return np.sum(steps * np.sin(line))

    expected = nested(f, X, V, 4)
    np.testing.assert_allclose(along(f, 4)(X), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(bs.jit(along(f, 4))(X), expected, rtol=1e-9, atol=1e-9)


def test_checkpointed_calls() -> None:
    f = lambda x: np.sum(np.tanh(A @ np.sin(x)))
    for inner in (bs.checkpoint(f), bs.checkpoint(f, memory=10_000)):
        g = lambda x, inner=inner: inner(x) * x[0]
        expected = nested(lambda x: f(x) * x[0], X, V, 4)
        np.testing.assert_allclose(along(g, 4)(X), expected, rtol=1e-9)
        np.testing.assert_allclose(bs.jit(along(g, 4))(X), expected, rtol=1e-9)


def test_a_long_program_is_not_asked_for_from_its_end() -> None:
    def f(x: Any) -> Any:
        for _ in range(1000):
            x = x + 0.001 * np.sin(x)
        return x

    found = bs.jet(f, (0.5,), [[1.0, 0.0]])[1]
    np.testing.assert_allclose(found, nested(f, 0.5, 1.0, 2), rtol=1e-9)
