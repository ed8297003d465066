"""Curvature operators at points whose metric is not that of the space around: as in orthonormal coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import manifolds as mf
from backsolve.errors import ShapeError, UnsupportedError

CASES: list[tuple[mf.Manifold, tuple[int, ...]]] = [
    (mf.PositiveDefinite(), (3, 3)),
    (mf.Simplex(), (4,)),
    (mf.Sphere(), (4,)),
    (mf.Symmetric(), (3, 3)),
]
each_case = pytest.mark.parametrize(("manifold", "shape"), CASES, ids=str)


def setup(manifold: mf.Manifold, shape: tuple[int, ...]) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(8)
    x = manifold.random_point(rng, shape)
    u, b = manifold.random_tangent(rng, x), manifold.random_tangent(rng, x)
    W = rng.normal(size=(12, x.size))
    return x, u, b, lambda y: np.tanh(W @ np.reshape(y, -1) / 5)


def half_square(z: Any) -> Any:
    return 0.5 * np.sum(z * z)


@each_case
@pytest.mark.parametrize("way", ["gauss_newton", "fisher"])
def test_products_and_solutions_are_those_in_coordinates(
    manifold: mf.Manifold, shape: tuple[int, ...], way: str
) -> None:
    x, u, b, model = setup(manifold, shape)
    at = lambda x, **how: (
        bs.gauss_newton(model, half_square) if way == "gauss_newton" else bs.fisher(model, "normal")
    )(bs.on(manifold, x, **how))
    G, C = at(x), at(x, coordinates=True)
    inside = manifold.coordinates(x, u), manifold.coordinates(x, b)
    np.testing.assert_allclose(G @ u, manifold.embed(x, C @ inside[0]), atol=1e-12)
    for damping in (0.0, 0.3):
        want = manifold.embed(x, C.solve(inside[1], damping))
        found = G.solve(b, damping)
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-8)
        inner = bs.jit(lambda x, b, damping=damping: at(x).solve(b, damping))(x, b)
        np.testing.assert_allclose(inner, want, rtol=1e-6, atol=1e-8)


@each_case
def test_newton_steps_by_the_hessian(manifold: mf.Manifold, shape: tuple[int, ...]) -> None:
    x, u, _, model = setup(manifold, shape)
    goal = manifold.retract(x, 0.05 * u)
    f = lambda y: half_square(model(y) - model(goal))
    for _ in range(7):
        point = bs.on(manifold, x)
        step = bs.hessian_operator(f)(point).solve(bs.grad(f)(point))
        x = manifold.retract(x, -step)
    np.testing.assert_allclose(x, goal, atol=1e-10)


def test_points_among_other_parameters() -> None:
    cone = mf.PositiveDefinite()
    x, _, b, model = setup(cone, (3, 3))
    both = lambda p: model(p["x"]) * p["a"]
    p = {"a": np.array(0.7), "x": x}
    G = bs.gauss_newton(both, half_square)({**p, "x": bs.on(cone, x)})
    C = bs.gauss_newton(both, half_square)({**p, "x": bs.on(cone, x, coordinates=True)})
    found = G.solve({"a": np.array(0.1), "x": b}, damping=0.2)
    want = C.solve({"a": np.array(0.1), "x": cone.coordinates(x, b)}, damping=0.2)
    np.testing.assert_allclose(found["a"], want["a"], rtol=1e-8)
    np.testing.assert_allclose(found["x"], cone.embed(x, want["x"]), rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_an_adjoint_and_its_tangent(shape: tuple[int, ...]) -> None:
    cone = mf.PositiveDefinite()
    rng = np.random.default_rng(9)
    x = cone.random_point(rng, shape)
    u, v = cone.random_tangent(rng, x), cone.random_tangent(rng, x)
    np.testing.assert_allclose(cone.raised(x, cone.lowered(x, u)), u, atol=1e-12)
    pairing = np.sum(cone.lowered(x, u) * v)
    np.testing.assert_allclose(pairing, np.sum(cone.inner(x, u, v)), rtol=1e-12)


@each_case
def test_diagonals_in_coordinates(manifold: mf.Manifold, shape: tuple[int, ...]) -> None:
    x, _, _, model = setup(manifold, shape)
    f = lambda y: half_square(model(y))
    on = lambda x: bs.on(manifold, x, coordinates=True)
    want = np.diag(bs.hessian(f)(on(x)))
    H = bs.hessian_operator(f)(on(x))
    np.testing.assert_allclose(H.diagonal(), want, atol=1e-12)
    np.testing.assert_allclose(H.trace(), bs.laplacian(f)(on(x)), rtol=1e-12)
    found = bs.jit(lambda x: bs.hessian_diagonal(f)(on(x)))(x)
    np.testing.assert_allclose(found, want, atol=1e-12)
    both = bs.hessian_diagonal(lambda p: p["a"] ** 2 * f(p["x"]))({"a": 1.5, "x": on(x)})
    np.testing.assert_allclose(both["x"], 1.5**2 * want, atol=1e-12)
    np.testing.assert_allclose(both["a"], 2 * f(x), rtol=1e-12)


def test_what_there_is_not() -> None:
    x, _, b, model = setup(mf.PositiveDefinite(), (3, 3))
    G = bs.gauss_newton(model, half_square)(bs.on(mf.PositiveDefinite(), x))
    assert "symmetric" not in G.structure
    with pytest.raises(UnsupportedError, match="orthonormal"):
        _ = G.T
    with pytest.raises(UnsupportedError, match="no coordinates"):
        G.diagonal()
    with pytest.raises(ShapeError, match="no tangent"):
        G.solve(b + np.triu(np.ones((3, 3)), 1))
