"""What varies in a picture, what is a constant there, and how parameters are called."""

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn
from backsolve.show.data import page_data
from backsolve.show.scene import scene_of


def test_state_and_integers_are_constants_of_a_scene():
    model = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5), nn.BatchNorm1d(3), nn.Linear(3, 2))
    before = {name: np.copy(a) for name, a in model.state_dict().items()}
    args = (model, np.ones((4, 2)), np.array([0, 1, 1, 0]))
    scene = scene_of(lambda m, x, y: nn.functional.cross_entropy(m(x), y), args)
    assert scene.system.names == [*[f"m.{name}" for name in model.named_parameters()], "x"]
    for name, a in model.state_dict().items():
        np.testing.assert_array_equal(a, before[name])
    scene = scene_of(lambda s: s["n"] * s["x"], ({"n": 3, "x": 2.0},))
    assert scene.system.names == ["s['x']"]
    assert scene.adjoints[scene.system.parameters[0]] == 3.0


def test_a_frozen_part_of_a_model_does_not_vary():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    dict(model.modules())["0"].freeze()
    assert scene_of(lambda m: m(np.ones(2)), (model,)).system.names == ["m.1.weight", "m.1.bias"]


@pytest.mark.parametrize("x", [2, np.array([1, 2])])
def test_an_integer_alone_is_an_error(x):
    with pytest.raises(bs.errors.NotDifferentiableError, match="floating-point"):
        scene_of(lambda x: x * 1.0, (x,))


def test_keyword_arguments_go_to_the_function():
    def f(x, scale=1.0):
        return scale * np.sin(x)

    scene = scene_of(f, (2.0,), kwargs={"scale": 3.0})
    assert scene.adjoints[scene.system.parameters[0]] == 3.0 * np.cos(2.0)
    data = page_data(scene)
    assert "program" in data["recompute"]
    assert any("3.0 * " in line for line in data["code"]["lines"])
    assert "3.0 · v1" in bs.show.graph(f, 2.0, scale=3.0).text


def test_an_argument_on_a_manifold_has_a_row_with_its_value():
    x = bs.on(bs.manifolds.Sphere(), np.array([0.6, 0.0, 0.8]))
    data = page_data(scene_of(lambda x: np.sum(x * np.arange(3.0)), (x,)))
    assert [n["name"] for n in data["nodes"]] == ["x", "v1", "v2", "v3"]
    assert data["nodes"][1]["value"]["data"] == [0.6, 0.0, 0.8]
    np.testing.assert_allclose(data["nodes"][0]["adjoint"]["data"], [-0.96, 1.0, 0.72])


def test_code_of_a_model_with_state_leads_to_its_nodes():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Dropout(0.5), nn.Linear(3, 2))

    def loss(model, x, y, *, scale):
        return scale * nn.functional.cross_entropy(model(x), y)

    args = (model, np.ones((2, 2)), np.array([0, 1]))
    data = page_data(scene_of(loss, args, kwargs={"scale": 2.0}))
    rows = {k for k, node in enumerate(data["nodes"]) if node["kind"] == "row"}
    code = data["code"]
    assert {nodes[0] for nodes in code["nodes"] if nodes} >= rows
    ahead = {
        line.split()[0]: nodes
        for line, nodes in zip(code["lines"], code["nodes"], strict=True)
        if line
    }
    assert data["nodes"][ahead["loss"][0]]["text"] == "2.0 · v14"
    assert data["nodes"][ahead["grad_model_0_weight"][0]]["name"] == "model.0.weight"
