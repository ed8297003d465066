"""Geodesics, logarithms and distances as functions that are differentiated, from the start of a way, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import manifolds as mf

CASES: list[tuple[mf.Manifold, tuple[int, ...]]] = [
    (mf.Sphere(), (4,)),
    (mf.Oblique(), (3, 2)),
    (mf.Simplex(), (4,)),
    (mf.PositiveDefinite(), (3, 3)),
    (mf.PositiveDefinite(), (2, 3, 3)),
    (mf.Stiefel(), (4, 2)),
    (mf.SpecialOrthogonal(), (3, 3)),
    (mf.SpecialOrthogonal(), (2, 3, 3)),
]
WITH_LOG = [case for case in CASES if type(case[0]) is not mf.Stiefel]
COMPACT = [case for case in WITH_LOG if type(case[0]) is not mf.PositiveDefinite]


def setup(manifold: mf.Manifold, shape: tuple[int, ...], dtype: Any = float) -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    x = manifold.random_point(rng, shape).astype(dtype)
    u = manifold.random_tangent(rng, x)
    return x, u * (0.3 * np.min(np.abs(x)) if isinstance(manifold, mf.Simplex) else 0.3)


def along(f: Any, t: float, order: int = 1) -> Any:
    for _ in range(order):
        f = (lambda g: lambda s: bs.jvp(g, (s,), (1.0,))[1])(f)
    return f(t)


@pytest.mark.parametrize(("manifold", "shape"), CASES)
@pytest.mark.parametrize("t", [0.0, 0.7])
def test_curves_of_exp_are_geodesics(
    manifold: mf.Manifold, shape: tuple[int, ...], t: float
) -> None:
    x, u = setup(manifold, shape)
    curve = lambda s: manifold.exp(x, s * u)
    y, v, a = curve(t), along(curve, t), along(curve, t, 2)
    if t == 0:
        np.testing.assert_allclose(v, u, atol=1e-12)
    np.testing.assert_allclose(manifold.project(y, v), v, atol=1e-12)
    np.testing.assert_allclose(
        manifold.project(y, a) + manifold.connection(y, v, v), 0 * a, atol=1e-10
    )
    np.testing.assert_allclose(bs.jit(bs.jacobian(curve))(t), v, atol=1e-12)


@pytest.mark.parametrize(("manifold", "shape"), CASES)
def test_the_series_of_a_geodesic_is_that_of_nearby_points(
    manifold: mf.Manifold, shape: tuple[int, ...]
) -> None:
    x, u = setup(manifold, shape)
    zeros = [0.0] * 7
    y, derivatives = bs.jet(lambda s: manifold.exp(x, s * u), (0.0,), [[1.0, *zeros]])
    t, total, factor = 0.2, y, 1.0
    for k, d in enumerate(derivatives, 1):
        factor *= t / k
        total = total + factor * d
    np.testing.assert_allclose(total, manifold.exp(x, t * u), atol=1e-9)


@pytest.mark.parametrize(("manifold", "shape"), WITH_LOG)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_logarithms_are_smooth_where_the_way_has_no_length(
    manifold: mf.Manifold, shape: tuple[int, ...], order: int
) -> None:
    x, u = setup(manifold, shape)
    far = lambda s: manifold.log(x, manifold.exp(x, s * u))
    there = lambda s: manifold.inner(x, far(s), far(s))
    np.testing.assert_allclose(along(far, 0.0, order), u if order == 1 else 0 * u, atol=1e-10)
    square = 2 * manifold.inner(x, u, u)
    np.testing.assert_allclose(along(there, 0.0, order), square * (order == 2), atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("manifold", "shape"), COMPACT)
@pytest.mark.parametrize("t", [1e-6, 0.05, 0.3, 0.31, 1.0])
def test_ways_there_and_back(
    manifold: mf.Manifold, shape: tuple[int, ...], t: float, dtype: Any
) -> None:
    x, u = setup(manifold, shape, dtype)
    u = t * u if isinstance(manifold, mf.Simplex) else t * u / np.linalg.norm(u)
    y = manifold.exp(x, u.astype(dtype))
    found = manifold.log(x, y)
    assert y.dtype == found.dtype == dtype
    np.testing.assert_allclose(found, u, atol=20 * np.finfo(dtype).eps)


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("angle", [1e-9, 0.1, 1.0, 3.0, 3.14159])
def test_logarithms_of_large_turns(n: int, angle: float) -> None:
    rotations = mf.SpecialOrthogonal()
    x, _ = setup(rotations, (n, n))
    u = np.zeros((n, n))
    u[0, 1], u[1, 0] = -angle, angle
    y = rotations.exp(x, x @ u)
    np.testing.assert_allclose(rotations.log(x, y), x @ u, atol=1e-13)
    np.testing.assert_allclose(bs.jit(rotations.log)(x, y), x @ u, atol=1e-12)
    f = lambda p: rotations.distance(p, y) ** 2
    np.testing.assert_allclose(bs.grad(f)(bs.on(rotations, x)), -2 * x @ u, rtol=1e-6, atol=1e-9)


def test_half_a_turn_is_an_error_in_compiled_code() -> None:
    with pytest.raises(TypeError, match="half a turn"):
        bs.jit(mf.SpecialOrthogonal().log)(np.eye(3), np.diag([1.0, -1.0, -1.0]))


def test_a_geodesic_among_probabilities_ends_at_the_edge() -> None:
    x, u = np.array([0.2, 0.3, 0.5]), np.array([-1.0, 0.25, 0.75])
    simplex = mf.Simplex()
    ends = [bool(np.all(np.isfinite(simplex.exp(x, t * u)))) for t in (0.1, 0.2, 0.5, 1.0, 20.0)]
    s = np.sqrt(x)
    length = np.linalg.norm(0.5 * u / s)
    edge = np.arctan(-s[0] * length / (0.5 * u[0] / s[0])) / length  # where the first one is 0
    assert ends == [t < edge for t in (0.1, 0.2, 0.5, 1.0, 20.0)]


def test_a_distance_of_columns_some_of_which_agree_has_a_gradient() -> None:
    rng = np.random.default_rng(2)
    x, y = (mf.Oblique().random_point(rng, (3, 2)) for _ in range(2))
    y = np.stack([x[:, 0], y[:, 1]], axis=1)
    found = bs.grad(lambda p: mf.Oblique().distance(p, y))(bs.on(mf.Oblique(), x))
    way = mf.Oblique().log(x, y)
    np.testing.assert_allclose(found, -way / np.linalg.norm(way), atol=1e-12)


@pytest.mark.parametrize(
    ("manifold", "shape"), [*WITH_LOG, (mf.Euclidean(), (3,)), (mf.Symmetric(), (3, 3))]
)
def test_a_squared_distance_has_derivatives_at_0(
    manifold: mf.Manifold, shape: tuple[int, ...]
) -> None:
    x, u = setup(manifold, shape)
    slope = lambda x, y: bs.grad(lambda p: manifold.squared_distance(p, y))(bs.on(manifold, x))
    bend = lambda x, y: bs.hvp(lambda p: manifold.squared_distance(p, y))(bs.on(manifold, x), u)
    np.testing.assert_allclose(slope(x, x), 0 * x, atol=1e-13)
    for f in (bend, bs.jit(bend)):
        np.testing.assert_allclose(f(x, x), 2 * u, atol=1e-11)


def test_logarithms_of_positive_matrices_whose_eigenvalues_agree() -> None:
    cone = mf.PositiveDefinite()
    x, u = setup(cone, (3, 3))
    # log(x, s x) = log s · x, which bends by no more than x does
    for s in (1e-6, 2.0, 1e6):
        slope = bs.jvp(lambda x, s=s: cone.log(x, s * x), (x,), (u,))[1]
        np.testing.assert_allclose(slope, np.log(s) * u, atol=1e-12)
        square = lambda y: cone.squared_distance(x, y)
        at = bs.on(cone, s * x)
        np.testing.assert_allclose(bs.grad(square)(at), 2 * np.log(s) * s * x, atol=1e-12 * s)


@pytest.mark.parametrize("spread", [1.0, 6.0, 12.0])
def test_derivatives_of_logarithms_of_positive_matrices(spread: float) -> None:
    """Of diagonal ones by divided differences of log."""
    cone, rng = mf.PositiveDefinite(), np.random.default_rng(4)
    values = 10 ** np.array([-spread, -spread / 3, -spread / 3, 0.0])
    d = np.sqrt(np.outer(values, values)) * rng.normal(size=(4, 4))
    d = d + d.T
    a, b = values[:, None], values[None, :]
    with np.errstate(all="ignore"):
        divided = np.where(a == b, 1 / a, (np.log(a) - np.log(b)) / (a - b))
    found = bs.jvp(lambda y: cone.log(np.eye(4), y), (np.diag(values),), (d,))
    np.testing.assert_allclose(found[0], np.diag(np.log(values)), atol=1e-12)
    np.testing.assert_allclose(found[1], divided * d, rtol=1e-9, atol=1e-11)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_not_positive_has_no_logarithm() -> None:
    y = np.diag([1.0, -1e-3])
    f = lambda x: mf.PositiveDefinite().squared_distance(x, y)
    assert np.isnan(f(np.eye(2)))
    assert np.isnan(bs.value_and_grad(f)(np.eye(2))[0])
    assert np.isnan(bs.jit(f)(np.eye(2)))
