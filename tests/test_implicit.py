"""Implicit functions: their derivatives against closed forms, dense algebra, differences; what they cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import brentq

import backsolve as bs
from backsolve.errors import (
    ConvergenceError,
    ShapeError,
    SingularError,
    StructureError,
    TracedValueError,
)
from backsolve.operators import Custom
from backsolve.solve import krylov

RNG = np.random.default_rng(0)
N = 6
W = RNG.normal(size=(N, N)) / (2 * N)
U = RNG.normal(size=N)
METHODS = ["direct", "gmres"]


def equilibrium(W: Any, u: Any, **how: Any) -> Any:
    return bs.fixed_point(lambda z, W, u: np.tanh(W @ z + u), np.zeros(N), W, u, **how)


def unrolled(W: Any, u: Any) -> Any:
    z = np.zeros(N)
    for _ in range(80):
        z = np.tanh(W @ z + u)
    return z


def symmetric(n: int = 40, shift: float = 1.0) -> Any:
    B = np.random.default_rng(1).normal(size=(n, n))
    return B @ B.T / n + shift * np.eye(n)


def test_all_orders_of_a_closed_form() -> None:
    root = bs.implicit(lambda x, p: x**3 - p, np.cbrt)
    f, exact = root, [2.0, 1 / 12, -2 / 9 * 8 ** (-5 / 3), 10 / 27 * 8 ** (-8 / 3)]
    g = root
    for want in exact:
        np.testing.assert_allclose([f(8.0), g(8.0)], want, rtol=1e-12)
        f, g = bs.grad(f), (lambda h: lambda p: bs.jvp(h, (p,), (1.0,))[1])(g)


@pytest.mark.parametrize("method", METHODS)
def test_first_and_second_derivatives_are_those_of_the_unrolled_loop(method: str) -> None:
    loss = lambda f: lambda W, u: np.sum(f(W, u) ** 2)
    mine = loss(lambda W, u: equilibrium(W, u, method=method))
    for got, want in zip(
        bs.grad(mine, (0, 1))(W, U), bs.grad(loss(unrolled), (0, 1))(W, U), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9)
    second = bs.hessian(loss(unrolled), 1)(W, U)
    np.testing.assert_allclose(bs.hessian(mine, 1)(W, U), second, rtol=1e-7, atol=1e-8)
    v = RNG.normal(size=N)
    ahead = bs.jvp(lambda u: equilibrium(W, u, method=method), (U,), (v,))[1]
    np.testing.assert_allclose(ahead, bs.jvp(lambda u: unrolled(W, u), (U,), (v,))[1], atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("way", ["forward", "reverse"])
def test_jacobians_both_ways(method: str, way: str) -> None:
    J = bs.jacobian(lambda u: equilibrium(W, u, method=method), method=way)(U)
    slope = np.diag(1 - unrolled(W, U) ** 2)
    np.testing.assert_allclose(J, np.linalg.solve(np.eye(N) - slope @ W, slope), atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_compiled_and_mapped(method: str) -> None:
    loss = lambda u: np.sum(equilibrium(W, u, method=method) ** 2)
    want = bs.grad(lambda u: np.sum(unrolled(W, u) ** 2))
    np.testing.assert_allclose(bs.jit(bs.grad(loss))(U), want(U), atol=1e-9)
    many = np.stack([U, 2 * U, -U])
    np.testing.assert_allclose(
        bs.vmap(bs.grad(loss))(many), np.stack([want(u) for u in many]), atol=1e-9
    )


def test_inside_a_compiled_loop() -> None:
    def f(a: Any) -> Any:
        step = lambda i, s: bs.root(lambda x, s: x**3 + a * x - s, 1.0, s)
        return bs.fori_loop(0, 3, step, a)

    want = bs.numeric.derivative(f, 2.0).value
    np.testing.assert_allclose([bs.grad(f)(2.0), bs.jit(bs.grad(f))(2.0)], want, rtol=1e-7)


def test_containers_and_what_is_closed_over() -> None:
    k = RNG.normal(size=2)

    def f(p: dict[str, Any], k: Any) -> Any:
        F = lambda x, p: {"s": x["s"] ** 3 + x["s"] - p["a"] - np.sum(k * x["v"]), "v": x["v"] - k}
        x = bs.root(F, {"s": 0.5, "v": np.zeros(2)}, p)
        return x["s"] + np.sum(x["v"])

    p = {"a": 1.5}
    g, h = bs.grad(f, (0, 1))(p, k)
    np.testing.assert_allclose(g["a"], bs.numeric.derivative(lambda a: f({"a": a}, k), 1.5).value)
    np.testing.assert_allclose(h, bs.numeric.grad(lambda k: f(p, k), k), rtol=1e-7)


def test_complex_unknowns() -> None:
    """x² + |x|² c = a is not holomorphic: linear over the reals alone."""
    F = lambda x, a: x * x + 0.3 * np.conj(x) - a
    f = lambda t: (lambda x: np.real(x) * 2 + np.imag(x))(bs.root(F, 1.0 + 0.5j, t * (1 + 2j)))
    for method in METHODS:
        g = lambda t, m=method: np.real(bs.root(F, 1.0 + 0.5j, t * (1 + 2j), method=m))
        np.testing.assert_allclose(bs.grad(g)(1.3), bs.numeric.derivative(g, 1.3).value, rtol=1e-7)
    np.testing.assert_allclose(bs.grad(f)(1.3), bs.numeric.derivative(f, 1.3).value, rtol=1e-7)


def test_a_derivative_solves_and_does_not_unroll() -> None:
    """500 slow rounds forward; the gradient takes a few products by the rows of one."""
    from backsolve.hooks import Watcher, hooks

    class Blocks(Watcher):
        blocks = 0

        def on_block(self, row: Any, image: Any, seed: Any) -> None:
            self.blocks += row.primitive.name == "tanh"

    runs = []

    def f(z: Any, u: Any) -> Any:
        runs.append(0)
        return np.tanh(0.97 * z + u)

    loss = lambda u: np.sum(bs.fixed_point(f, np.zeros(N), u, method="gmres"))
    u = np.full(N, 1e-3)
    _, pull = bs.vjp(loss, u)
    before, seen = len(runs), Blocks()
    assert before > 60
    hooks.add(seen)
    (g,) = pull(1.0)
    hooks.remove(seen)
    assert len(runs) == before  # F is kept as it was run at x
    assert 1 <= seen.blocks <= N + 3
    h = 1e-6
    np.testing.assert_allclose(np.sum(g), (loss(u + h) - loss(u - h)) / (2 * h), rtol=1e-5)


def test_matvecs_of_a_linear_solve() -> None:
    A, b = symmetric(), RNG.normal(size=40)
    calls = []
    product = lambda v: (calls.append(0), A @ v)[1]
    x = bs.linear_solve(product, b, "cg")
    np.testing.assert_allclose(x, np.linalg.solve(A, b), rtol=1e-7, atol=1e-9)
    assert len(calls) <= 4  # the products go through the rows of one run
    history: list[float] = []
    products = []
    got = krylov.cg(lambda v: (products.append(0), A @ v)[1], b, lambda v: v, 1e-11, 400, history)
    assert len(products) == got.rounds + 1 == len(history)


@pytest.mark.parametrize("method", ["direct", "cg", "minres", "gmres"])
def test_linear_solves_vary_with_matrix_and_right_hand_side(method: str) -> None:
    A, b = symmetric(12), RNG.normal(size=12)
    f = lambda A, b: np.sum(bs.linear_solve(lambda v: A @ v + A.T @ v, b, method) ** 3)
    g = lambda A, b: np.sum(np.linalg.solve(A + A.T, b) ** 3)
    for k in (0, 1):
        np.testing.assert_allclose(bs.grad(f, k)(A, b), bs.grad(g, k)(A, b), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(bs.hessian(f, 1)(A, b), bs.hessian(g, 1)(A, b), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(bs.jit(bs.grad(f))(A, b), bs.grad(g)(A, b), rtol=1e-6, atol=1e-9)


def test_preconditioners_save_rounds_in_both_directions() -> None:
    d = np.linspace(1.0, 1e3, 200)
    off = 0.1 * RNG.normal(size=(200, 200)) / 15
    A = np.diag(d) + off
    b = RNG.normal(size=200)
    solve = lambda b, M=None: bs.linear_solve(lambda v: A @ v, b, "gmres", M, maxiter=15)
    with pytest.raises(ConvergenceError):
        solve(b)
    M = Custom(lambda v: v / d, lambda v: v / d)
    for inverse in (M, lambda v: v / d):
        np.testing.assert_allclose(solve(b, inverse), np.linalg.solve(A, b), rtol=1e-6, atol=1e-10)
        g = bs.grad(lambda b, inverse=inverse: np.sum(solve(b, inverse)))(b)
        np.testing.assert_allclose(g, np.linalg.solve(A.T, np.ones(200)), rtol=1e-6, atol=1e-10)
    f = bs.implicit(
        lambda x, b: A @ x - b,
        lambda b: np.linalg.solve(A, b),
        "gmres",
        lambda x, b: lambda v: v / d,
        maxiter=15,
    )
    np.testing.assert_allclose(
        bs.grad(lambda b: np.sum(f(b)))(b),
        np.linalg.solve(A.T, np.ones(200)),
        rtol=1e-6,
        atol=1e-10,
    )


@pytest.mark.parametrize("method", ["direct", "cg", "minres"])
def test_argmin_bilevel(method: str) -> None:
    """The gradient of a validation error with respect to the strength of a ridge."""
    X, y = RNG.normal(size=(20, 5)), RNG.normal(size=20)
    Xv, yv = RNG.normal(size=(10, 5)), RNG.normal(size=10)
    inner = lambda w, t: np.sum((X @ w - y) ** 2) + np.exp(t) * np.sum(w * w)
    outer = lambda t: np.sum((Xv @ bs.argmin(inner, np.zeros(5), t, method=method) - yv) ** 2)
    exact = lambda t: np.sum(
        (Xv @ np.linalg.solve(X.T @ X + np.exp(t) * np.eye(5), X.T @ y) - yv) ** 2
    )
    np.testing.assert_allclose(outer(0.3), exact(0.3), rtol=1e-9)
    np.testing.assert_allclose(bs.grad(outer)(0.3), bs.grad(exact)(0.3), rtol=1e-7)
    np.testing.assert_allclose(bs.hessian(outer)(0.3), bs.hessian(exact)(0.3), rtol=1e-6)


def test_argmin_of_what_is_not_convex_everywhere() -> None:
    rosenbrock = lambda x, a: (a - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    f = lambda a: bs.argmin(rosenbrock, np.array([-1.2, 1.0]), a)
    np.testing.assert_allclose(f(1.0), [1.0, 1.0], rtol=1e-7)
    np.testing.assert_allclose(bs.jacobian(f)(1.0), [1.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(bs.jit(f)(1.0), [1.0, 1.0], rtol=1e-7)


@pytest.mark.parametrize("wrap", [lambda f: f, bs.jit])
def test_a_saddle_is_no_minimum(wrap: Any) -> None:
    """Not even where x0 is one, or symmetry leads to one."""
    f = lambda x, a: a * x[0] ** 2 - x[1] ** 2 + x[1] ** 4
    for x0 in ([0.0, 0.0], [1.0, 0.0]):
        with pytest.raises(ArithmeticError, match="a saddle or a maximum"):
            wrap(lambda a, x0=x0: bs.argmin(f, np.array(x0), a))(1.0)
    found = wrap(lambda a: bs.argmin(f, np.array([1.0, 0.1]), a))(1.0)
    np.testing.assert_allclose(found, [0.0, 0.5**0.5], atol=1e-7)
    with pytest.raises(ArithmeticError, match="a saddle or a maximum"):
        bs.argmin(np.cos, 0.0)


def test_a_flat_valley_has_minima() -> None:
    """Curvature that is zero, or negative by rounding alone, is no way down."""
    v = np.array([0.3, -0.7, 0.2])
    x = bs.argmin(lambda x: (v @ x - 1) ** 2, np.zeros(3))
    np.testing.assert_allclose(v @ x, 1.0)
    np.testing.assert_allclose(bs.argmin(lambda x: np.sum(x**4), np.zeros(3)), 0.0)


def test_anderson_takes_fewer_rounds() -> None:
    rounds = []
    f = lambda x: (rounds.append(0), 0.99 * np.cos(x) + 0.1 * x)[1]
    counts = []
    for memory in (0, 4):
        rounds.clear()
        x = bs.fixed_point(f, np.linspace(0.1, 1.0, 5), memory=memory)
        counts.append(len(rounds))
        np.testing.assert_allclose(f(x), x, atol=1e-9)
    assert counts[1] < counts[0] / 2


def test_steady_state_of_a_differential_equation() -> None:
    """x' = p − x − x³ settles where the right-hand side is zero."""

    def settle(p: Any) -> Any:
        x = 0.0 * p
        for _ in range(2000):
            x = x + 0.05 * (p - x - x**3)
        return x

    f = bs.implicit(lambda x, p: p - x - x**3, settle)
    p = np.array([0.5, 2.0])
    x = f(p)
    np.testing.assert_allclose(np.diag(bs.jacobian(f)(p)), 1 / (1 + 3 * x**2), rtol=1e-9)


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(ConvergenceError, match="residuals: ") as caught:
        bs.root(lambda x: x * x + 1.0, 0.7)
    assert len(caught.value.history) > 1
    for start, rounds in ((0.0, 0), (1.0, 1)):  # where the parabola is level, at once and later
        with pytest.raises(SingularError, match=r"residuals: .*Start elsewhere") as met:
            bs.root(lambda x: x**2 + 1, start)
        assert len(met.value.history) == rounds + 1
        assert met.value.history[-1] == 1.0
    with pytest.raises(ConvergenceError, match="contraction"):
        bs.fixed_point(lambda x: 2 * x + 1.0, 1.0, maxiter=20)
    with pytest.raises(ConvergenceError, match="minimum"):
        bs.argmin(lambda x: x, 1.0, maxiter=20)
    with pytest.raises(SingularError, match="singular"):
        bs.grad(bs.implicit(lambda x, p: x * x - p, np.sqrt))(0.0)
    with pytest.raises(SingularError, match="singular"):
        bs.linear_solve(lambda v: 0 * v, np.ones(2))
    with pytest.raises(ConvergenceError, match="MINRES needs a symmetric matrix"):
        bs.linear_solve(lambda v: np.array([[1.0, 5.0], [-3.0, 1.0]]) @ v, np.ones(2), "minres")
    with pytest.raises(ConvergenceError, match="positive definite"):
        bs.linear_solve(lambda v: np.array([1.0, -1.0]) * v, np.ones(2), "cg")
    with pytest.raises(ShapeError, match="as many equations as unknowns"):
        bs.grad(lambda p: bs.implicit(lambda x, p: x[:1] - p, lambda p: np.ones(2))(p)[0])(1.0)
    with pytest.raises(StructureError, match="method is one of"):
        bs.implicit(lambda x, p: x - p, lambda p: p, "jacobi")
    with pytest.raises(StructureError, match="needs functions"):
        bs.implicit(lambda x, p: x - p, 3)
    with pytest.raises(StructureError, match="form and the shapes"):
        bs.linear_solve(lambda v: (v, v), np.ones(2))
    with pytest.raises(TracedValueError, match=r"bs\.root"):
        bs.jit(bs.implicit(lambda x, p: x - p, lambda p: brentq(lambda x: x - p, 0, 5)))(1.0)
    with pytest.raises(ArithmeticError, match="did not converge"):
        bs.jit(lambda a: bs.root(lambda x: x * x + a, 0.7))(1.0)


