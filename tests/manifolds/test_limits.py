"""Where manifolds end: arrays that are no points, opposite points, no dimension, and steps by the thousand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import manifolds as mf
from backsolve import optim
from backsolve.errors import ShapeError, UnsupportedError

rng = np.random.default_rng(5)
_unitary = np.linalg.qr(rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3)))[0]
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "unitary": (mf.Stiefel(), _unitary, "is of real arrays"),
    "complex": (mf.Euclidean(), np.ones(2) + 0j, "is of real arrays"),
    "NaN": (mf.PositiveDefinite(), np.full((2, 2), np.nan), "NaN or infinite"),
    "infinite": (mf.FixedRank(1), np.full((2, 2), np.inf), "NaN or infinite"),
    "complex NaN": (mf.Complex(), np.array([np.nan + 1j]), "NaN or infinite"),
    "no matrix": (mf.PositiveDefinite(), np.ones(3), "2 axes"),
    "no columns": (mf.Oblique(), np.ones(3), "2 axes"),
    "no vector": (mf.Simplex(), np.array(1.0), "1 axis"),
    "not square": (mf.PositiveDefinite(), np.ones((2, 3)), "square matrices"),
    "singular": (mf.PositiveDefinite(), np.diag([1.0, 0.0]), "least eigenvalue is 0"),
    "small and negative": (mf.PositiveDefinite(), -1e-10 * np.eye(2), "no point"),
    "one of two": (mf.PositiveDefinite(), np.stack([1e9 * np.eye(2), -np.eye(2)]), "no point"),
    "small and not symmetric": (mf.Symmetric(), 1e-10 * rng.normal(size=(3, 3)), "no point"),
    "small of full rank": (mf.FixedRank(1), 1e-10 * np.eye(3), "no point"),
    "lower rank": (mf.FixedRank(2), np.outer([1.0, 2.0, 3.0], [1.0, 0.0, 1.0]), "lower rank"),
    "columns beside a large S": (
        mf.LowRank(2, 2, 1),
        np.array([[1.0], [1.0], [1.0], [0.0], [1e9]]),
        "no point",
    ),
    "a corner": (mf.Simplex(), np.array([1.0, 0.0]), "above 0"),
    "a mirror": (mf.SpecialOrthogonal(), np.diag([1.0, -1.0]), "no point"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_point_is_told(name: str) -> None:
    manifold, x, message = REFUSED[name]
    with pytest.raises(ShapeError, match=message):
        bs.on(manifold, x)


@pytest.mark.parametrize(
    ("manifold", "x"),
    [
        (mf.PositiveDefinite(), np.zeros((2, 2))),
        (mf.PositiveDefinite(), -1e-10 * np.eye(3)),
        (mf.PositiveDefinite(), np.stack([1e9 * np.ones((2, 2)), -np.eye(2)]).astype(np.float32)),
        (mf.Simplex(), np.array([1.0, 0.0, 0.0])),
        (mf.SpecialOrthogonal(), np.stack([np.diag([1.0, -1.0]), np.eye(2)])),
    ],
)
def test_the_nearest_that_messages_speak_of_is_a_point(manifold: Any, x: Any) -> None:
    found = manifold.nearest(x)
    assert found.dtype == x.dtype
    bs.on(manifold, found)


def test_a_direction_of_another_shape_is_told() -> None:
    x = bs.on(mf.Sphere(), np.array([1.0, 0.0]))
    with pytest.raises(ShapeError, match=r"has that shape, got \(3,\)"):
        bs.hvp(np.sum)(x, np.ones(3))


def test_opposite_points() -> None:
    """All directions lead there: none is the logarithm, but the distance is known."""
    x = np.array([0.6, 0.8])
    assert np.all(np.isnan(mf.Sphere().log(x, -x)))
    np.testing.assert_allclose(mf.Sphere().distance(x, -x), np.pi)
    columns = np.eye(2)
    np.testing.assert_allclose(mf.Oblique().distance(columns, -columns), np.sqrt(2) * np.pi)
    assert np.all(mf.Sphere().log(x, x) == 0)
    for y in (-np.eye(2), np.diag([1.0, -1.0])):
        with pytest.raises(UnsupportedError, match="half a turn"):
            mf.SpecialOrthogonal().log(np.eye(2), y)


@pytest.mark.parametrize(
    ("manifold", "x"),
    [
        (mf.Skew(), np.zeros((1, 1))),
        (mf.Stiefel(), np.eye(1)),
        (mf.Sphere(), np.ones(1)),
        (mf.Simplex(), np.ones(1)),
    ],
)
def test_points_without_directions(manifold: Any, x: Any) -> None:
    point = bs.on(manifold, x, coordinates=True)
    f = lambda x: np.sum(x**2)
    assert bs.grad(f)(point).shape == (0,)
    assert bs.hessian(f)(point).shape == (0, 0)


def test_complex_directions_are_twice_as_many() -> None:
    z = np.array([1 + 2j, 3j])
    f = lambda z: np.sum(np.real(z) ** 3 + np.imag(z) ** 2)
    for way in (bs.laplacian, bs.hessian):
        with pytest.raises(UnsupportedError, match="coordinates=True"):
            way(f)(bs.on(mf.Complex(), z))
    assert bs.laplacian(f)(bs.on(mf.Complex(), z, coordinates=True)) == 6.0 + 2 * 2.0


RULES = [
    optim.SGD(0.05),
    optim.SGD(0.05, momentum=0.9, weight_decay=0.1),
    optim.Adam(0.05, weight_decay=0.1),
    optim.RiemannianSGD(lr=0.05, momentum=0.9),
    optim.RiemannianAdam(lr=0.05),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_stay_so_while_some_vanish(rule: Any, dtype: Any) -> None:
    """The least of a linear function is at a corner, which no step reaches."""
    cost = np.array([[1.0, 0.0, 2.0, 3.0], [1.0, 5.0, 2.0, 0.0]], dtype)
    p = bs.on(mf.Simplex(), np.full((2, 4), 0.25, dtype))
    state = rule.init(p)
    step = bs.jit(lambda p, s: rule.update(p, bs.grad(lambda x: np.sum(cost * x))(p), s))
    for _ in range(4000):
        p, state = step(p, state)
    assert p.x.dtype == dtype
    mf.Simplex().check(np.asarray(p.x))
    np.testing.assert_allclose(p.x[[0, 1], [1, 3]], 1, atol=1e-6)


def test_factors_stay_orthonormal() -> None:
    manifold = mf.LowRank(4, 3, 2)
    goal = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    rule = optim.SGD(0.05, momentum=0.9, nesterov=True, weight_decay=0.1)
    p = bs.on(manifold, manifold.random_point(np.random.default_rng(2)).astype(np.float32))
    state = rule.init(p)
    f = lambda x: np.sum((manifold.matrix(x).dense() - goal) ** 2)
    step = bs.jit(lambda p, s: rule.update(p, bs.grad(f)(p), s))
    for _ in range(2000):
        p, state = step(p, state)
    u, _, v = manifold.factors(np.asarray(p.x))
    for q in (u, v):
        np.testing.assert_allclose(q.T @ q, np.eye(2), atol=2e-6)


@pytest.mark.parametrize("rank", [1.5, 2.0, True, "2"])
def test_ranks_are_whole_numbers(rank: Any) -> None:
    for made in (lambda: mf.FixedRank(rank), lambda: mf.LowRank(4, 3, rank)):
        with pytest.raises(ValueError, match="whole numbers"):
            made()
    assert mf.FixedRank(np.int64(2)).rank == 2
