"""Weights of modules that are declared on manifolds: containers, training, averages, checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import manifolds as mf
from backsolve import nn, optim
from backsolve.errors import StructureError
from backsolve.training import Checkpoints

_rng = np.random.default_rng(11)
DATA = _rng.normal(size=(60, 6)) * np.array([3.0, 2.0, 1.5, 1.0, 0.5, 0.2])
COVARIANCE = DATA.T @ DATA / 60


def squares(output: Any, target: Any) -> Any:
    return np.mean((output - target) ** 2)


def off(w: Any) -> float:
    return float(np.abs(w.T @ w - np.eye(w.shape[1])).max())


class Project(nn.Module):
    """The data projected onto the columns of a weight."""

    weight: Any

    def __call__(self, x: Any) -> Any:
        return x @ self.weight @ self.weight.T


def start(seed: int = 0) -> Project:
    rng = np.random.default_rng(seed)
    return Project(bs.on(mf.Stiefel(), mf.Stiefel().random_point(rng, (6, 2))))


def test_a_declared_weight_is_an_array_to_its_layer_and_varies_along_tangents() -> None:
    model = start()
    assert type(model.weight) is np.ndarray
    f = lambda m: squares(m(DATA), DATA)
    w = model.weight
    flat = bs.grad(lambda w: f(Project(w)))(w)
    for make in (bs.grad, lambda f: bs.jit(bs.grad(f)), lambda f: bs.grad(bs.jit(f))):
        found = make(f)(model).weight
        np.testing.assert_allclose(found, mf.Stiefel().project(w, flat), atol=1e-12)
    u = mf.Stiefel().random_tangent(_rng, w)
    along = bs.jvp(f, (model,), (model.replace({"weight": u}),))[1]
    np.testing.assert_allclose(along, np.sum(flat * u), atol=1e-12)
    with pytest.raises(bs.errors.ShapeError, match="points off the manifold"):
        bs.jvp(f, (model,), (model.replace({"weight": u + w}),))


RULES: list[Any] = [
    optim.SGD(lr=0.2),
    optim.SGD(lr=0.1, momentum=0.7),
    optim.Adam(lr=optim.schedules.exponential(0.1, 0.98)),
    optim.RMSprop(lr=optim.schedules.exponential(0.05, 0.98)),
    optim.Lion(lr=optim.schedules.exponential(0.05, 0.98)),
    optim.Groups({"*": optim.Adam(lr=optim.schedules.exponential(0.1, 0.98))}),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: type(r).__name__)
def test_fit_finds_principal_components_and_stays(rule: Any) -> None:
    done = bs.fit(start(), squares, (DATA, DATA), optimizer=rule, epochs=300, batch_size=60)
    assert off(done.model.weight) < 1e-12
    least = np.sum(np.linalg.eigvalsh(COVARIANCE)[:-2]) / 6
    np.testing.assert_allclose(done.metrics["loss"], least, rtol=2e-3)
    assert done.model.named_parameters()["weight"].manifold == mf.Stiefel()


def test_fit_takes_the_steps_of_the_rule_for_manifolds() -> None:
    """Retraction and transport are those that are written out in RiemannianSGD."""
    settings: Any = dict(epochs=8, batch_size=20, shuffle=False)
    own = bs.fit(
        start(), squares, (DATA, DATA), optimizer=optim.SGD(lr=0.05, momentum=0.9), **settings
    )
    rule = optim.RiemannianSGD(mf.Stiefel(), lr=0.05, momentum=0.9)
    plain = bs.fit(Project(start().weight), squares, (DATA, DATA), optimizer=rule, **settings)
    np.testing.assert_allclose(own.model.weight, plain.model.weight, atol=1e-12)
    free = bs.fit(
        Project(start().weight), squares, (DATA, DATA),
        optimizer=optim.SGD(lr=0.05, momentum=0.9), **settings,
    )  # fmt: skip
    assert off(free.model.weight) > 1e-3


def test_averages_clipping_and_accumulation_stay_on_the_manifold() -> None:
    done = bs.fit(
        start(), squares, (DATA, DATA), optimizer=optim.Adam(0.05),
        epochs=4, batch_size=10, ema=0.8, clip=0.5, accumulate=2,
    )  # fmt: skip
    assert off(done.model.weight) < 1e-12
    a = bs.on(mf.Sphere(), np.array([1.0, 0.0]))
    b = bs.on(mf.Sphere(), np.array([0.0, 1.0]))
    middle = optim.Average(0.5).update({"x": a}, {"x": b})["x"]
    np.testing.assert_allclose(np.sum(middle.x**2), 1)
    assert middle.x.min() > 0.3


def test_a_network_by_names() -> None:
    nn.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    nn.utils.declare(model, {"4.*": mf.Sphere(), "*.weight": mf.Stiefel()})
    kinds = {n: type(getattr(p, "manifold", None)) for n, p in model.named_parameters().items()}
    assert kinds["0.weight"] is kinds["2.weight"] is mf.Stiefel
    assert kinds["4.weight"] is kinds["4.bias"] is mf.Sphere
    assert kinds["0.bias"] is type(None)
    y = np.sin(DATA[:, :1]).astype(np.float32)
    done = bs.fit(
        model, squares, (DATA.astype(np.float32), y), optimizer=optim.Adam(0.01), epochs=5
    )
    assert done.history["loss"][-1] < done.history["loss"][0]
    assert off(done.model[0].weight) < 1e-5
    np.testing.assert_allclose(np.linalg.norm(done.model[4].weight), 1, rtol=1e-5)
    assert done.predict(DATA).shape == (60, 1)
    with pytest.raises(StructureError, match="no parameter of the module is called 'weight'"):
        nn.utils.declare(model, {"weight": mf.Stiefel()})


def test_plain_containers_come_back_declared() -> None:
    point = bs.on(mf.Sphere(), np.ones(6) / np.sqrt(6))
    loss = lambda model, batch: -np.mean((batch @ model["x"][0]) ** 2)
    done = bs.fit({"x": [point]}, loss, DATA, optimizer=optim.SGD(0.05), epochs=60, batch_size=60)
    found = done.model["x"][0]
    assert isinstance(found, mf.Point)
    np.testing.assert_allclose(found.x @ COVARIANCE @ found.x, np.linalg.eigvalsh(COVARIANCE)[-1])


def test_state_dicts_hold_arrays_and_loading_keeps_the_declaration() -> None:
    model, other = start(0), start(1)
    state = other.state_dict()
    assert type(state["weight"]) is np.ndarray
    model.load_state_dict(state)
    np.testing.assert_array_equal(model.weight, other.weight)
    assert isinstance(model.named_parameters()["weight"], mf.Point)
    with pytest.raises(StructureError, match=r"weight: this array is no point of Stiefel"):
        model.load_state_dict({"weight": np.ones((6, 2))})
    with pytest.raises(StructureError, match="no point"):
        model.weight = np.ones((6, 2))
    model.weight = start(2).weight  # a point, which stays declared
    assert isinstance(model.named_parameters()["weight"], mf.Point)
    model.weight = bs.on(mf.Euclidean(), np.ones((6, 2)))
    assert model.named_parameters()["weight"].manifold == mf.Euclidean()


def test_a_resumed_run_ends_on_the_same_bits(tmp_path: Any) -> None:
    settings: Any = dict(optimizer=optim.SGD(lr=0.05, momentum=0.9), batch_size=20)
    whole = bs.fit(start(), squares, (DATA, DATA), epochs=4, **settings)
    bs.fit(start(), squares, (DATA, DATA), epochs=2, checkpoint=tmp_path, **settings)
    rest = bs.fit(start(), squares, (DATA, DATA), epochs=4, checkpoint=tmp_path, **settings)
    np.testing.assert_array_equal(whole.model.weight, rest.model.weight)
    assert isinstance(rest.model.named_parameters()["weight"], mf.Point)
    arrays = bs.training.checkpoints.read(Checkpoints(tmp_path).files()[0])[0]
    assert "parameters.weight" in arrays
    with pytest.raises(
        StructureError, match=r"weight is declared on Stiefel.* there, on none here"
    ):
        bs.fit(
            Project(start().weight),
            squares,
            (DATA, DATA),
            epochs=5,
            checkpoint=tmp_path,
            **settings,
        )


class Twice(nn.Module):
    def __init__(self, first: Any, second: Any):
        self.first, self.second = first, second

    def __call__(self, x: Any) -> Any:
        return np.sum(self.first * x) + np.sum(self.second * x**2)


def test_an_array_in_two_places_is_declared_by_either() -> None:
    x = np.array([0.6, 0.8])
    data = np.array([1.0, 2.0])
    point = bs.on(mf.Sphere(), x)
    for model in (Twice(point, point), Twice(point, x), Twice(x, point)):
        assert list(model.named_parameters()) == ["first"]
        assert isinstance(model.named_parameters()["first"], mf.Point)
        g = bs.grad(lambda m: m(data))(model)
        np.testing.assert_allclose(g.first, mf.Sphere().project(x, data + data**2), atol=1e-14)
        assert g.second is g.first
        rule = optim.SGD(lr=0.1)
        new, _ = rule.update(model, g, rule.init(model))
        np.testing.assert_allclose(np.sum(new.first**2), 1)
        assert new.second is new.first
    both = Twice(point, bs.on(mf.Euclidean(), x))
    with pytest.raises(StructureError, match="two places"):
        both.named_parameters()
    with pytest.raises(StructureError, match="two places"):
        bs.grad(lambda m: m(data))(both)


def test_frozen_weights_stay_as_they_are() -> None:
    frozen = start().freeze()
    model = nn.Sequential(frozen, nn.Linear(6, 6))
    assert "0.weight" not in model.named_parameters()
    done = bs.fit(model, squares, (DATA, DATA), epochs=1)
    np.testing.assert_array_equal(done.model[0].weight, frozen.weight)