def test_an_x_that_does_not_solve_the_equations_is_an_error() -> None:
    F = lambda x, p: x**3 - p
    coarse = lambda p: np.round(np.cbrt(p), 2)
    wrong = bs.implicit(F, coarse)
    with pytest.raises(ConvergenceError, match=r"largest entry of \|F\| is 0.0\d") as caught:
        wrong(10.0)
    np.testing.assert_allclose(caught.value.history, [abs(F(coarse(10.0), 10.0))])
    for f in (bs.jit(wrong), bs.jit(bs.grad(wrong)), lambda p: bs.vmap(wrong)(np.array([8.0, p]))):
        with pytest.raises(ArithmeticError, match="does not solve"):
            f(10.0)
    assert wrong(8.0) == 2.0
    for given in (False, 1e-2):
        assert bs.implicit(F, coarse, check=given)(10.0) == 2.15
    # whatever the units: of the equations, of x, and in single precision
    for scale in (1e-9, 1.0, 1e9):
        scaled = bs.implicit(lambda x, p, s=scale: s * (x**3 - p), np.cbrt)
        np.testing.assert_allclose(bs.grad(scaled)(10.0), 10 ** (-2 / 3) / 3, rtol=1e-9)
    assert bs.implicit(F, np.cbrt)(np.float32(10)).dtype == np.float32
    with pytest.raises(StructureError, match="above 0"):
        bs.implicit(F, np.cbrt, check=-1.0)


