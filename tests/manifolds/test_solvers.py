"""L-BFGS and conjugate gradients of declared parameters, on problems whose solution is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import manifolds as mf
from backsolve import nn, optim
from backsolve.errors import StructureError
from backsolve.optim.vectors import Space

_rng = np.random.default_rng(3)
A = _rng.normal(size=(12, 12))
A = A @ A.T
WEIGHTS = np.array([3.0, 2.0, 1.0])
SOLVERS = [optim.LBFGS(), optim.RiemannianCG()]
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)


def brockett(x: Any) -> Any:
    """Least where the columns are the first eigenvectors in their order."""
    return -np.sum(x * (A @ x) * WEIGHTS)


BEST = -np.linalg.eigvalsh(A)[::-1][:3] @ WEIGHTS


@each_solver
@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("retraction", ["qr", "cayley"])
def test_eigenvectors_on_stiefel(solver: Any, compile: Any, retraction: str) -> None:
    manifold = mf.Stiefel(retraction)
    x = bs.on(manifold, manifold.random_point(np.random.default_rng(0), (12, 3)))
    found, state = compile(lambda x: solver.minimize(brockett, x, 300, 1e-6))(x)
    assert isinstance(found, mf.Point)
    np.testing.assert_allclose(found.x.T @ found.x, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(state.value, BEST, rtol=1e-12)
    assert state.count < 250


def test_the_history_is_worth_something() -> None:
    """Steepest descent takes many times as many steps: what was carried along is used."""
    x = bs.on(mf.Stiefel(), mf.Stiefel().random_point(np.random.default_rng(0), (12, 3)))
    _, quick = optim.LBFGS().minimize(brockett, x, 1000, 1e-5)

    class Forgetful(optim.LBFGS):
        def update(self, f: Any, parameters: Any, state: Any) -> Any:
            new, state = super().update(f, parameters, state)
            object.__setattr__(state, "weights", 0 * state.weights)
            return new, state

    _, slow = Forgetful().minimize(brockett, x, 1000, 1e-5)
    assert quick.error <= 1e-5
    assert slow.count > 3 * quick.count


@each_solver
def test_several_manifolds_and_plain_arrays_in_one_container(solver: Any) -> None:
    goal = _rng.normal(size=(6, 3))
    start = {
        "q": bs.on(mf.Stiefel(), mf.Stiefel().nearest(goal + 0.3 * _rng.normal(size=(6, 3)))),
        "c": bs.on(mf.PositiveDefinite(), np.eye(3)),
    }
    f = lambda p: np.sum((p["q"] @ p["c"] - goal) ** 2)
    found, _ = solver.minimize(f, start, 300, 1e-8)
    u, s, vt = np.linalg.svd(goal, full_matrices=False)  # the polar form of goal
    np.testing.assert_allclose(found["q"].x, u @ vt, atol=1e-6)
    np.testing.assert_allclose(found["c"].x, (vt.T * s) @ vt, atol=1e-6)
    with_bias = {"x": bs.on(mf.Sphere(), np.ones(4) / 2), "b": np.zeros(4)}
    g = lambda p: np.sum((p["b"] - p["x"] * np.arange(4.0)) ** 2) - p["x"][2]
    found, _ = solver.minimize(g, with_bias, 300, 1e-8)
    np.testing.assert_allclose(found["b"], [0, 0, 2, 0], atol=1e-6)


@each_solver
def test_modules_keep_their_declarations(solver: Any) -> None:
    layer = nn.Linear(3, 4, dtype=np.float64)
    layer.weight = bs.on(mf.Stiefel(), np.eye(4, 3))
    x = _rng.normal(size=(50, 3))
    turn = mf.Stiefel().random_point(_rng, (4, 3))
    y = x @ turn.T + 0.5
    found, _ = solver.minimize(lambda m: np.mean((m(x) - y) ** 2), layer, 500, 1e-9)
    np.testing.assert_allclose(found.weight, turn, atol=1e-6)
    np.testing.assert_allclose(found.bias, 0.5, atol=1e-6)
    assert found.named_parameters()["weight"].manifold == mf.Stiefel()


def test_a_mean_of_positive_matrices_by_the_metric() -> None:
    """Carried steps are measured at the new point: the inner product differs from place to place."""
    manifold = mf.PositiveDefinite()
    x, y = (manifold.random_point(_rng, (3, 3)) * scale for scale in (1.0, 50.0))
    f = lambda c: manifold.distance(c, x) ** 2 + manifold.distance(c, y) ** 2
    found, state = optim.LBFGS().minimize(f, bs.on(manifold, np.eye(3)), 100, 1e-8)
    np.testing.assert_allclose(found.x, manifold.exp(x, 0.5 * manifold.log(x, y)), rtol=1e-6)
    assert state.count < 30


def test_the_slope_along_a_retraction_is_its_derivative() -> None:
    space = Space({"q": bs.on(mf.Stiefel(), np.eye(4, 2)), "b": np.ones(3)})
    x = space.vector
    d = space.gradient(x, _rng.normal(size=11))
    reached, velocity = space.along(x, np.array(0.7), d)
    h = 1e-6
    numeric = (
        space.along(x, np.array(0.7 + h), d)[0] - space.along(x, np.array(0.7 - h), d)[0]
    ) / (2 * h)
    np.testing.assert_allclose(velocity, numeric, atol=1e-8)
    np.testing.assert_allclose(space.gradient(reached, velocity), velocity, atol=1e-12)


def test_two_manifolds_for_one_parameter_are_refused() -> None:
    with pytest.raises(StructureError, match="a manifold of its own"):
        optim.RiemannianCG(mf.Sphere()).minimize(np.sum, bs.on(mf.Sphere(), np.ones(4) / 2))


@pytest.mark.parametrize("seed", [1, 4, 7])
def test_conjugate_gradients_need_few_steps(seed: int) -> None:
    """Steps that are near the least of their line keep directions conjugate."""
    rng = np.random.default_rng(seed)
    rotations, low = mf.SpecialOrthogonal(), mf.FixedRank(2)
    B = rng.normal(size=(5, 5))
    L, seen = low.random_point(rng, (12, 9)), rng.random((12, 9)) < 0.7
    for manifold, x, f in (
        (rotations, rotations.random_point(rng, (5, 5)), lambda x: -np.sum(x * B)),
        (low, low.random_point(rng, (12, 9)), lambda x: np.sum(seen * (x - L) ** 2)),
    ):
        _, state = optim.RiemannianCG().minimize(f, bs.on(manifold, x), 100, 1e-6)
        assert state.error <= 1e-6
