"""Optimisers against PyTorch's, eager and compiled; what wraps them; the others by what they promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optimiser_cases import DATA, RATE, SCHEDULES, SETTINGS, START, STEPS, A, B, name_of

import backsolve as bs
from backsolve import optim
from backsolve.errors import ShapeError, StructureError


@pytest.fixture(scope="module")
def pytorch() -> dict[str, Any]:
    with np.load(DATA) as kept:
        return dict(kept)


def loss(p: Any) -> Any:
    return np.sum((A @ p["w"] - B) ** 2) + np.sum(np.sin(p["v"]))


def path(optimiser: optim.Optimizer, compile: Any, steps: int = STEPS, start: Any = START) -> Any:
    step = compile(lambda p, s: optimiser.update(p, bs.grad(loss)(p), s))
    p, state = dict(start), optimiser.init(start)
    found = []
    for _ in range(steps):
        p, state = step(p, state)
        found.append(np.concatenate([p["w"].ravel(), p["v"]]))
    return np.stack(found)


@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=[name_of(n, s) for n, s in SETTINGS])
def test_the_way_of_pytorch(name: str, settings: Any, compile: Any, pytorch: Any) -> None:
    found = path(getattr(optim, name)(**settings), compile)
    # PyTorch keeps a product of NAdam's in single precision
    tolerance = 1e-7 if name == "NAdam" else 1e-12
    np.testing.assert_allclose(found, pytorch[name_of(name, settings)], atol=tolerance)


@pytest.mark.parametrize(("name", "theirs", "arguments", "_"), SCHEDULES, ids=lambda x: str(x)[:12])
def test_the_rates_of_pytorch(name: str, theirs: str, arguments: Any, _: Any, pytorch: Any) -> None:
    rate = getattr(optim.schedules, name)(RATE, *arguments)
    expected = pytorch[name]
    np.testing.assert_allclose([rate(t) for t in range(20)], expected, atol=1e-12)
    compiled = bs.jit(lambda t: rate(t))
    np.testing.assert_allclose([compiled(np.int64(t)) for t in range(20)], expected, atol=1e-12)


def test_a_schedule_is_a_rate() -> None:
    moving = optim.SGD(lr=optim.schedules.exponential(0.01, 0.5))
    expected, p = [], dict(START)
    for t in range(3):
        g = bs.grad(loss)(p)
        p = {k: p[k] - 0.01 * 0.5**t * g[k] for k in p}
        expected.append(np.concatenate([p["w"].ravel(), p["v"]]))
    np.testing.assert_allclose(path(moving, bs.jit, 3), expected)


@pytest.mark.parametrize(
    "optimiser",
    [
        optim.Lion(lr=0.03, weight_decay=0.1),
        optim.LAMB(lr=0.02),
        optim.Muon(lr=0.05, weight_decay=0.0, adamw_lr=0.05),
        optim.Shampoo(lr=0.3, momentum=0.5),
        optim.Clipped(optim.SGD(lr=0.1), 1.0),
        optim.Accumulated(optim.Adam(lr=0.1), 2),
        optim.Groups({"w": optim.SGD(lr=0.02), "*": optim.Adam(lr=0.05)}),
    ],
    ids=lambda o: type(o).__name__,
)
def test_the_loss_falls_and_compiled_is_as_eager(optimiser: Any) -> None:
    eager, compiled = path(optimiser, lambda f: f, 40), path(optimiser, bs.jit, 40)
    np.testing.assert_allclose(eager, compiled, atol=1e-9)
    end = {"w": eager[-1][:12].reshape(4, 3), "v": eager[-1][12:]}
    best = np.sum((A @ np.linalg.lstsq(A, B)[0] - B) ** 2) - 2
    assert loss(end) - best < 0.35 * (loss(START) - best)


def test_muon_makes_steps_nearly_orthogonal() -> None:
    step = optim.Muon()._orthogonal(np.random.default_rng(0).normal(size=(5, 9)))
    values = np.linalg.svd(step, compute_uv=False)
    assert (values > 0.6).all()
    assert (values < 1.3).all()


def test_shampoo_of_a_vector_is_full_matrix_adagrad() -> None:
    optimiser = optim.Shampoo(lr=1.0, eps=1e-3)
    p, g = np.zeros(3), np.array([1.0, 2.0, -1.0])
    new, _ = optimiser.update(p, g, optimiser.init(p))
    values, vectors = np.linalg.eigh(1e-3 * np.eye(3) + np.outer(g, g))
    np.testing.assert_allclose(new, -(vectors / np.sqrt(values)) @ vectors.T @ g)


def test_accumulated_steps_once_for_the_mean() -> None:
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(4, 3))
    rule = optim.SGD(lr=1.0)
    several = optim.Accumulated(rule, 4)
    p, state = np.zeros(3), several.init(np.zeros(3))
    for k, g in enumerate(gradients):
        np.testing.assert_array_equal(p, 0)
        p, state = several.update(p, g, state)
        assert k < 3 or np.allclose(p, -gradients.mean(0))
    np.testing.assert_array_equal(state["sum"], 0)


def test_clipping() -> None:
    g = {"a": np.array([3.0, 0.0]), "b": np.array([4.0])}
    clipped, norm = optim.clip_grad_norm(g, 1.0)
    np.testing.assert_allclose(norm, 5.0)
    np.testing.assert_allclose(np.hypot(clipped["a"][0], clipped["b"][0]), 1.0, rtol=1e-6)
    same, _ = optim.clip_grad_norm(g, 10.0)
    np.testing.assert_array_equal(same["a"], g["a"])
    _, largest = optim.clip_grad_norm(g, 1.0, np.inf)
    assert largest == 4.0
    np.testing.assert_array_equal(optim.clip_grad_value(g, 2.0)["b"], [2.0])


def test_an_average_follows_slowly() -> None:
    ema = optim.Average(0.9)
    average = ema.init({"a": np.zeros(2)})
    for _ in range(3):
        average = ema.update(average, {"a": np.ones(2)})
    np.testing.assert_allclose(average["a"], 1 - 0.9**3)


def test_no_rule_and_no_form() -> None:
    with pytest.raises(ValueError, match="no rule fits"):
        optim.Groups({"w": optim.SGD()}).init(START)
    with pytest.raises(StructureError, match="one form"):
        optim.SGD().update(START, {"w": START["w"]}, optim.SGD().init(START))
    with pytest.raises(ShapeError, match="does not fit its parameter"):
        optim.SGD().update(START["v"], np.ones((3, 2)), optim.SGD().init(START["v"]))
    with pytest.raises(StructureError, match="floating-point"):
        optim.SGD().init({"n": np.arange(3)})
    with pytest.raises(ValueError, match="Nesterov"):
        optim.SGD(nesterov=True)


def test_single_precision_stays_single() -> None:
    p = {"x": np.ones(3, np.float32)}
    rate = optim.schedules.cosine(0.1, 10)
    rules = [
        optim.Adam,
        optim.SGD,
        optim.NAdam,
        optim.RAdam,
        optim.Adafactor,
        optim.LAMB,
        optim.Muon,
    ]
    for rule in [*rules, optim.Adagrad, optim.Adamax, optim.Lion, optim.Shampoo]:
        optimiser = rule(lr=rate)
        new, state = bs.jit(optimiser.update)(p, p, optimiser.init(p))
        assert new["x"].dtype == np.float32, rule
        kept = [a.dtype for k, a in state.slots[0].items() if k != "mu_product"]
        assert all(d == np.float32 for d in kept), rule


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "RiemannianSGD"])
def test_rates_that_are_none_are_refused(name):
    rule = getattr(optim, name)
    for rate in (bs.nn.Linear(1, 1), "0.1", np.ones(2), {"w": np.ones(2)}):
        with pytest.raises(TypeError, match=r"lr of .* is a number or a schedule.*rule\.init"):
            rule(lr=rate)
    for rate in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="must be 0 or more"):
            rule(lr=rate)
    assert rule(lr=np.float32(0.1)).lr == np.float32(0.1)
    assert rule(lr=lambda count: 0.1).rate(1) == 0.1
    step = bs.jit(lambda rate, p: rule(lr=rate).update(p, p, rule(lr=rate).init(p))[0])
    assert step(0.5, np.array([0.6, 0.8])).shape == (2,)