def by_scipy(p: Any) -> Any:
    calls.append(p)
    return brentq(lambda x: x**3 + x - p, -10, 10, xtol=1e-14)


calls: list[Any] = []
CUBIC = bs.implicit(lambda x, p: x**3 + x - p, by_scipy, like=0.0)


def test_a_solver_that_cannot_be_staged_is_called_back() -> None:
    slope = lambda p: 1 / (3 * by_scipy(p) ** 2 + 1)
    ps = np.array([2.0, 10.0, -3.0])
    slopes = [slope(p) for p in ps]
    calls.clear()
    np.testing.assert_allclose(bs.jit(CUBIC)(2.0), 1.0, rtol=1e-12)
    assert calls == [2.0]
    np.testing.assert_allclose(bs.jit(bs.grad(CUBIC))(10.0), slopes[1], rtol=1e-9)
    np.testing.assert_allclose(bs.vmap(bs.grad(CUBIC))(ps), slopes, rtol=1e-9)
    np.testing.assert_allclose(bs.jit(bs.vmap(bs.grad(CUBIC)))(ps), slopes, rtol=1e-9)
    second = bs.grad(bs.grad(CUBIC))(10.0)
    np.testing.assert_allclose(bs.jit(bs.grad(bs.grad(CUBIC)))(10.0), second, rtol=1e-9)
    inside = bs.jit(bs.grad(lambda a: bs.fori_loop(0, 3, lambda i, s: CUBIC(s + a), a)))
    want = bs.numeric.derivative(lambda a: CUBIC(CUBIC(CUBIC(2 * a) + a) + a), 1.5).value
    np.testing.assert_allclose(inside(1.5), want, rtol=1e-7)


