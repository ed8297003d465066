"""Rules that evaluate the function themselves: on Rosenbrock's valley, NIST's fits, a classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nist import FITS

import backsolve as bs
from backsolve import optim
from backsolve.optim.line_search import C1, C2, Point, strong_wolfe

COMPILED = pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])


def rosenbrock(p: Any) -> Any:
    x = np.concatenate([p["a"], p["b"]])
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


START = {"a": np.array([-1.2, 1.0, -1.2]), "b": np.array([1.0, -1.2, 1.0])}


@COMPILED
def test_lbfgs_walks_down_the_valley(compile: Any) -> None:
    solver = optim.LBFGS(history_size=6)
    found, state = compile(lambda p: solver.minimize(rosenbrock, p, 300, 1e-9))(START)
    np.testing.assert_allclose(found["a"], 1, atol=1e-8)
    np.testing.assert_allclose(found["b"], 1, atol=1e-8)
    assert state.error <= 1e-9
    assert state.evaluations < 150  # SciPy's takes about as many


def test_lbfgs_step_by_step_and_in_single_precision() -> None:
    start = {k: v.astype(np.float32) for k, v in START.items()}
    solver = optim.LBFGS(history_size=4)
    step = bs.jit(lambda p, s: solver.update(rosenbrock, p, s))
    p, state = start, solver.init(rosenbrock, start)
    values = [float(state.value)]
    for _ in range(60):
        p, state = step(p, state)
        values.append(float(state.value))
    assert values == sorted(values, reverse=True)
    assert values[-1] < 1e-6
    assert p["a"].dtype == state.steps.dtype == np.float32


def test_lbfgs_solves_a_quadratic_in_as_many_steps_as_it_remembers() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(5, 5))
    A, b = A @ A.T + np.eye(5), rng.normal(size=5)
    found, state = optim.LBFGS(history_size=10).minimize(
        lambda x: 0.5 * x @ A @ x - b @ x, np.zeros(5), tolerance=1e-9
    )
    np.testing.assert_allclose(found, np.linalg.solve(A, b), atol=1e-8)
    assert state.count <= 20


def test_lbfgs_ends_where_nothing_is_lower_and_where_f_is_no_number() -> None:
    walled = lambda x: np.sum(x) + np.where(np.all(x == 1), 0, 10)
    found, state = optim.LBFGS().minimize(walled, np.ones(2))
    assert state.is_stuck
    assert state.count == 1
    np.testing.assert_array_equal(found, 1)
    with np.errstate(invalid="ignore"):
        found, _ = optim.LBFGS().minimize(lambda x: np.sum(x - np.log(x)), np.array([9.0, 0.05]))
    np.testing.assert_allclose(found, 1, rtol=1e-5)  # steps beyond 0 were taken back


@pytest.mark.parametrize("first", [1e-3, 0.4, 2.0, 40.0])
@pytest.mark.parametrize(
    "phi",
    [
        lambda t: -t / (t * t + 2),  # the hard ones of Moré and Thuente
        lambda t: (t + 0.004) ** 5 - 2 * (t + 0.004) ** 4,
        lambda t: np.cos(3 * t) - t / 5 + np.exp(t / 8),
    ],
)
def test_steps_fulfil_the_strong_conditions_of_wolfe(phi: Any, first: float) -> None:
    def along(t: Any) -> Point:
        value, slope = bs.value_and_grad(phi)(t)
        return Point(t, value, slope, np.asarray(slope)[None])

    start = along(np.float64(0.0))
    found, _ = strong_wolfe(along, start, np.float64(first))
    assert found.t > 0
    assert found.value <= start.value + C1 * found.t * start.slope
    assert abs(found.slope) <= C2 * abs(start.slope)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("name", FITS)
def test_levenberg_marquardt_finds_certified_values(name: str, number: int) -> None:
    fit = FITS[name]
    start = np.array(fit.starts[number])
    found, state = optim.LevenbergMarquardt().minimize(fit.residuals, start, tolerance=1e-10)
    np.testing.assert_allclose(found, fit.certified, rtol=1e-7)
    np.testing.assert_allclose(2 * state.value, fit.squares, rtol=1e-9)


def test_levenberg_marquardt_compiled() -> None:
    fit = FITS["Misra1a"]
    solver = optim.LevenbergMarquardt()
    run = bs.jit(lambda b: solver.minimize(fit.residuals, b, tolerance=1e-9))
    found, state = run(np.array(fit.starts[0]))
    np.testing.assert_allclose(found, fit.certified, rtol=1e-8)
    assert state.count < 30


def test_gauss_newton_finds_certified_values_from_near() -> None:
    fit = FITS["Misra1a"]
    found, state = optim.GaussNewton().minimize(
        fit.residuals, np.array(fit.starts[1]), tolerance=1e-9
    )
    np.testing.assert_allclose(found, fit.certified, rtol=1e-9)
    assert state.count < 10


@COMPILED
def test_least_squares_by_operators_is_as_dense(compile: Any) -> None:
    rng = np.random.default_rng(1)
    A, b = rng.normal(size=(30, 6)), rng.normal(size=30)
    f = lambda p: (A @ np.concatenate([p["u"], np.sinh(p["v"])]) - b, 0.1 * p["u"])
    start = {"u": np.zeros(2), "v": np.zeros(4)}
    ends = [
        compile(lambda p, m=m: optim.LevenbergMarquardt(method=m).minimize(f, p, tolerance=1e-9))(start)
        for m in ("dense", "cg")
    ]  # fmt: skip
    tall = np.concatenate([A, np.concatenate([0.1 * np.eye(2), np.zeros((2, 4))], 1)])
    expected = np.linalg.lstsq(tall, np.concatenate([b, np.zeros(2)]))[0]
    for found, _ in ends:
        np.testing.assert_allclose(found["u"], expected[:2], atol=1e-7)
        np.testing.assert_allclose(np.sinh(found["v"]), expected[2:], atol=1e-7)


_rng = np.random.default_rng(3)
X = np.concatenate([_rng.normal(size=(60, 4)), np.ones((60, 1))], axis=1)
LABELS = np.argmax(X @ _rng.normal(size=(5, 3)) + _rng.gumbel(size=(60, 3)), axis=1)


@COMPILED
@pytest.mark.parametrize("method", ["dense", "cg"])
def test_natural_gradient_of_a_classifier_is_newtons_method(compile: Any, method: str) -> None:
    loss = lambda z: bs.nn.functional.cross_entropy(z, LABELS)
    solver = optim.NaturalGradient(loss, damping=1e-6, method=method, cg_tolerance=1e-10)
    logits = lambda w: X @ np.concatenate([w, np.zeros((5, 1))], axis=1)
    found, state = compile(lambda w: solver.minimize(logits, w, 20, 1e-8))(np.zeros((5, 2)))
    assert state.error <= 1e-8
    assert state.count <= 9
    np.testing.assert_allclose(bs.grad(lambda w: loss(logits(w)))(found), 0, atol=1e-7)


def test_natural_gradient_does_not_depend_on_the_parametrisation() -> None:
    loss = lambda z: bs.nn.functional.cross_entropy(z, LABELS)
    M = _rng.normal(size=(5, 5)) + 3 * np.eye(5)
    step = lambda f, w: (s := optim.NaturalGradient(loss, method="dense")).update(
        f, w, s.init(f, w)
    )[0]
    logits = lambda w: X @ np.concatenate([w, np.zeros((5, 1))], axis=1)
    w = 0.1 * _rng.normal(size=(5, 2))
    other = M @ step(lambda v: logits(M @ v), np.linalg.solve(M, w))
    np.testing.assert_allclose(step(logits, w), other, rtol=1e-8)


def test_conjugate_gradients() -> None:
    A = _rng.normal(size=(8, 8))
    A, b = A @ A.T + np.eye(8), _rng.normal(size=8)
    for run in (optim.conjugate_gradients, bs.jit(optim.conjugate_gradients, static_argnums=0)):
        np.testing.assert_allclose(run(lambda v: A @ v, b), np.linalg.solve(A, b), rtol=1e-6)
    np.testing.assert_array_equal(optim.conjugate_gradients(lambda v: v, np.zeros(3)), 0)
    np.testing.assert_array_equal(optim.conjugate_gradients(lambda v: -v, np.ones(3)), 0)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match='"auto", "dense" or "cg"'):
        optim.LevenbergMarquardt(method="lu")
    with pytest.raises(ValueError, match='"cg" or "kfac", got \'foo\''):
        optim.NaturalGradient(np.sum, method="foo")
    with pytest.raises(TypeError, match="takes a function, got 'mse'"):
        optim.NaturalGradient("mse")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="from 0 to 1, got 2"):
        optim.NaturalGradient(np.sum, method="kfac", decay=2.0)
    with pytest.raises(TypeError, match="real parameters"):
        optim.LBFGS().minimize(lambda x: np.sum(np.abs(x) ** 2), np.ones(2, complex))


def test_a_natural_step_gives_arrays() -> None:
    x = np.linspace(-1, 1, 8)
    rule = optim.NaturalGradient(lambda z: np.sum(z * z))
    f = lambda p: np.tanh(p[0] + p[1] * x)
    found, _ = rule.update(f, np.ones(2), rule.init(f, np.ones(2)))
    assert type(found) is np.ndarray


@pytest.mark.parametrize("method", ["dense", "cg"])
@pytest.mark.parametrize("solver", [optim.LevenbergMarquardt, optim.GaussNewton])
def test_moduli_of_complex_residuals_are_lowered(solver, method):
    t = np.linspace(0, 10, 40)
    turn = lambda w: np.exp(1j * w * t) - np.exp(0.3j * t)
    found, state = solver(method=method).minimize(turn, np.array([0.29]))
    np.testing.assert_allclose(found, 0.3, rtol=1e-6)
    assert state.value < 1e-12
