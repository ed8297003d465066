"""Manifolds by their laws, and descent on them on problems whose solution is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import backsolve as bs
from backsolve import optim
from backsolve.errors import ShapeError

_rng = np.random.default_rng(0)


def draw(*shape: int) -> Any:
    return _rng.normal(size=shape)


def _orthonormal(x: Any) -> Any:
    return np.swapaxes(x, -1, -2) @ x - np.eye(x.shape[-1])


def _rotation(x: Any) -> Any:
    return np.stack([np.abs(_orthonormal(x)).max(), np.abs(np.linalg.det(x) - 1).max()])


def _positive(x: Any) -> Any:
    gap = np.abs(x - np.swapaxes(x, -1, -2)).max()
    return np.stack([gap, np.maximum(-np.linalg.eigvalsh(x), 0).max()])


_square = draw(3, 4, 4)
_turns = np.linalg.qr(_square)[0]
_turns = _turns * np.where(np.linalg.det(_turns) < 0, -1, 1)[:, None, None] ** np.eye(4)[0]
# the manifold, a point (several, where there are leading axes), and what is 0 on the manifold
MANIFOLDS: dict[str, tuple[Any, Any, Any]] = {
    "Euclidean": (optim.Euclidean(), draw(5), lambda x: 0 * x),
    "Sphere": (optim.Sphere(), draw(2, 3), lambda x: np.sum(x * x) - 1),
    "Oblique": (optim.Oblique(), draw(4, 3), lambda x: np.sum(x * x, axis=0) - 1),
    "Stiefel by QR": (optim.Stiefel(), draw(2, 5, 3), _orthonormal),
    "Stiefel by Cayley": (optim.Stiefel("cayley"), draw(5, 3), _orthonormal),
    "SpecialOrthogonal": (optim.SpecialOrthogonal(), _turns, _rotation),
    "SpecialOrthogonal by Cayley": (optim.SpecialOrthogonal("cayley"), _turns[0], _rotation),
    "PositiveDefinite": (
        optim.PositiveDefinite(), _square @ np.swapaxes(_square, 1, 2) + np.eye(4), _positive
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MANIFOLDS)
def test_the_laws_of_a_manifold(name: str) -> None:
    manifold, raw, defect = MANIFOLDS[name]
    x = manifold.nearest(raw)
    np.testing.assert_allclose(defect(x), 0, atol=1e-12)
    u, v = (manifold.project(x, draw(*x.shape)) for _ in range(2))
    np.testing.assert_allclose(manifold.project(x, u), u, atol=1e-12)
    for t in (1e-3, 0.5, 3.0):
        np.testing.assert_allclose(defect(manifold.retract(x, t * u)), 0, atol=1e-11)
    # to first order a retraction is its tangent
    near = bs.jvp(lambda t: manifold.retract(x, t * u), (0.0,), (1.0,))[1]
    np.testing.assert_allclose(near, u, atol=1e-10)
    # the gradient represents the derivative
    g = draw(*x.shape)
    slope = np.sum(manifold.inner(x, manifold.gradient(x, g), v))
    np.testing.assert_allclose(slope, np.sum(g * v), rtol=1e-9)
    y = manifold.retract(x, u)
    w = manifold.transport(x, y, v)
    np.testing.assert_allclose(manifold.project(y, w), w, atol=1e-12)


def test_shapes_and_settings_are_checked() -> None:
    with pytest.raises(ShapeError, match="as many rows"):
        optim.Stiefel().nearest(np.ones((2, 3)))
    with pytest.raises(ShapeError, match="rotations are square"):
        optim.SpecialOrthogonal().nearest(np.ones((3, 2)))
    with pytest.raises(ValueError, match='"qr" or "cayley"'):
        optim.Stiefel("exponential")


DIGITS = load_digits().data / 16
DIGITS = DIGITS - DIGITS.mean(0)
COVARIANCE = DIGITS.T @ DIGITS / len(DIGITS)


def angles(x: Any, y: Any) -> Any:
    """Sines of the angles between two subspaces."""
    return np.linalg.svd(x - y @ (y.T @ x), compute_uv=False)


@pytest.mark.parametrize("retraction", ["qr", "cayley"])
def test_principal_components_of_digits(retraction: str) -> None:
    values, vectors = np.linalg.eigh(COVARIANCE)
    solver = optim.RiemannianCG(optim.Stiefel(retraction))
    f = lambda x: -np.sum(x * (COVARIANCE @ x))
    x = optim.Stiefel().nearest(draw(64, 3))
    found, state = bs.jit(lambda x: solver.minimize(f, x, 300, 1e-6))(x)
    np.testing.assert_allclose(state.value, -np.sum(values[-3:]), rtol=1e-9)
    assert angles(found, vectors[:, -3:]).max() < 1e-4
    np.testing.assert_allclose(_orthonormal(found), 0, atol=1e-12)


@pytest.mark.parametrize(
    "rule",
    [
        optim.RiemannianSGD(optim.Stiefel(), lr=0.3),
        optim.RiemannianSGD(optim.Stiefel("cayley"), lr=0.1, momentum=0.8),
        optim.RiemannianAdam(optim.Stiefel(), lr=optim.schedules.exponential(0.2, 0.98)),
    ],
    ids=["SGD", "momentum", "Adam"],
)
def test_rules_find_principal_components(rule: Any) -> None:
    values = np.linalg.eigvalsh(COVARIANCE)
    f = lambda x: -np.sum(x * (COVARIANCE @ x))
    x = optim.Stiefel().nearest(draw(64, 2))
    state = rule.init(x)
    eager = rule.update(x, bs.grad(f)(x), state)[0]
    step = bs.jit(lambda x, s: rule.update(x, bs.grad(f)(x), s))
    np.testing.assert_allclose(step(x, state)[0], eager, atol=1e-12)
    for _ in range(200):
        x, state = step(x, state)
    np.testing.assert_allclose(f(x), -np.sum(values[-2:]), rtol=1e-3)
    np.testing.assert_allclose(_orthonormal(x), 0, atol=1e-11)


@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
def test_procrustes(compile: Any) -> None:
    points, turn = draw(20, 3), _turns[0][:3, :3]
    turn = optim.SpecialOrthogonal().nearest(turn)
    turn = turn * np.array([1, 1, np.sign(np.linalg.det(turn))])
    seen = points @ turn + 0.01 * draw(20, 3)
    u, _, vt = np.linalg.svd(points.T @ seen)  # Kabsch
    best = u @ np.diag([1, 1, np.linalg.det(u @ vt)]) @ vt
    solver = optim.RiemannianCG(optim.SpecialOrthogonal())
    f = lambda q: np.sum((points @ q["turn"] - seen) ** 2)
    start = {"turn": np.eye(3)}
    found, _ = compile(lambda q: solver.minimize(f, q, 200, 1e-7))(start)
    np.testing.assert_allclose(found["turn"], best, atol=1e-6)
    np.testing.assert_allclose(np.linalg.det(found["turn"]), 1)


def test_the_most_likely_covariance() -> None:
    data = draw(50, 3) @ draw(3, 3)
    S = data.T @ data / 50
    f = lambda c: np.linalg.slogdet(c)[1] + np.trace(np.linalg.solve(c, S))
    found, _ = optim.RiemannianCG(optim.PositiveDefinite()).minimize(f, np.eye(3), 100, 1e-8)
    np.testing.assert_allclose(found, S, rtol=1e-6, atol=1e-8)


def test_unit_vectors_of_given_products_and_the_least_eigenvalue() -> None:
    goal = optim.Oblique().nearest(draw(4, 3))
    gram = goal.T @ goal
    f = lambda x: np.sum((x.T @ x - gram) ** 2)
    x = optim.Oblique().nearest(draw(4, 3))
    found, _ = optim.RiemannianCG(optim.Oblique()).minimize(f, x, 300, 1e-9)
    np.testing.assert_allclose(found.T @ found, gram, atol=1e-7)
    A = _square[0] + _square[0].T
    x, _ = optim.RiemannianCG(optim.Sphere()).minimize(
        lambda x: x @ A @ x, optim.Sphere().nearest(draw(4)), 200, 1e-8
    )
    np.testing.assert_allclose(x @ A @ x, np.linalg.eigvalsh(A)[0])


def test_manifolds_beside_each_other() -> None:
    rule = optim.Groups({"q": optim.RiemannianSGD(optim.Stiefel(), lr=0.1), "*": optim.SGD(lr=0.1)})
    p = {"q": optim.Stiefel().nearest(draw(4, 2)), "b": draw(2)}
    f = lambda p: np.sum((p["q"].T @ np.ones(4) + p["b"]) ** 2)
    state = rule.init(p)
    for _ in range(200):
        p, state = rule.update(p, bs.grad(f)(p), state)
    assert f(p) < 1e-6
    np.testing.assert_allclose(_orthonormal(p["q"]), 0, atol=1e-12)


def test_a_step_that_fails_twice_is_the_last() -> None:
    solver = optim.RiemannianCG(optim.Sphere(), max_halvings=3)
    _, state = solver.minimize(
        lambda x: np.sum(x) + 1e20, optim.Sphere().nearest(np.ones(3) + draw(3))
    )
    assert state.is_stuck
    assert state.count == 2