def looped(p: Any) -> Any:
    newton = lambda x: x - (x**3 + x - p) / (3 * x * x + 1)
    return bs.while_loop(lambda x: abs(x**3 + x - p) > 1e-13, newton, 0.5 * p)


STAGED = {
    "solver": bs.implicit(lambda x, p: x**3 + x - p, looped),
    "root": lambda p: bs.root(lambda x, p: x**3 + x - p, 0.5, p),
    "closed over": lambda p: bs.root(lambda x: x**3 + x - p, 0.5),
    "called back": CUBIC,
}


@pytest.mark.parametrize("name", sorted(STAGED))
def test_what_is_staged_first_and_differentiated_later(name: str) -> None:
    """Of a Program that `vmap` records, an implicit function stays one: its solver is not differentiated."""
    f, ps = STAGED[name], np.array([2.0, 10.0, -3.0])
    x = np.array([by_scipy(p) for p in ps])
    s = 1 / (3 * x * x + 1)
    second = -6 * x * s**3
    total = lambda p: np.sum(bs.vmap(f)(p))
    np.testing.assert_allclose(bs.grad(total)(ps), s, rtol=1e-9)
    np.testing.assert_allclose(bs.jit(bs.grad(total))(ps), s, rtol=1e-9)
    np.testing.assert_allclose(bs.grad(bs.jit(total))(ps), s, rtol=1e-9)
    np.testing.assert_allclose(bs.jvp(bs.vmap(f), (ps,), (np.ones(3),))[1], s, rtol=1e-9)
    slopes = lambda p: np.sum(bs.vmap(bs.grad(f))(p))
    np.testing.assert_allclose(bs.grad(slopes)(ps), second, rtol=1e-8)
    np.testing.assert_allclose(np.diag(bs.hessian(total)(ps)), second, rtol=1e-8)
    np.testing.assert_allclose(bs.jit(bs.laplacian(f))(2.0), second[0], rtol=1e-8)
    np.testing.assert_allclose(bs.vmap(bs.laplacian(f))(ps), second, rtol=1e-8)


