"""Parameters declared on manifolds, through every transformation and the optimisers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import manifolds as mf
from backsolve import optim
from backsolve.errors import ShapeError, StructureError, UnsupportedError
from backsolve.hooks import Watcher, hooks
from backsolve.optim.vectors import as_vector

_rng = np.random.default_rng(5)
A = _rng.normal(size=(4, 4))
A = A + A.T
X = A / np.linalg.norm(A)  # symmetric, too
quadratic = lambda x: x @ A @ x


def unit(n: int = 4) -> Any:
    return mf.Sphere().random_point(_rng, (n,))


def test_the_symmetric_matrices_of_the_poster() -> None:
    """Only D is swapped: L is the same, and the solve goes through n (n + 1) / 2 coordinates."""
    f = lambda S: np.sum(np.sin(S @ A) * A)
    plain = bs.linearize(f)(X)
    system = bs.linearize(f)(bs.on(mf.Symmetric(), X, coordinates=True))
    assert system.parameters[0].shape == (10,)
    D = system.D[1, 1]
    assert D.in_type.shape == (10,)
    np.testing.assert_allclose(D.dense().T @ D.dense(), np.eye(10), atol=1e-15)
    blocks = [b for (i, _), b in plain.L.items().items()]
    shifted = [b for (i, j), b in system.L.items().items() if j > 1]
    assert [type(b) for b in shifted] == [type(b) for b in blocks]
    g = plain.backward(1.0)
    t = system.backward(1.0)
    np.testing.assert_allclose(D(t), (g + g.T) / 2, atol=1e-14)
    np.testing.assert_allclose(bs.grad(f)(bs.on(mf.Symmetric(), X)), (g + g.T) / 2, atol=1e-14)
    for method in ("forward", "reverse", "eliminate"):
        np.testing.assert_allclose(system.jacobian(method), t, atol=1e-13)


class _Solved(Watcher):
    """Sizes of the differentials that a solve brought to each row."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[tuple[str, int]] = []

    def on_block(self, row: Any, image: Any, seed: Any) -> None:
        self.sizes.append((row.primitive.name, int(np.size(image))))


def test_a_jacobian_in_coordinates_takes_as_many_solves_as_there_are() -> None:
    f = lambda S: np.sin(S @ A)
    point = bs.on(mf.Skew(), X * np.triu(np.ones((4, 4)), 1) - (X * np.triu(np.ones((4, 4)), 1)).T)
    small = bs.on(mf.Skew(), point.x, coordinates=True)
    J = bs.jacobian(f)(small)
    assert J.shape == (4, 4, 6)  # 6 forward solves where entries would take 16
    whole = bs.jacobian(f)(point.x).reshape(16, 16) @ mf.Skew().basis(point.x).dense()
    np.testing.assert_allclose(J.reshape(16, 6), whole, atol=1e-13)
    system = bs.linearize(f)(small)
    assert system.cost("forward") < bs.linearize(f)(point.x).cost("forward")
    seen = _Solved()
    hooks.add(seen)
    try:
        bs.grad(lambda S: np.sum(f(S)))(small)
    finally:
        hooks.remove(seen)
    assert ("on_manifold", 6) in seen.sizes  # D is applied by the solve itself, not after it


def test_gradients_in_containers_eager_and_compiled() -> None:
    x, b = unit(), _rng.normal(size=4)
    f = lambda p: quadratic(p["x"]) + np.sum(p["b"] ** 2) + p["b"] @ p["x"]
    p = {"x": bs.on(mf.Sphere(), x), "b": b}
    for make in (bs.grad, lambda f: bs.jit(bs.grad(f)), lambda f: bs.grad(bs.jit(f))):
        g = make(f)(p)
        np.testing.assert_allclose(g["x"], mf.Sphere().project(x, 2 * A @ x + b), atol=1e-13)
        np.testing.assert_allclose(g["b"], 2 * b + x, atol=1e-13)


def test_directions_are_tangents() -> None:
    x = unit()
    u = mf.Sphere().random_tangent(_rng, x)
    np.testing.assert_allclose(bs.jvp(quadratic, (bs.on(mf.Sphere(), x),), (u,))[1], 2 * x @ A @ u)
    with pytest.raises(ShapeError, match=r"0\.5 of it points off the manifold"):
        bs.jvp(quadratic, (bs.on(mf.Sphere(), x),), (u + 0.5 * x,))
    lax = bs.on(mf.Sphere(), x, project=True)
    np.testing.assert_allclose(bs.jvp(quadratic, (lax,), (u + 0.5 * x,))[1], 2 * x @ A @ u)


