"""Gauss–Newton, Levenberg–Marquardt and natural gradients of declared parameters, beside closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import manifolds as mf
from backsolve import nn, optim
from backsolve.errors import UnsupportedError

HALF_SQUARE = lambda z: 0.5 * np.sum(z * z)
RULES = [
    optim.GaussNewton(),
    optim.GaussNewton(method="cg"),
    optim.LevenbergMarquardt(),
    optim.LevenbergMarquardt(method="cg"),
    optim.NaturalGradient(HALF_SQUARE),
    optim.NaturalGradient(HALF_SQUARE, method="cg"),
    optim.NaturalGradient(HALF_SQUARE, method="kfac"),
]
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{type(r).__name__}-{r.method}")
ROTATIONS = mf.SpecialOrthogonal()


def rotated(noise: float) -> tuple[Any, Any, Any]:
    """Points, their images, and the rotation between them by singular vectors (Wahba, 1965)."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(40, 3))
    b = a @ ROTATIONS.random_point(rng, (3, 3)).T + noise * rng.normal(size=(40, 3))
    u, _, vt = np.linalg.svd(b.T @ a)
    return a, b, u @ np.diag([1, 1, np.linalg.det(u @ vt)]) @ vt


@each_rule
@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
def test_a_rotation_between_two_sets_of_points(rule: Any, compile: Any) -> None:
    a, b, best = rotated(noise=0.1)
    start = ROTATIONS.retract(best, 0.6 * ROTATIONS.random_tangent(np.random.default_rng(1), best))
    found, state = compile(lambda q: rule.minimize(lambda q: a @ q.T - b, q, 50, 1e-8))(
        bs.on(ROTATIONS, start)
    )
    np.testing.assert_allclose(found.x, best, atol=1e-8)
    ROTATIONS.check(found.x)
    assert np.linalg.det(found.x) > 0
    assert state.count < 15


@each_rule
def test_errors_are_squared_where_nothing_is_left_over(rule: Any) -> None:
    a, b, best = rotated(noise=0.0)
    f = lambda q: a @ q.T - b
    q = bs.on(
        ROTATIONS,
        ROTATIONS.retract(best, 0.2 * ROTATIONS.random_tangent(np.random.default_rng(1), best)),
    )
    state, errors = rule.init(f, q), [np.abs(q.x - best).max()]
    for _ in range(5):
        q, state = rule.update(f, q, state)
        errors.append(np.abs(q.x - best).max())
    assert errors[0] > 0.05
    assert errors[-1] < 1e-14
    damped = isinstance(rule, optim.LevenbergMarquardt) and rule.damping > 0
    if not damped:
        assert all(
            new < max(2 * old**2, 1e-14) for old, new in zip(errors, errors[1:], strict=False)
        )


@each_rule
def test_a_unit_vector_beside_a_plain_number(rule: Any) -> None:
    rng = np.random.default_rng(2)
    sphere = mf.Sphere()
    x, W = sphere.random_point(rng, (4,)), rng.normal(size=(30, 4))
    f = lambda p: (np.tanh(W @ p["x"]) * p["c"] - 1.5 * np.tanh(W @ x))[:, None]
    start = {"x": bs.on(sphere, sphere.retract(x, 0.3 * sphere.random_tangent(rng, x)))}
    if getattr(rule, "method", "") == "kfac":  # c is read by all examples: its own block
        rule = optim.NaturalGradient(HALF_SQUARE, method="kfac", lr=0.5)
    found, _ = rule.minimize(f, {**start, "c": np.array(1.0)}, 100, 1e-10)
    np.testing.assert_allclose(found["x"].x, x, atol=1e-8)
    np.testing.assert_allclose(found["c"], 1.5, atol=1e-8)
    assert isinstance(found["x"], mf.Point)


@pytest.mark.parametrize("method", ["dense", "cg"])
def test_a_matrix_of_low_rank_from_some_entries(method: str) -> None:
    """Tangents are written otherwise than points: by factors."""
    rng = np.random.default_rng(3)
    low = mf.LowRank(12, 10, 2)
    goal = low.random_point(rng)
    i, j = np.nonzero(rng.random((12, 10)) < 0.7)
    f = lambda x: low.matrix(x)[i, j] - low.matrix(goal)[i, j]
    x = bs.on(low, low.retract(goal, 0.1 * low.random_tangent(rng, goal)))
    rule = optim.GaussNewton(method=method)
    state, errors = rule.init(f, x), []
    for _ in range(5):
        x, state = rule.update(f, x, state)
        errors.append(np.abs(low.matrix(x.x).dense() - low.matrix(goal).dense()).max())
    assert errors[-1] < 1e-13
    assert errors[2] < errors[1] ** 1.5  # a line would be at best some digits a step


@pytest.mark.parametrize("manifold", [mf.PositiveDefinite(), mf.Symmetric()], ids=str)
def test_a_metric_of_its_own(manifold: Any) -> None:
    rng = np.random.default_rng(4)
    goal = mf.PositiveDefinite().random_point(rng, (3, 3))
    W = rng.normal(size=(20, 3))
    f = lambda c: np.sum(W * (W @ c), axis=1) - np.sum(W * (W @ goal), axis=1)
    for rule in (optim.LevenbergMarquardt(), optim.NaturalGradient(HALF_SQUARE)):
        found, _ = rule.minimize(f, bs.on(manifold, np.eye(3)), 60, 1e-12)
        np.testing.assert_allclose(found.x, goal, atol=1e-7)


def test_a_module() -> None:
    rng = np.random.default_rng(5)
    layer = nn.Linear(3, 4, dtype=np.float64, key=bs.random.key(0))
    layer.weight = bs.on(mf.Stiefel(), np.eye(4, 3))
    x, turn = rng.normal(size=(50, 3)), mf.Stiefel().random_point(rng, (4, 3))
    found, state = optim.LevenbergMarquardt().minimize(
        lambda m: m(x) - x @ turn.T - 0.5, layer, 50, 1e-10
    )
    np.testing.assert_allclose(found.weight, turn, atol=1e-8)
    np.testing.assert_allclose(found.bias, 0.5, atol=1e-8)
    assert state.count < 40


def test_curvature_operators_stay_in_the_tangents() -> None:
    rng = np.random.default_rng(6)
    sphere = mf.Sphere()
    x, W = sphere.random_point(rng, (4,)), rng.normal(size=(7, 4))
    model, u = (lambda x: np.tanh(W @ x)), sphere.random_tangent(rng, x)
    J = bs.jacobian(model)(x) @ (np.eye(4) - np.outer(x, x))
    G = bs.gauss_newton(model, HALF_SQUARE)(bs.on(sphere, x))
    np.testing.assert_allclose(G @ u, J.T @ (J @ u), atol=1e-12)
    np.testing.assert_allclose(G.diagonal(), np.sum(J * J, axis=0), atol=1e-12)
    f = lambda x: np.sum(np.sin(W @ x))
    H = bs.hessian_operator(f)(bs.on(sphere, x))
    np.testing.assert_allclose(H @ u, bs.hvp(f)(bs.on(sphere, x), u), atol=1e-12)
    C = bs.hessian_operator(f)(bs.on(sphere, x, coordinates=True))
    np.testing.assert_allclose(C.dense(), bs.hessian(f)(bs.on(sphere, x, coordinates=True)))
    with pytest.raises(UnsupportedError, match="solves within them"):
        G.kfac()