def test_third_order_through_batched_solves() -> None:
    """A Hessian is solved for many seeds at once, as a Program: its solutions still vary with the point."""

    def closed(x: Any) -> Any:
        p = x * x[0]
        d = np.sqrt(p * p / 4 + 1 / 27)
        return np.sum(np.cbrt(d + p / 2) - np.cbrt(d - p / 2)) * x[1]

    x = np.array([0.3, 0.5])
    for method in METHODS:
        find = lambda x, m=method: bs.root(lambda y: y**3 + y - x * x[0], np.zeros(2), method=m)
        f = lambda x: np.sum(find(x)) * x[1]  # noqa: B023 - called at once
        for outer in (bs.grad, bs.jacobian, lambda g: bs.jacobian(g, method="forward")):
            third = lambda h, outer=outer: outer(lambda x: np.trace(bs.hessian(h)(x)))(x)
            np.testing.assert_allclose(third(f), third(closed), rtol=1e-6)


def test_containers_are_called_back_in_their_form() -> None:
    A = symmetric(3)

    def outside(p: dict[str, Any], k: float) -> dict[str, Any]:
        assert isinstance(p["b"], np.ndarray)
        return {"x": np.linalg.solve(A, p["b"]) * k, "size": float(k)}

    F = lambda x, p, k: {"x": A @ x["x"] - k * p["b"], "size": x["size"] - k}
    like = {"x": np.zeros(3), "size": 0.0}
    f = bs.implicit(F, outside, like=like)
    loss = lambda b: np.sum(f({"b": b}, 2.0)["x"]) + f({"b": b}, 2.0)["size"]
    want = 2 * np.linalg.solve(A, np.ones(3))
    np.testing.assert_allclose(bs.jit(bs.grad(loss))(np.ones(3)), want, rtol=1e-9)
    other = bs.implicit(F, lambda p, k: {"x": np.zeros(2), "size": 0.0}, like=like)
    with pytest.raises(StructureError, match="not the form"):
        bs.jit(lambda b: other({"b": b}, 2.0)["x"])(np.ones(3))


