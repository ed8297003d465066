"""Whatever takes a function of the user's takes one that joins arrays, writes into them, or branches."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn, optim
from backsolve.errors import DroppedDerivativeError

START = np.array([1.0, 1.0])


def equations(x: Any) -> Any:
    return np.array([x[0] ** 2 + x[1] - 3, x[1] ** 2 - x[0]])


def half_square(x: Any) -> Any:
    y = np.zeros(2)
    y[0] = x[0] ** 2 + x[1] - 3
    y[1] = x[1] ** 2 - x[0]
    return 0.5 * np.sum(y**2)


SOLVERS: dict[str, Callable[[], Any]] = {
    "root": lambda: bs.scipy.root(equations, START).x,
    "least_squares": lambda: bs.scipy.least_squares(equations, START).x,
    "minimize": lambda: bs.scipy.minimize(half_square, START).x,
    "trust-ncg": lambda: bs.scipy.minimize(half_square, START, method="trust-ncg").x,
    "LBFGS": lambda: optim.LBFGS().minimize(half_square, START)[0],
    "LevenbergMarquardt": lambda: optim.LevenbergMarquardt().minimize(equations, START)[0],
    "GaussNewton": lambda: optim.GaussNewton().minimize(equations, START)[0],
}


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers(name: str) -> None:
    np.testing.assert_allclose(equations(SOLVERS[name]()), 0, atol=1e-4)


def test_integration_and_fits() -> None:
    found = bs.scipy.solve_ivp(
        lambda t, y: np.array([y[1], -y[0]]), (0, 1.0), np.array([1.0, 0.0]), rtol=1e-8, atol=1e-8
    )
    np.testing.assert_allclose(found.y[:, -1], [np.cos(1), -np.sin(1)], atol=1e-6)
    line = lambda t, a, b: np.array([a * t[0] + b, a * t[1] + b, a * t[2] + b])
    p, _ = bs.scipy.curve_fit(line, np.arange(3.0), np.array([1.0, 3.0, 5.0]), [1.0, 0.0])
    np.testing.assert_allclose(p, [2.0, 1.0])


def test_checkpoint() -> None:
    whole, kept = bs.grad(half_square), bs.grad(lambda x: bs.checkpoint(half_square)(x))
    np.testing.assert_allclose(kept(START), whole(START))


def shifted(x: Any, *rest: Any) -> Any:
    y = np.zeros(3)
    y[:2] = x[1:] ** 2
    return y + sum(np.sum(np.sin(r)) for r in rest)


INPUTS = np.linspace(0.2, 1.0, 6).reshape(2, 3)
LOOPS: dict[str, Callable[[Any], Any]] = {
    "scan": lambda x: bs.scan(lambda c, a: (shifted(c, a), c), x, INPUTS)[0],
    "fori_loop": lambda x: bs.fori_loop(0, 2, lambda i, c: shifted(c, x), x),
    "while_loop": lambda x: bs.while_loop(is_large, lambda c: shifted(c) * 0.9, x),
    "map": lambda x: bs.map(shifted, INPUTS * x),
    "cond": lambda x: bs.cond(x[0] > 0, shifted, np.sin, x),
    "recurrence": lambda x: bs.recurrence(shifted, x, INPUTS, method="sequential"),
    "given to scan": lambda x: bs.scan(paired, x, INPUTS)[0],
    "given to fori_loop": lambda x: bs.fori_loop(0, 2, counted, x),
    "given to while_loop": lambda x: bs.while_loop(is_large, shifted, x),
}


def paired(c: Any, a: Any) -> Any:
    return shifted(c, a), c


def counted(i: Any, c: Any) -> Any:
    return shifted(c, i * c)


def is_large(c: Any) -> Any:
    return np.sum(c) > 0.5


@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_branches(name: str) -> None:
    loss = lambda x: np.sum(LOOPS[name](x) ** 2)
    x = np.array([0.5, 1.5, 0.7])
    bs.testing.check_grads(loss, (x,), order=1)


def test_rounding() -> None:
    found = bs.rounding(half_square, START)
    np.testing.assert_allclose(found.gradient, bs.grad(half_square)(START))


class Bent(nn.Module):
    def __init__(self) -> None:
        self.inner = nn.Linear(3, 1)

    def __call__(self, x: Any) -> Any:
        h = self.inner(x)
        if np.mean(h) > 0:
            h = h * 1.5
        return h[:, 0]


def bent_loss(output: Any, target: Any) -> Any:
    parts = np.zeros(2)
    parts[0] = np.mean((output - target) ** 2)
    return parts.sum() * 2 if parts[0] > 1 else parts.sum()


def test_training_takes_control_flow() -> None:
    nn.manual_seed(0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    y = x @ np.array([1.0, 2.0, 3.0])
    fitted = bs.fit(Bent(), bent_loss, (x, y), optimizer=optim.Adam(0.05), epochs=10)
    assert fitted.history["loss"][-1] < fitted.history["loss"][0]


def test_a_solver_that_would_lose_a_derivative_says_so() -> None:
    def solved(k: Any) -> Any:
        return bs.scipy.root(lambda x: np.array([x[0] ** 2 + x[1] - k, x[1]]), START).x.sum()

    with pytest.raises(DroppedDerivativeError, match="rests on a tensor that varies"):
        bs.grad(solved)(3.0)
