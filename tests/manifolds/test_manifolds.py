"""Manifolds by their laws and beside pymanopt: operators, metrics, Hessians, geodesics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import manifolds as mf
from backsolve.errors import ShapeError, UnsupportedError

REFERENCES = np.load(Path(__file__).with_name("pymanopt.npz"))
CASES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "Euclidean": (mf.Euclidean(), (2, 3)),
    "Complex": (mf.Complex(), (3,)),
    "Symmetric": (mf.Symmetric(), (4, 4)),
    "Skew": (mf.Skew(), (4, 4)),
    "Diagonal": (mf.Diagonal(), (3, 3)),
    "Sphere": (mf.Sphere(), (5,)),
    "Oblique": (mf.Oblique(), (4, 3)),
    "Simplex": (mf.Simplex(), (5,)),
    "Stiefel": (mf.Stiefel(), (5, 3)),
    "SpecialOrthogonal": (mf.SpecialOrthogonal(), (4, 4)),
    "PositiveDefinite": (mf.PositiveDefinite(), (4, 4)),
    "FixedRank": (mf.FixedRank(2), (5, 4)),
}
IN_COORDINATES = sorted(set(CASES) - {"Oblique", "FixedRank"})
WITH_EXP = sorted(set(CASES) - {"FixedRank"})
WITH_LOG = sorted(set(CASES) - {"FixedRank", "Stiefel"})


def setup(name: str) -> tuple[Any, Any, Any]:
    manifold, shape = CASES[name]
    rng = np.random.default_rng(3)
    return manifold, manifold.random_point(rng, shape), rng


def dot(a: Any, b: Any) -> float:
    return float(np.sum(np.real(np.conj(a) * b)))


@pytest.mark.parametrize("name", CASES)
def test_the_projection_is_an_operator_of_the_right_rank(name: str) -> None:
    manifold, x, rng = setup(name)
    manifold.check(x)
    P = manifold.projection(x)
    u, v = (rng.normal(size=x.shape).astype(x.dtype) for _ in range(2))
    np.testing.assert_allclose(P(u), manifold.project(x, u), atol=1e-12)
    np.testing.assert_allclose(dot(P(u), v), dot(u, P.T(v)), atol=1e-12)
    np.testing.assert_allclose(P(P(u)), P(u), atol=1e-12)
    if x.dtype.kind != "c":
        assert np.linalg.matrix_rank(P.dense(), tol=1e-9) == manifold.dimension(x.shape)


@pytest.mark.parametrize("name", IN_COORDINATES)
def test_a_basis_is_orthonormal_in_the_metric_and_spans_the_tangents(name: str) -> None:
    manifold, x, rng = setup(name)
    E, n = manifold.basis(x), manifold.dimension(x.shape)
    assert E.in_type.shape == (n,)
    columns = [E(e) for e in np.eye(n)]
    gram = [[float(np.sum(manifold.inner(x, a, b))) for a in columns] for b in columns]
    np.testing.assert_allclose(gram, np.eye(n), atol=1e-12)
    u = manifold.random_tangent(rng, x)
    np.testing.assert_allclose(E(manifold.coordinates(x, u)), u, atol=1e-12)
    t, w = rng.normal(size=n), rng.normal(size=x.shape).astype(x.dtype)
    np.testing.assert_allclose(dot(E(t), w), dot(t, E.T(w)), atol=1e-12)
    # so the gradient is E Eᵀ g
    np.testing.assert_allclose(E(E.T(w)), manifold.gradient(x, w), atol=1e-12)


@pytest.mark.parametrize("name", WITH_EXP)
def test_a_retraction_meets_the_geodesic_to_first_order_at_least(name: str) -> None:
    manifold, x, rng = setup(name)
    u = manifold.random_tangent(rng, x)
    u = u / np.sqrt(np.sum(np.abs(u) ** 2))
    u = u * (0.3 * np.min(np.abs(x)) if name == "Simplex" else 1.0)
    gaps = [
        float(np.max(np.abs(manifold.retract(x, t * u) - manifold.exp(x, t * u))))
        for t in (1e-2, 1e-3)
    ]
    assert gaps[1] <= gaps[0] / 50 + 1e-12  # a tenth of the step: at most a hundredth of the gap
    manifold.check(manifold.exp(x, 0.5 * u))


@pytest.mark.parametrize("name", ["Sphere", "Oblique", "PositiveDefinite"])
def test_these_retractions_are_of_second_order(name: str) -> None:
    manifold, x, rng = setup(name)
    u = manifold.random_tangent(rng, x)
    gaps = [
        float(np.max(np.abs(manifold.retract(x, t * u) - manifold.exp(x, t * u))))
        for t in (1e-1, 1e-2)
    ]
    assert gaps[1] < gaps[0] / 500


@pytest.mark.parametrize("name", WITH_LOG)
def test_the_logarithm_undoes_exp_and_measures_the_way(name: str) -> None:
    manifold, x, rng = setup(name)
    u = manifold.random_tangent(rng, x)
    u = u * 0.2 * (float(np.min(x)) if name == "Simplex" else 1.0)
    y = manifold.exp(x, u)
    np.testing.assert_allclose(manifold.log(x, y), u, atol=1e-10)
    length = float(np.sqrt(np.sum(manifold.inner(x, u, u))))
    np.testing.assert_allclose(manifold.distance(x, y), length, rtol=1e-8)
    np.testing.assert_allclose(manifold.distance(y, x), length, rtol=1e-8)


@pytest.mark.parametrize(
    "name", ["Sphere", "Oblique", "Stiefel", "PositiveDefinite", "Symmetric", "Skew", "SpecialOrthogonal"]
)  # fmt: skip
def test_beside_pymanopt(name: str) -> None:
    manifold = CASES[name][0]
    r = {k: REFERENCES[f"{name} {k}"] for k in ("x", "g", "h", "u", "gradient", "hessian", "exp")}
    x, u = r["x"], r["u"]
    assert manifold.dimension(x.shape) == REFERENCES[f"{name} dimension"]
    np.testing.assert_allclose(manifold.gradient(x, r["g"]), r["gradient"], atol=1e-12)
    np.testing.assert_allclose(manifold.hessian(x, r["g"], r["h"], u), r["hessian"], atol=1e-11)
    length = np.sqrt(np.sum(manifold.inner(x, u, u)))
    np.testing.assert_allclose(length, REFERENCES[f"{name} norm"])
    np.testing.assert_allclose(manifold.exp(x, 0.3 * u), r["exp"], atol=1e-11)
    if name != "Stiefel":
        distance = manifold.distance(x, r["exp"])
        np.testing.assert_allclose(distance, REFERENCES[f"{name} distance"], rtol=1e-7)


def test_low_rank_beside_pymanopt() -> None:
    x, g = REFERENCES["FixedRank x"], REFERENCES["FixedRank g"]
    manifold = mf.FixedRank(2)
    np.testing.assert_allclose(
        manifold.gradient(x, g), REFERENCES["FixedRank gradient"], atol=1e-12
    )
    assert manifold.dimension(x.shape) == REFERENCES["FixedRank dimension"]


@pytest.mark.parametrize("name", sorted(set(CASES) - {"Complex"}))
def test_hessians_by_differences_along_curves(name: str) -> None:
    """⟨Hess f u, u⟩ is the second derivative along the geodesic; of low rank, along the retraction, which is
    of second order."""
    manifold, x, rng = setup(name)
    A, B = rng.normal(size=(2, *x.shape))
    f = lambda y: np.sum(A * y) + np.sum(B * y**3)
    u = manifold.random_tangent(rng, x)
    u = u * (0.1 * float(np.min(x)) if name == "Simplex" else 1.0)
    move = manifold.retract if name == "FixedRank" else manifold.exp
    h = 1e-3
    values = [f(move(x, k * h * u)) for k in (-2, -1, 0, 1, 2)]
    second = np.dot([-1, 16, -30, 16, -1], values) / (12 * h * h)
    found = bs.hvp(f)(bs.on(manifold, x), u)
    np.testing.assert_allclose(manifold.project(x, found), found, atol=1e-10)
    np.testing.assert_allclose(np.sum(manifold.inner(x, found, u)), second, rtol=1e-5, atol=1e-7)


def test_what_is_no_point_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"no point of Sphere\(\): the nearest is 1.0e\+00 away"):
        bs.on(mf.Sphere(), np.array([2.0, 0.0]))
    with pytest.raises(ShapeError, match="square matrices"):
        bs.on(mf.Symmetric(), np.ones((2, 3)))
    with pytest.raises(ShapeError, match="floating-point"):
        bs.on(mf.Sphere(), np.array([1, 0]))
    with pytest.raises(ValueError, match="at least 1"):
        mf.FixedRank(0)
    with pytest.raises(ShapeError, match="as many rows and columns"):
        mf.FixedRank(3).nearest(np.ones((2, 5)))
    with pytest.raises(UnsupportedError, match="no coordinates"):
        bs.grad(np.sum)(bs.on(mf.Oblique(), np.eye(2), coordinates=True))
    with pytest.raises(UnsupportedError, match="no logarithm"):
        mf.Stiefel().log(np.eye(2), np.eye(2))