def test_singular_matrices_in_compiled_code() -> None:
    double = bs.implicit(lambda x, p: x * x - p, np.sqrt)
    with pytest.raises(np.linalg.LinAlgError, match=r"(?i)singular"):
        bs.jit(bs.grad(double))(0.0)
    np.testing.assert_allclose(bs.jit(bs.grad(double))(4.0), 0.25)
    A = np.array([[1.0, 2.0], [2.0, 4.0 + 1e-17]])
    near = bs.jit(lambda A, b: bs.linear_solve(lambda v: A @ v, b))
    with pytest.raises(np.linalg.LinAlgError):
        near(A, np.ones(2))
    B = np.array(
        [[0.1, 0.3], [0.2, 0.6]]
    )  # singular up to rounding: elimination does not meet a zero
    with pytest.raises(np.linalg.LinAlgError):
        near(B, np.ones(2))
    np.testing.assert_allclose(
        near(np.eye(2) + A, np.ones(2)), np.linalg.solve(np.eye(2) + A, np.ones(2))
    )


def test_a_start_that_varies() -> None:
    assert np.isclose(bs.grad(lambda t: bs.root(lambda x: x**3 - 8 * t, t))(1.0), 2 / 3)
    assert bs.grad(lambda t: bs.root(lambda x: x**3 - 8, t))(1.0) == 0


def test_an_iteration_that_overflows_has_not_converged():
    with pytest.raises(bs.errors.ConvergenceError, match=r"e\+30"):  # and no warning
        bs.fixed_point(lambda x, a: 3 * x + a, 1.0, 1.0)
    with pytest.raises(ArithmeticError, match="did not converge"):
        bs.jit(lambda a: bs.fixed_point(lambda x, a: 3 * x + a, 1.0, a))(1.0)


def test_complex_equations_of_real_unknowns_are_told():
    with pytest.raises(ShapeError, match=r"values of \(2,\) complex for x of \(2,\)"):
        bs.linear_solve(lambda x: 2j * x, np.ones(2), method="gmres")


def test_equations_that_hold_another_root() -> None:
    """Whether the inner one converged is told beside the values of the outer equations, and is none of them."""

    def f(p: Any) -> Any:
        inner = lambda q: bs.root(lambda y, q: y**3 + y - q, 0.5, q)
        return bs.root(lambda x, p: x + inner(x * p) - p, 0.2, p)

    slope = bs.grad(f)
    second = bs.grad(slope)
    ps = np.array([0.5, 1.0, 3.0])
    for g in (slope, second):
        np.testing.assert_allclose(bs.vmap(g)(ps), [g(float(p)) for p in ps], rtol=1e-8)
    value, series = bs.jet(f, (3.0,), [[1.0, 0.0]])
    np.testing.assert_allclose([value, *series], [f(3.0), slope(3.0), second(3.0)], rtol=1e-8)


