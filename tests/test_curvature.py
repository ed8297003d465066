"""Hessians, Gauss–Newton and Fisher matrices as operators; gradients of examples and their norms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve.errors import (
    ConvergenceError,
    NotScalarError,
    ShapeError,
    StructureError,
    UnsupportedError,
)
from backsolve.hooks import hooks
from backsolve.solve import taps

from .test_laplacian import Widest

RNG = np.random.default_rng(0)
P = {"w": RNG.normal(size=(3, 4)), "b": RNG.normal(size=3)}
V = {"w": RNG.normal(size=(3, 4)), "b": RNG.normal(size=3)}
X, Y = RNG.normal(size=(6, 4)), np.eye(3)[RNG.integers(0, 3, 6)]


def model(p: Any, x: Any) -> Any:
    return 2 * np.tanh(x @ p["w"].T + p["b"])


def loss(z: Any, y: Any) -> Any:
    return -np.sum(y * (z - np.log(np.sum(np.exp(z), axis=-1, keepdims=True))))


def curved(x: Any) -> Any:
    return np.sum(np.exp(x)) + x[0] * x[1]


def dense_gauss_newton() -> Any:
    jacobian = bs.jacobian(model)(P, X)
    leaves = bs.tree.flatten(jacobian)[0]
    J = np.concatenate([np.reshape(j, (18, -1)) for j in leaves], axis=1)
    H = bs.hessian(lambda z: loss(z.reshape(6, 3), Y))(model(P, X).reshape(-1))
    return J.T @ H @ J


def flat(p: Any) -> Any:
    return np.concatenate([np.reshape(x, -1) for x in bs.tree.flatten(p)[0]])


def test_hessian_operator() -> None:
    x, v = RNG.normal(size=5), RNG.normal(size=5)
    H, dense = bs.hessian_operator(curved)(x), bs.hessian(curved)(x)
    np.testing.assert_allclose(H @ v, dense @ v, rtol=1e-12)
    np.testing.assert_allclose(H.dense(), dense, rtol=1e-12)
    np.testing.assert_allclose(H.diagonal(), np.diagonal(dense), rtol=1e-12)
    np.testing.assert_allclose(H.trace(), np.trace(dense), rtol=1e-12)
    np.testing.assert_allclose(bs.backslash(H, v), np.linalg.solve(dense, v), rtol=1e-9)
    np.testing.assert_allclose(
        bs.hessian_operator(lambda x: np.sum(np.exp(x)))(x).solve(v), v / np.exp(x), rtol=1e-7
    )
    assert H.T is H
    assert repr(H) == "Hessian(5 × 5)"
    times = lambda x: bs.hessian_operator(curved)(x) @ v
    np.testing.assert_allclose(bs.jit(times)(x), dense @ v, rtol=1e-12)
    np.testing.assert_allclose(
        bs.grad(lambda x: np.sum(times(x)))(x),
        bs.grad(lambda x: np.sum(bs.hessian(curved)(x) @ v))(x),
        rtol=1e-10,
    )


def test_the_function_is_not_run_again_for_another_vector() -> None:
    runs = 0

    def f(x: Any) -> Any:
        nonlocal runs
        runs += 1
        return curved(x)

    H = bs.hessian_operator(f)(np.ones(4))
    for v in np.eye(4):
        H @ v
    assert runs == 1


def test_gauss_newton_and_fisher() -> None:
    G, dense = bs.gauss_newton(model, loss)(P, X, target=Y), dense_gauss_newton()
    np.testing.assert_allclose(G.dense(), dense, atol=1e-12)
    np.testing.assert_allclose(flat(G @ V), dense @ flat(V), atol=1e-12)
    np.testing.assert_allclose(flat(G.diagonal()), np.diagonal(dense), atol=1e-12)
    solved = G.solve(V, damping=0.1)
    np.testing.assert_allclose(flat(G @ solved) + 0.1 * flat(solved), flat(V), atol=1e-7)
    # the softmax's log-likelihood is of natural parameters: Fisher's matrix is Gauss–Newton's
    np.testing.assert_allclose(bs.fisher(model)(P, X).dense(), dense, atol=1e-12)
    inside = bs.jit(lambda p, v: bs.gauss_newton(model, loss)(p, X, target=Y) @ v)
    np.testing.assert_allclose(flat(inside(P, V)), dense @ flat(V), atol=1e-12)


@pytest.mark.parametrize("family", ["bernoulli", "poisson", "normal"])
def test_families(family: str) -> None:
    variance = {
        "bernoulli": lambda z: 1 / (2 + np.exp(z) + np.exp(-z)),
        "poisson": np.exp,
        "normal": np.ones_like,
    }[family]
    J = bs.jacobian(lambda w: X @ w)(np.ones(4))
    F = bs.fisher(lambda w: X @ w, family)(np.ones(4))
    np.testing.assert_allclose(F.dense(), J.T @ (variance(X @ np.ones(4))[:, None] * J), rtol=1e-9)


def test_a_product_forms_no_matrix() -> None:
    n = 400
    seen = Widest()
    hooks.add(seen)
    try:
        x = RNG.normal(size=n)
        bs.hessian_operator(lambda x: np.sum(np.exp(x)) ** 2)(x) @ x
        bs.fisher(lambda w: np.sin(w) * x, "normal")(x) @ x
    finally:
        hooks.remove(seen)
    assert seen.size <= n  # n × n would be formed by `dense`


def of_vector(p: Any, x: Any, y: Any) -> Any:
    return np.sum((np.tanh(p["w"] @ x + p["b"]) - y) ** 2)


def of_sequence(p: Any, x: Any, y: Any) -> Any:
    return np.sum((np.tanh(x @ p["w"].T + p["b"]).mean(0) - y) ** 2)


def shared(p: Any, x: Any, y: Any) -> Any:
    return of_vector(p, x, y) + np.sum(p["w"] ** 2)  # W is read twice: no single outer product


CASES = {"vector": (of_vector, X), "sequence": (of_sequence, RNG.normal(size=(6, 5, 4)))}
CASES["shared"] = (shared, X)


@pytest.mark.parametrize("name", sorted(CASES))
def test_gradients_of_examples_and_their_norms(name: str) -> None:
    f, xs = CASES[name]
    found = bs.per_sample_grad(f)(P, xs, Y)
    for k in range(6):
        single = bs.grad(f)(P, xs[k], Y[k])
        for key in P:
            np.testing.assert_allclose(found[key][k], single[key], atol=1e-12)
    squares = sum(np.sum(np.reshape(g, (6, -1)) ** 2, axis=1) for g in found.values())
    norms = bs.per_sample_norms(f, squared=True)
    np.testing.assert_allclose(norms(P, xs, Y), squares, rtol=1e-10)
    np.testing.assert_allclose(bs.jit(norms)(P, xs, Y), squares, rtol=1e-10)
    np.testing.assert_allclose(bs.per_sample_norms(f)(P, xs, Y), np.sqrt(squares), rtol=1e-10)


def test_norms_form_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = {"w": RNG.normal(size=(30, 40)), "b": np.zeros(30)}
    xs, ys = RNG.normal(size=(6, 40)), np.zeros((6, 30))
    seen = Widest()
    hooks.add(seen)
    try:
        bs.per_sample_norms(of_vector)(wide, xs, ys)
    finally:
        hooks.remove(seen)
    assert seen.size <= 6 * 40  # one gradient has 1200 numbers, six of them 7200
    with monkeypatch.context() as patch:
        patch.setattr(taps, "_labels", lambda e, leaf_of: None)
        hooks.add(seen)
        try:
            bs.per_sample_norms(of_vector)(wide, xs, ys)
        finally:
            hooks.remove(seen)
    assert seen.size >= 6 * 30 * 40  # without taps they are formed


def test_bad_input() -> None:
    H = bs.hessian_operator(curved)(np.ones(3))
    with pytest.raises(ShapeError, match="form of the parameters"):
        H @ np.ones(4)
    with pytest.raises(StructureError, match="one argument"):
        bs.hessian_operator(curved, argnums=(0, 1))
    with pytest.raises(ValueError, match="categorical"):
        bs.fisher(model, "gamma")
    with pytest.raises(StructureError, match="examples"):
        bs.per_sample_grad(of_vector)(P)
    with pytest.raises(StructureError, match="2 arguments"):
        bs.per_sample_grad(of_vector, in_axes=(0,))(P, X, Y)
    with pytest.raises(NotScalarError, match="one number"):
        bs.per_sample_norms(lambda p, x: p["w"] @ x)(P, X)


def test_norms_of_single_examples_refuse_a_manifold():
    w = bs.on(bs.manifolds.Sphere(), np.array([1.0, 0.0]))
    with pytest.raises(UnsupportedError, match="per_sample_grad"):
        bs.per_sample_norms(lambda w, x: np.sum(w * x))(w, np.ones((3, 2)))


def _branching(x: Any, depth: Any) -> Any:
    if depth <= 0:
        return np.sin(x)
    return _branching(x * 0.5, depth - 1) * _branching(x + 0.1, depth - 1)


def _branched(x: Any, depth: Any) -> Any:
    return np.sum(_branching(x, depth) ** 2)


@pytest.mark.parametrize(
    "way",
    [
        lambda x, d: bs.hessian_operator(_branched)(x, d) @ np.ones(2),
        lambda x, d: bs.hessian_operator(_branched)(x, d).diagonal(),
        lambda x, d: bs.laplacian(_branched)(x, d),
        lambda x, d: bs.gauss_newton(_branching, lambda z: np.sum(z**2))(x, d) @ np.ones(2),
        lambda x, d: bs.fisher(_branching, "poisson")(x, d).diagonal(),
    ],
    ids=["hessian", "its diagonal", "laplacian", "gauss_newton", "fisher"],
)
def test_recursion_to_a_depth_that_is_known_when_it_runs(way: Any) -> None:
    x, compiled = np.array([0.3, 0.7]), bs.jit(way)
    for depth in (0, 1, 3):
        np.testing.assert_allclose(compiled(x, depth), way(x, depth), rtol=1e-10)
    (made,) = compiled.stats()["specialisations"]
    assert made["native"]


def test_no_examples_have_no_curvature() -> None:
    """An empty batch gives zeros of the right forms, not an error of a shape that cannot be told."""
    x = np.zeros((0, 4))
    deep = lambda p: np.sum(np.sin(model(p, x)) * np.tanh(x @ p["w"].T))
    zeros = bs.tree.map(np.zeros_like, P)
    found = [bs.hessian_diagonal(deep)(P)]
    for loss in (lambda z: 0.5 * np.sum(z * z), lambda z: np.sum(np.sin(z))):
        G = bs.gauss_newton(lambda p: model(p, x), loss)(P)
        found += [G.diagonal(), G @ V]
        assert G.trace() == 0
    for each in found:
        assert each.keys() == P.keys()
        for name in P:
            np.testing.assert_array_equal(each[name], zeros[name])


INDEFINITE = {
    "a saddle": lambda x: x[0] * x[1],
    "another": lambda x: x[0] ** 2 - x[1] ** 2,
    "no solution": lambda x: x[0] ** 2 + 0 * x[1],
}


@pytest.mark.parametrize("name", INDEFINITE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_system_that_conjugate_gradients_do_not_solve_is_an_error(name: str, dtype: Any) -> None:
    f, b = INDEFINITE[name], np.array([1.0, 1.5], dtype)

    def solved(x: Any, b: Any) -> Any:
        return bs.hessian_operator(f)(x).solve(b)

    with pytest.raises(ConvergenceError, match="positive definite"):
        solved(np.ones(2, dtype), b)
    with pytest.raises(ArithmeticError, match="positive definite"):
        bs.jit(solved)(np.ones(2, dtype), b)


def test_few_rounds_are_an_error_and_damping_helps() -> None:
    x, b = np.linspace(0.0, 5.0, 20), np.ones(20)
    H = bs.hessian_operator(lambda x: np.sum(np.exp(x)))(x)
    with pytest.raises(ConvergenceError, match="more rounds"):
        H.solve(b, most=3)
    np.testing.assert_allclose(H.solve(b), np.exp(-x), rtol=1e-8)
    saddle = bs.hessian_operator(lambda x: x[0] * x[1])(np.ones(2))
    np.testing.assert_allclose(saddle.solve(np.ones(2), damping=2.0), 1 / 3)
    slope = bs.grad(lambda b: np.sum(saddle.solve(b, damping=2.0)))(np.ones(2))
    np.testing.assert_allclose(slope, 1 / 3)


@pytest.mark.parametrize("coordinates", [False, True])
def test_diagonals_on_manifolds_are_of_tangents(coordinates: bool) -> None:
    point = bs.on(bs.manifolds.Sphere(), np.array([0.6, 0.0, 0.8]), coordinates=coordinates)
    at = {"r": point, "w": np.ones(2)}
    G = bs.gauss_newton(
        lambda p: np.tanh(X[:, :3] @ p["r"]) * np.sum(p["w"]), lambda z: np.sum(np.cosh(z))
    )(at)
    found, D = G.diagonal(), G.dense()
    assert type(found["r"]) is np.ndarray
    np.testing.assert_allclose(flat(found), np.diagonal(D), rtol=1e-10)
    np.testing.assert_allclose(G.trace(), np.trace(D), rtol=1e-10)