def test_the_hessian_inside_the_solve() -> None:
    """The gradient of a declared parameter differentiates on: Weingarten's term comes by itself."""
    manifold, x = mf.Stiefel(), mf.Stiefel().random_point(_rng, (4, 2))
    f = lambda x: np.sum(x * (A @ x) * np.array([1.0, 2.0]))
    u = manifold.random_tangent(_rng, x)
    field = lambda y: bs.grad(f)(bs.on(manifold, bs.on(manifold, y)))
    nested = manifold.project(x, bs.jvp(field, (x,), (u,))[1])
    found = bs.hvp(f)(bs.on(manifold, x), u)
    np.testing.assert_allclose(found, nested, atol=1e-12)
    flat = manifold.project(x, bs.hvp(f)(x, u))
    assert np.max(np.abs(found - flat)) > 0.1  # the term is there
    # in coordinates a symmetric matrix; at the minimum, its eigenvalues are known
    values, vectors = np.linalg.eigh(A)
    H = bs.hessian(quadratic)(bs.on(mf.Sphere(), vectors[:, 0], coordinates=True))
    np.testing.assert_allclose(np.linalg.eigvalsh(H), 2 * (values[1:] - values[0]), atol=1e-12)
    with pytest.raises(UnsupportedError, match="a projected one: leave out sparse="):
        bs.hessian(quadratic, sparse=True)(bs.on(mf.Sphere(), vectors[:, 0]))
    with pytest.raises(UnsupportedError, match="use hvp"):
        bs.hessian(lambda p: quadratic(p["x"]))({"x": bs.on(mf.Sphere(), vectors[:, 0])})


RULES = [
    optim.SGD(lr=0.05),
    optim.SGD(lr=0.02, momentum=0.8),
    optim.SGD(lr=0.02, momentum=0.8, nesterov=True),
    optim.Adam(lr=optim.schedules.exponential(0.2, 0.97)),
    optim.RMSprop(lr=optim.schedules.exponential(0.1, 0.97)),
    optim.Lion(lr=optim.schedules.exponential(0.1, 0.97)),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: type(r).__name__)
def test_every_rule_stays_on_the_sphere_and_finds_the_least_eigenvalue(rule: Any) -> None:
    p: Any = {"x": bs.on(mf.Sphere(), mf.Sphere().nearest(np.array([1.0, 2.0, -1.0, 0.5])))}
    state = rule.init(p)
    f = lambda p: quadratic(p["x"])
    step = bs.jit(lambda p, s: rule.update(p, bs.grad(f)(p), s))
    for _ in range(400):
        p, state = step(p, state)
    assert isinstance(p["x"], mf.Point)
    np.testing.assert_allclose(np.sum(p["x"].x ** 2), 1, atol=1e-12)
    np.testing.assert_allclose(quadratic(p["x"].x), np.linalg.eigvalsh(A)[0], rtol=1e-3)


def test_momentum_is_that_of_the_rule_for_manifolds() -> None:
    x = y = mf.Stiefel().random_point(_rng, (4, 2))
    f = lambda x: np.sum(x * (A @ x))
    plain, own = optim.SGD(lr=0.05, momentum=0.7), optim.RiemannianSGD(mf.Stiefel(), 0.05, 0.7)
    p = bs.on(mf.Stiefel(), x)
    s, t = plain.init(p), own.init(y)
    for _ in range(20):
        p, s = plain.update(p, bs.grad(f)(p), s)
        y, t = own.update(y, bs.grad(f)(y), t)
    np.testing.assert_allclose(p.x, y, atol=1e-12)
    with pytest.raises(StructureError, match="a manifold of its own"):
        own.update(p, bs.grad(f)(p), t)
    with pytest.raises(UnsupportedError, match="would leave the manifold"):
        as_vector(p)


def test_the_mean_of_positive_matrices() -> None:
    """Of two, it is the middle of the geodesic: x (x⁻¹ y)^½."""
    manifold = mf.PositiveDefinite()
    x, y = (manifold.random_point(_rng, (3, 3)) for _ in range(2))
    f = lambda c: 0.5 * (manifold.distance(c, x) ** 2 + manifold.distance(c, y) ** 2)
    c = bs.on(manifold, x + 0.1 * np.eye(3))
    rule = optim.SGD(lr=0.4)
    state = rule.init(c)
    for _ in range(60):
        c, state = rule.update(c, bs.grad(f)(c), state)
    middle = manifold.exp(x, 0.5 * manifold.log(x, y))
    np.testing.assert_allclose(c.x, middle, atol=1e-8)