@pytest.mark.parametrize("method", ["auto", "direct", "gmres"])
def test_sparse_matrices_are_solved_with(method: str) -> None:
    rng = np.random.default_rng(3)
    dense = np.triu(np.tril(rng.normal(size=(6, 6)), 1), -1) + 4 * np.eye(6)
    b = rng.normal(size=6)
    A = scipy.sparse.csr_array(dense)
    np.testing.assert_allclose(bs.linear_solve(A, b, method), np.linalg.solve(dense, b), rtol=1e-8)
    slope = bs.grad(lambda b: np.sum(bs.linear_solve(A, b, method) ** 2))(b)
    want = 2 * np.linalg.solve(dense.T, np.linalg.solve(dense, b))
    np.testing.assert_allclose(slope, want, rtol=1e-7)
    residual = lambda u: u**2 + np.concatenate([u[1:], u[:1]]) / 5
    newton = lambda u: np.sum(bs.linear_solve(bs.jacobian(residual, sparse=True)(u), b, method))
    bs.testing.check_grads(newton, [np.linspace(1.0, 2.0, 6)], order=1)


def test_what_linear_solve_cannot_take_is_said() -> None:
    with pytest.raises(bs.errors.ShapeError, match=r"square.*\(4, 4\) and \(3,\)"):
        bs.linear_solve(np.eye(4), np.ones(3))
    with pytest.raises(bs.errors.ShapeError, match=r"square.*\(2, 3\)"):
        bs.linear_solve(scipy.sparse.csr_array(np.ones((2, 3))), np.ones(2))


def test_a_function_that_is_nearly_linear_is_refused() -> None:
    """A x − b is 0.1 % of b at what its slope at 0 gives."""
    for method in ("direct", "gmres"):
        with pytest.raises(ValueError, match="A must be linear"):
            bs.linear_solve(lambda v: v + 1e-3 * v**3, np.ones(3), method)
    hilbert = 1 / (1 + np.arange(7) + np.arange(7)[:, None])
    solved = bs.linear_solve(lambda v: hilbert @ v, np.ones(7))
    np.testing.assert_allclose(hilbert @ solved, 1.0, rtol=1e-6)


def test_unknowns_that_would_leave_their_manifold_are_refused() -> None:
    x = bs.on(bs.manifolds.Sphere(), np.array([1.0, 0.0]))
    for find in (bs.argmin, bs.root, bs.fixed_point):
        with pytest.raises(TypeError, match="RiemannianCG"):
            find(lambda x: np.sum((x - 2.0) ** 2), x)


def test_errors_in_how_to_solve_name_the_users_line() -> None:
    with pytest.raises(TypeError, match=r"at .*test_implicit\.py:"):
        bs.root(lambda x: x**2 - 2, 1.0, method="newton")


def test_backslash_of_matrices_that_vary_or_are_sparse() -> None:
    rng = np.random.default_rng(4)
    A, b = rng.normal(size=(4, 4)) + 4 * np.eye(4), rng.normal(size=4)
    bs.testing.check_grads(lambda A, b: bs.backslash(A, b), [A, b], order=1)
    bs.testing.check_grads(lambda A, b: bs.backslash(A, b), [A[:, :2], b], order=1)
    for method in ("auto", "gmres"):
        found = bs.backslash(scipy.sparse.csr_array(A), b, method=method)
        np.testing.assert_allclose(found, np.linalg.solve(A, b), rtol=1e-8)
    turned = A + 1j * np.eye(4)
    found = bs.linear_solve(scipy.sparse.csr_array(turned), b)
    np.testing.assert_allclose(found, np.linalg.solve(turned, b))


@pytest.mark.parametrize("method", ["direct", "cg", "gmres", "minres", "auto"])
def test_solutions_of_complex_matrices_are_complex(method: str) -> None:
    """Though the right-hand side is real."""
    A, b = np.array([[2, 1j], [-1j, 3]]), np.ones(2)
    for a in (A, scipy.sparse.csr_array(A)):
        found = bs.linear_solve(a, b, method)
        np.testing.assert_allclose(found, np.linalg.solve(A, b), rtol=1e-7)
        g = bs.grad(lambda b, a=a: np.abs(bs.linear_solve(a, b, method)).sum())(b)
        expected = bs.grad(lambda b: np.abs(np.linalg.solve(A, b)).sum())(b)
        np.testing.assert_allclose(g, expected, rtol=1e-6)
