"""What varies outside of a staged function (of vmap, a loop, a call) and is met inside: nothing is lost."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import joint
from backsolve.errors import DroppedDerivativeError

W = np.array([0.1, 0.2, 0.5])
X = np.linspace(0, 1, 300)


def slope(f: Callable[[float], Any], b: float, h: float = 1e-5) -> float:
    return float((f(b + h) - f(b - h)) / (2 * h))


def agrees(f: Callable[[Any], Any], b: float = 0.6) -> None:
    """First derivatives by differences of values, second ones by differences of gradients."""
    expected = slope(f, b)
    for found in (
        bs.grad(f)(b),
        bs.jvp(f, (b,), (1.0,))[1],
        bs.jit(bs.grad(f))(b),
        bs.grad(bs.jit(f))(b),
    ):
        np.testing.assert_allclose(found, expected, rtol=2e-6)
    second = slope(bs.grad(f), b)
    for found in (bs.grad(bs.grad(f))(b), bs.jit(bs.grad(bs.grad(f)))(b)):
        np.testing.assert_allclose(found, second, rtol=2e-5)


# ---- recurrences


@pytest.mark.parametrize("method", ["sequential", "newton", "auto"])
def test_a_recurrence_of_a_batch_by_what_is_shared(method: str) -> None:
    def f(b: Any) -> Any:
        step = lambda w: lambda h, x: np.tanh(b * h + w * x)
        return np.sum(bs.vmap(lambda w: bs.recurrence(step(w), 0.1, X, method=method)[-1])(W))

    agrees(f)


@pytest.mark.parametrize("method", ["sequential", "newton"])
def test_its_gradients_of_a_batch(method: str) -> None:
    def f(b: Any) -> Any:
        step = lambda h, x: np.tanh(b * h + x)
        inner = bs.grad(lambda h: bs.recurrence(step, h, X, method=method)[5])
        return np.sum(bs.vmap(inner)(W))

    agrees(f)


@pytest.mark.parametrize("method", ["sequential", "newton", "scan"])
def test_its_inputs_may_be_shared(method: str) -> None:
    def f(b: Any) -> Any:
        run = lambda w: bs.recurrence(lambda h, x: w * h + x, 0.1 * b, X * np.sin(b), method=method)
        return np.sum(bs.vmap(lambda w: run(w)[-1])(W))

    agrees(f)


@pytest.mark.parametrize("method", ["sequential", "newton"])
@pytest.mark.parametrize("budget", [{}, {"memory": "1MB"}])
def test_a_recurrence_in_a_checkpoint(method: str, budget: Any) -> None:
    def f(b: Any) -> Any:
        step = lambda h, x: np.tanh(b * h + x)
        return bs.checkpoint(lambda h: bs.recurrence(step, h, X, method=method)[-1], **budget)(0.1)

    agrees(f)


@pytest.mark.parametrize("method", ["sequential", "newton"])
def test_an_implicit_step_of_a_recurrence(method: str) -> None:
    def f(a: Any) -> Any:
        step = lambda u, dt: bs.root(lambda v: v - u - dt * (-a * v**3 + np.sin(u)), np.zeros(2))
        return np.sum(
            bs.recurrence(step, np.array([1.0, 0.5]), np.full(12, 0.1), method=method)[-1]
        )

    agrees(f, 1.3)


def test_steps_that_give_constants() -> None:
    f = lambda h: bs.recurrence(lambda h, x: 3.0, h, np.ones(5), method="newton").sum()
    assert bs.grad(f)(1.0) == 0
    assert bs.jvp(f, (1.0,), (1.0,))[1] == 0


# ---- checkpoints


BUDGETS: list[dict[str, Any]] = [{}, {"memory": "1MB"}, {"memory": 1000}, {"slots": 3}]


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_checkpoint_of_a_batch_by_what_is_shared(budget: Any) -> None:
    def f(b: Any) -> Any:
        layer = lambda h: np.tanh(b * h) * np.sin(b * h) * np.sin(h)
        return np.sum(bs.vmap(bs.checkpoint(layer, **budget))(W))

    agrees(f)


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_gradients_of_a_checkpointed_loop(budget: Any) -> None:
    def f(b: Any) -> Any:
        step = lambda c, _: (np.tanh(b * c) + 0.1, None)
        run = bs.checkpoint(lambda h: bs.scan(step, h, length=20)[0], **budget)
        return np.sum(bs.vmap(bs.grad(lambda w: run(w)))(W)) + bs.grad(lambda w: run(w))(0.3)

    agrees(f)


@pytest.mark.parametrize("budget", [{}, {"memory": "1MB"}])
def test_a_checkpoint_in_a_loop(budget: Any) -> None:
    def f(b: Any) -> Any:
        layer = bs.checkpoint(lambda h: np.tanh(b * h) + 0.2, **budget)
        return bs.scan(lambda c, w: (layer(c) * w, None), 0.4, W)[0]

    agrees(f)


def test_a_sequence_with_a_budget_of_a_batch() -> None:
    def f(b: Any) -> Any:
        run = bs.checkpoint([lambda h: np.tanh(b * h) + 0.1] * 6, memory="1MB")
        return np.sum(bs.vmap(run)(W))

    agrees(f)


# ---- calls that compiled code puts in words of its own, and that are differentiated after


def det(b: Any) -> Any:
    return bs.checkpoint(lambda x: np.linalg.det(np.outer(x, x) + np.eye(3) * 3))(W * b)


def log_det(b: Any) -> Any:
    return bs.checkpoint(lambda x: np.linalg.slogdet(np.outer(x, x) + np.eye(3) * 3)[1])(W * b)


def fixed_point(b: Any) -> Any:
    f = lambda w: bs.fixed_point(lambda u, a: np.cos(b * u) * a, 0.5, w) * b
    return bs.checkpoint(f)(0.3)


def root(b: Any) -> Any:
    return bs.checkpoint(lambda w: bs.root(lambda u, a: u**3 + b * u - a, 1.0, w + 1))(0.3)


def linear(b: Any) -> Any:
    return bs.checkpoint(lambda w: bs.linear_solve(lambda v: b * v + w * v, np.ones(2))[0] * b)(0.3)


def least(b: Any) -> Any:
    f = lambda w: bs.argmin(lambda u, a: (u - b * a) ** 2 + 0.1 * u**4, 0.5, w) * b
    return bs.checkpoint(f)(0.3)


def recursive(x: Any, n: int) -> Any:
    if n < 1:
        return x.sum()
    return np.sin(recursive(x * 0.9, n - 1)) + np.linalg.det(np.outer(x, x) + np.eye(3) * 3)


@pytest.mark.parametrize("f", [det, log_det, fixed_point, root, linear, least])
def test_calls_are_differentiated_as_they_were_written(f: Any) -> None:
    agrees(f)


def test_so_are_recursions() -> None:
    f = lambda b: recursive(W * b, 3)
    jitted = lambda b: bs.jit(recursive)(W * b, 3)
    np.testing.assert_allclose(bs.grad(jitted)(0.6), slope(f, 0.6), rtol=1e-6)
    np.testing.assert_allclose(bs.jit(bs.grad(f))(0.6), slope(f, 0.6), rtol=1e-6)


# ---- flows


def test_a_flow_of_a_batch_by_what_is_shared() -> None:
    t = np.array([0.0, 1.0])

    def f(b: Any) -> Any:
        run = lambda w: bs.scipy.integrate.odeint(
            lambda y, t, b, w: -b * y * w, np.ones(1), t, (b, w), rtol=1e-10, atol=1e-10
        )
        return np.sum(bs.vmap(lambda w: run(w)[-1, 0])(W))

    exact = lambda b, n: float(np.sum((-W) ** n * np.exp(-W * b)))
    np.testing.assert_allclose(bs.grad(f)(0.6), exact(0.6, 1), rtol=1e-7)
    for second in (bs.grad(bs.grad(f)), bs.jit(bs.grad(bs.grad(f))), bs.hessian(f)):
        np.testing.assert_allclose(second(0.6), exact(0.6, 2), rtol=1e-6)


# ---- the net under all of them


def test_a_row_that_a_program_would_lose_is_an_error() -> None:
    """A rule that takes values out of their rows, as all of the above once did."""

    def careless(x: Any, y: Any) -> Any:
        made = (x.detach() * y.detach())._v
        rule = lambda values, record: bs.operators.Custom(
            lambda ts: (ts[0],), lambda cts: (cts[0],)
        )
        return joint.record_joint("careless", rule, [x._v], [x.row], [made])[0]

    with pytest.raises(DroppedDerivativeError, match="careless"):
        bs.grad(lambda b: np.sum(bs.vmap(lambda w: careless(b, w))(W)))(0.6)