def test_completion_of_a_low_rank_matrix() -> None:
    goal = _rng.normal(size=(12, 2)) @ _rng.normal(size=(2, 10))
    seen = _rng.random((12, 10)) < 0.8
    f = lambda x: np.sum(np.where(seen, x - goal, 0.0) ** 2)
    manifold = mf.FixedRank(2)
    x, _ = optim.RiemannianCG(manifold).minimize(
        f, manifold.nearest(np.where(seen, goal, 0.0)), 400, 1e-9
    )
    np.testing.assert_allclose(x, goal, atol=1e-6)
    assert np.linalg.matrix_rank(x, tol=1e-8) == 2


def test_the_most_likely_probabilities() -> None:
    counts = np.array([5.0, 3.0, 2.0, 10.0])
    f = lambda p: -counts @ np.log(p) / 20
    p = bs.on(mf.Simplex(), np.full(4, 0.25))
    # the Riemannian Hessian at the maximum of a likelihood is Fisher's metric: the identity in coordinates
    best = bs.on(mf.Simplex(), counts / 20, coordinates=True)
    np.testing.assert_allclose(bs.hessian(f)(best), np.eye(3), atol=1e-12)
    rule = optim.SGD(lr=0.5)
    state = rule.init(p)
    for _ in range(60):
        p, state = rule.update(p, bs.grad(f)(p), state)
    np.testing.assert_allclose(p.x, counts / 20, atol=1e-9)


def test_newton_in_coordinates_converges_fast() -> None:
    values, vectors = np.linalg.eigh(A)
    x = mf.Sphere().nearest(vectors[:, 0] + 0.05 * vectors[:, 2])
    for _ in range(3):
        point = bs.on(mf.Sphere(), x, coordinates=True)
        t = np.linalg.solve(bs.hessian(quadratic)(point), bs.grad(quadratic)(point))
        x = mf.Sphere().exp(x, -mf.Sphere().embed(x, t))
    np.testing.assert_allclose(quadratic(x), values[0], atol=1e-14 * abs(values[0]) + 1e-13)


def test_a_point_computes_as_its_array() -> None:
    p = bs.on(mf.Sphere(), unit())
    np.testing.assert_allclose(quadratic(p), quadratic(p.x))
    assert p[0] == p.x[0]
    assert p.shape == (4,)
    np.testing.assert_allclose(np.sum(p * 2.0), np.sum(p.x * 2.0))


def test_the_laplacian_of_a_manifold() -> None:
    """Harmonics of the sphere, matrix entries on rotations, log det: all eigenfunctions that are known."""
    x = unit()
    for coordinates in (False, True):
        point = bs.on(mf.Sphere(), x, coordinates=coordinates)
        found = bs.laplacian(lambda x: x[0] ** 2 - 0.25)(point)
        np.testing.assert_allclose(found, -8 * (x[0] ** 2 - 0.25), atol=1e-12)
    q = mf.SpecialOrthogonal().random_point(_rng, (4, 4))
    value, gradient, bent = bs.laplacian(lambda q: np.sum(A * q), with_gradient=True)(
        bs.on(mf.SpecialOrthogonal(), q)
    )
    np.testing.assert_allclose(bent, -1.5 * value, atol=1e-12)
    np.testing.assert_allclose(gradient, mf.SpecialOrthogonal().project(q, A), atol=1e-12)
    c = mf.PositiveDefinite().random_point(_rng, (3, 3))
    log_det = lambda c: np.linalg.slogdet(c)[1]
    flat = bs.laplacian(log_det)(bs.on(mf.PositiveDefinite(), c))
    np.testing.assert_allclose(flat, 0, atol=1e-12)
    square = bs.laplacian(lambda c: log_det(c) ** 2)(bs.on(mf.PositiveDefinite(), c))
    np.testing.assert_allclose(square, 2 * 3, atol=1e-11)  # 2 |grad log det|²
    both = {"x": bs.on(mf.Sphere(), x), "b": np.ones(2)}
    found = bs.laplacian(lambda p: (p["x"][0] ** 2 - 0.25) * p["b"][0] + p["b"][1] ** 2)(both)
    np.testing.assert_allclose(found, -8 * (x[0] ** 2 - 0.25) + 2, atol=1e-12)


def test_what_has_no_meaning_on_a_manifold_says_so() -> None:
    point = bs.on(mf.Sphere(), unit())
    with pytest.raises(UnsupportedError, match="derivatives of a curve on the manifold"):
        bs.jet(quadratic, (point,), [[point.x]])
    with pytest.raises(UnsupportedError, match="coordinates=True"):
        bs.hessian_diagonal(quadratic)(point)
    with pytest.raises(UnsupportedError, match="rounding is of arrays"):
        bs.rounding(quadratic, point)
