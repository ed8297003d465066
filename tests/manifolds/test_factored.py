"""Matrices of low rank by their factors, beside pymanopt and beside whole matrices."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import manifolds as mf
from backsolve import nn, optim
from backsolve.errors import ShapeError

REFERENCES = dict(np.load(Path(__file__).with_name("pymanopt.npz")))
LOW, WHOLE = mf.LowRank(5, 4, 2), mf.FixedRank(2)
_rng = np.random.default_rng(9)


def point(name: str) -> Any:
    s = np.diag(REFERENCES[f"LowRank {name} s"])
    return LOW.packed(REFERENCES[f"LowRank {name} U"], s, REFERENCES[f"LowRank {name} V"])


def tangent(name: str) -> Any:
    return LOW.packed(*(REFERENCES[f"LowRank {name} {part}"] for part in "AMB"))


def whole(x: Any, u: Any, manifold: mf.LowRank = LOW) -> Any:
    """The matrix that a tangent stands for."""
    (U, _, V), (A, M, B) = manifold.factors(x), manifold.factors(u)
    return A @ V.T + U @ B.T + U @ M @ V.T


def test_beside_pymanopt() -> None:
    x, y, u, v = point("x"), point("y"), tangent("u"), tangent("v")
    np.testing.assert_allclose(LOW.project(x, u), u, atol=1e-13)
    np.testing.assert_allclose(
        LOW.matrix(LOW.retract(x, u)).dense(), LOW.matrix(y).dense(), atol=1e-12
    )
    np.testing.assert_allclose(LOW.transport(x, y, v), tangent("carried"), atol=1e-12)
    np.testing.assert_allclose(np.sum(LOW.inner(x, u, v)), REFERENCES["LowRank inner"], atol=1e-12)
    assert LOW.dimension(x.shape) == REFERENCES["FixedRank dimension"]


def test_beside_whole_matrices() -> None:
    x = LOW.random_point(_rng)
    X = LOW.matrix(x).dense()
    a, b = _rng.normal(size=(3, 5)), _rng.normal(size=(4, 2))
    f = lambda X: np.sum(np.sin(a @ (X @ b)))
    g = lambda x: f(LOW.matrix(x))
    G = bs.grad(f)(bs.on(WHOLE, X))
    for make in (bs.grad, lambda f: bs.jit(bs.grad(f))):
        np.testing.assert_allclose(whole(x, make(g)(bs.on(LOW, x))), G, atol=1e-12)
    u, v = LOW.random_tangent(_rng, x), LOW.random_tangent(_rng, x)
    np.testing.assert_allclose(np.sum(u * v), np.sum(whole(x, u) * whole(x, v)), atol=1e-12)
    np.testing.assert_allclose(bs.jvp(g, (bs.on(LOW, x),), (u,))[1], np.sum(G * whole(x, u)))
    moved = LOW.matrix(LOW.retract(x, u)).dense()
    np.testing.assert_allclose(moved, WHOLE.retract(X, whole(x, u)), atol=1e-12)
    # the same matrix by other factors: gradients are of the matrix, not of them
    turn = np.linalg.qr(_rng.normal(size=(2, 2)))[0]
    U, S, V = LOW.factors(x)
    other = LOW.packed(U @ turn, turn.T @ S, V)
    np.testing.assert_allclose(whole(other, bs.grad(g)(bs.on(LOW, other))), G, atol=1e-12)
    y = LOW.random_point(_rng)
    nearest = WHOLE.project(X, LOW.matrix(y).dense() - X)
    np.testing.assert_allclose(whole(x, LOW.toward(x, y)), nearest, atol=1e-12)


def test_hessians_beside_whole_matrices() -> None:
    x = LOW.random_point(_rng)
    X = LOW.matrix(x).dense()
    a, b = _rng.normal(size=(3, 5)), _rng.normal(size=(4, 2))
    f = lambda X: np.sum(np.sin(a @ (X @ b)))
    g = lambda x: f(LOW.matrix(x))
    u = LOW.random_tangent(_rng, x)
    expected = bs.hvp(f)(bs.on(WHOLE, X), whole(x, u))
    ways = [
        bs.hvp(g)(bs.on(LOW, x), u),
        bs.jit(lambda x, u: bs.hvp(g)(bs.on(LOW, x), u))(x, u),
        bs.hessian_operator(g)(bs.on(LOW, x)) @ u,
        np.tensordot(bs.hessian(g)(bs.on(LOW, x)), u),
    ]
    for found in ways:
        np.testing.assert_allclose(LOW.project(x, found), found, atol=1e-12)
        np.testing.assert_allclose(whole(x, found), expected, atol=1e-12)
    np.testing.assert_allclose(
        bs.laplacian(g)(bs.on(LOW, x)), bs.laplacian(f)(bs.on(WHOLE, X)), atol=1e-11
    )
    # by differences of the gradient along a curve, as tangents at x
    h = 1e-5
    ends = [LOW.retract(x, t * u) for t in (-h, h)]
    back, ahead = (LOW.transport(y, x, bs.grad(g)(bs.on(LOW, y))) for y in ends)
    np.testing.assert_allclose((ahead - back) / (2 * h), ways[0], atol=1e-6)


def test_a_hessian_makes_no_whole_matrix() -> None:
    manifold = mf.LowRank(3000, 2000, 2)
    x = manifold.random_point(_rng)
    i, j = _rng.integers(0, 2000, size=(2, 500))
    f = lambda x: np.sum(manifold.matrix(x)[i, j] ** 2)
    u = manifold.random_tangent(_rng, x)
    bs.hvp(f)(bs.on(manifold, x), u)
    tracemalloc.start()
    bs.hvp(f)(bs.on(manifold, x), u)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 3000 * 2000 * 8 / 4


def test_products_and_entries() -> None:
    x = LOW.random_point(_rng)
    X, W = LOW.matrix(x).dense(), LOW.matrix(x)
    np.testing.assert_allclose(W.T @ np.ones(5), X.T @ np.ones(5), atol=1e-13)
    np.testing.assert_allclose(np.ones((2, 5)) @ W, np.ones((2, 5)) @ X, atol=1e-13)
    i, j = np.array([0, 4, 4]), np.array([3, 0, 3])
    np.testing.assert_allclose(W[i, j], X[i, j], atol=1e-13)
    slope = bs.grad(lambda a: np.sum(a @ W))(np.ones((2, 5)))
    np.testing.assert_allclose(slope, np.broadcast_to(X.sum(1), (2, 5)), atol=1e-13)


RULES: list[Any] = [
    optim.SGD(lr=0.05, momentum=0.5),
    optim.RiemannianAdam(lr=optim.schedules.exponential(2.0, 0.985)),
    optim.LBFGS(),
    optim.RiemannianCG(),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: type(r).__name__)
def test_completion(rule: Any) -> None:
    manifold = mf.LowRank(12, 10, 2)
    rng = np.random.default_rng(2)
    goal = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 10))
    seen = np.nonzero(rng.random((12, 10)) < 0.8)
    f = lambda x: np.sum((manifold.matrix(x)[seen] - goal[seen]) ** 2)
    p = start = bs.on(manifold, manifold.random_point(rng))
    if hasattr(rule, "minimize"):
        p, _ = rule.minimize(f, p, 500, 1e-8)
    else:
        state = rule.init(p)
        step = bs.jit(lambda p, s: rule.update(p, bs.grad(f)(p), s))
        for _ in range(600):
            p, state = step(p, state)
    assert f(p.x) < 1e-3 * f(start.x)
    if not isinstance(rule, optim.RiemannianAdam):
        np.testing.assert_allclose(manifold.matrix(p.x).dense(), goal, atol=1e-2)
    manifold.check(p.x)


def test_the_same_way_as_whole_matrices() -> None:
    """L-BFGS sees one geometry, whatever it is written in."""
    manifold = mf.LowRank(12, 10, 2)
    rng = np.random.default_rng(3)
    goal = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 10))
    x = manifold.random_point(rng)
    loss = lambda X: np.sum(np.cosh(X - goal))
    start = bs.on(manifold, x), bs.on(WHOLE, manifold.matrix(x).dense())
    functions = lambda x: loss(manifold.matrix(x).dense()), loss
    values = [
        [float(optim.LBFGS().minimize(f, p, steps)[1].value) for steps in (1, 3, 6)]
        for f, p in zip(functions, start, strict=True)
    ]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-6)
    assert values[0][-1] < 0.5 * values[0][0]


def test_no_whole_matrix_is_made() -> None:
    """20,000 × 10,000 entries would take 1.6 GB; the factors are half a megabyte."""
    manifold = mf.LowRank(20_000, 10_000, 2)
    rng = np.random.default_rng(0)
    x = manifold.random_point(rng)
    seen = rng.integers(0, 20_000, 5_000), rng.integers(0, 10_000, 5_000)
    f = lambda x: np.sum((manifold.matrix(x)[seen] - 1.0) ** 2)
    tracemalloc.start()
    try:
        _, state = optim.LBFGS(history_size=3).minimize(f, bs.on(manifold, x), 3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert state.value < 0.9 * f(x)
    assert peak < 60 * x.nbytes


class LowRankLayer(nn.Module):
    def __init__(self, manifold: mf.LowRank, rng: Any):
        self.manifold = manifold
        self.weight = bs.on(manifold, manifold.random_point(rng))

    def __call__(self, x: Any) -> Any:
        return x @ self.manifold.matrix(self.weight)


def test_a_layer_is_trained_by_fit() -> None:
    rng = np.random.default_rng(4)
    layer = LowRankLayer(mf.LowRank(8, 6, 2), rng)
    goal = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 6))
    x = rng.normal(size=(200, 8))
    loss = lambda output, target: np.mean((output - target) ** 2)
    done = bs.fit(
        layer, loss, (x, x @ goal), optimizer=optim.SGD(0.5, momentum=0.5), epochs=100, ema=0.5
    )
    layer.manifold.check(done.model.weight)
    found = layer.manifold.matrix(done.model.weight).dense()
    np.testing.assert_allclose(found, goal, atol=1e-4)


def test_errors() -> None:
    x = LOW.random_point(_rng)
    with pytest.raises(ShapeError, match=r"shape \(11, 2\), got \(5, 4\)"):
        bs.on(LOW, np.ones((5, 4)))
    with pytest.raises(ShapeError, match="no point"):
        bs.on(LOW, 2 * x)
    U, S, V = LOW.factors(x)
    with pytest.raises(ShapeError, match="lower rank"):
        bs.on(LOW, LOW.packed(U, S * np.array([1.0, 0.0]), V))
    with pytest.raises(ValueError, match="a rank is from 1"):
        mf.LowRank(2, 3, 3)
