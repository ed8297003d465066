"""Modules as containers: transformations, names, state, modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn
from backsolve.errors import StructureError


class Dense(nn.Module):
    weight: Any
    bias: Any = None
    power: int = 1

    def __call__(self, x: Any) -> Any:
        y = x @ self.weight.T
        return np.tanh(y if self.bias is None else y + self.bias) ** self.power


class Net(nn.Module):
    """With its own __init__, a list of modules, and one array in two places."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.layers = [
            Dense(rng.normal(size=(3, 3)), rng.normal(size=3), 2),
            Dense(rng.normal(size=(3, 3))),
        ]
        self.last = {"tied": self.layers[0].weight}

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x @ self.last["tied"]


class Inherits(Dense):
    factor: float = 2.0

    def __call__(self, x: Any) -> Any:
        return self.factor * super().__call__(x)


X = np.random.default_rng(1).normal(size=(4, 3))


def total(model: Any, x: Any = X) -> Any:
    return np.sum(np.sin(model(x)))


@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
def test_a_module_is_differentiated_like_a_dict_of_its_arrays(compile: Any) -> None:
    model = Inherits(np.ones((2, 3)), np.zeros(2), power=3)
    gradient = compile(bs.grad(total))(model)
    assert type(gradient) is Inherits
    assert gradient.power == 3
    assert gradient.factor == 2.0
    plain = bs.grad(lambda p: np.sum(np.sin(2 * np.tanh(X @ p["w"].T + p["b"]) ** 3)))
    expected = plain({"w": model.weight, "b": model.bias})
    np.testing.assert_allclose(gradient.weight, expected["w"])
    np.testing.assert_allclose(gradient.bias, expected["b"])


def test_an_array_in_two_places_is_one_parameter() -> None:
    model = Net()
    names = ["layers.0.weight", "layers.0.bias", "layers.1.weight"]
    assert list(model.named_parameters()) == names
    gradient = bs.grad(lambda p: total(model.replace(p)))(model.named_parameters())
    parts = bs.grad(total)(model)
    assert parts.last["tied"] is parts.layers[0].weight
    np.testing.assert_allclose(gradient["layers.0.weight"], parts.last["tied"])


def test_vmap_over_models() -> None:
    models = [Dense(np.full((2, 3), float(k))) for k in range(3)]
    stacked = bs.tree.map(lambda *a: np.stack(a), *models)
    outputs = bs.vmap(lambda m: m(X))(stacked)
    np.testing.assert_allclose(outputs, np.stack([m(X) for m in models]))


def test_state_is_loaded_strictly() -> None:
    model, other = Net(), Net()
    for value in other.state_dict().values():
        value += 1.0
    model.load_state_dict(other.state_dict())
    np.testing.assert_array_equal(model(X), other(X))
    assert model.last["tied"] is model.layers[0].weight
    with pytest.raises(StructureError) as error:
        model.load_state_dict({"layers.0.weight": np.ones((2, 2)), "more": np.ones(1)})
    message = str(error.value)
    assert "missing: layers.0.bias, layers.1.weight" in message
    assert "unexpected: more" in message
    assert "(3, 3) here, (2, 2) there" in message
    model.load_state_dict({"layers.0.bias": np.zeros(3), "more": 1}, strict=False)
    np.testing.assert_array_equal(model.layers[0].bias, 0)
    with pytest.raises(StructureError, match="misshapen"):
        model.load_state_dict({"layers.0.bias": np.zeros(2)}, strict=False)


def test_frozen_parts_are_no_parameters() -> None:
    model = Net()
    model.layers[0].freeze()
    assert list(model.named_parameters()) == ["layers.1.weight"]
    assert set(model.named_buffers()) == {"layers.0.weight", "layers.0.bias"}
    model.freeze(False)
    assert len(model.named_parameters()) == 3


def test_settings_must_be_hashable() -> None:
    class Sizes(nn.Module):
        sizes: list[int]

    with pytest.raises(StructureError, match="write a tuple"):
        bs.tree.flatten(Sizes([1, 2]))


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
def test_batch_norm_keeps_running_figures(compile: Any, momentum: Any) -> None:
    rng = np.random.default_rng(2)
    model = nn.BatchNorm1d(3, momentum=momentum, dtype=np.float64)

    @compile
    def step(model: Any, x: Any) -> Any:
        y = model(x)
        return np.sum(y), model

    batches = rng.normal(2, 3, size=(5, 8, 3))
    mean, var = np.zeros(3), np.ones(3)
    for k, x in enumerate(batches):
        _, model = step(model, x)
        m = 1 / (k + 1) if momentum is None else momentum
        mean, var = mean + m * (x.mean(0) - mean), var + m * (x.var(0, ddof=1) - var)
    np.testing.assert_allclose(model.running_mean, mean)
    np.testing.assert_allclose(model.running_var, var)
    assert model.num_batches_tracked == 5
    evaluated = model.eval()(batches[0])
    np.testing.assert_allclose(evaluated, (batches[0] - mean) / np.sqrt(var + 1e-5))
    assert list(model.named_parameters()) == ["weight", "bias"]


def test_batch_norm_outside_of_a_transformation_changes_itself() -> None:
    model = nn.BatchNorm1d(3)
    model(X.astype(np.float32))
    assert model.num_batches_tracked == 1
    model.eval()(X.astype(np.float32))
    assert model.num_batches_tracked == 1


def test_layers_without_a_key_come_from_one_stream() -> None:
    nn.manual_seed(3)
    first = nn.Conv1d(2, 3, 3), nn.Conv1d(2, 3, 3)
    nn.manual_seed(3)
    again = nn.Conv1d(2, 3, 3), nn.Conv1d(2, 3, 3)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.weight, b.weight)
    assert not np.array_equal(first[0].weight, first[1].weight)


def test_a_network_of_layers() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, padding_mode="reflect"),
        nn.BatchNorm2d(8),
        np.tanh,
        nn.ConvTranspose2d(8, 4, 3, stride=2),
        nn.GroupNorm(2, 4),
        nn.Flatten(),
    )
    x = np.random.default_rng(0).normal(size=(5, 3, 8, 8)).astype(np.float32)
    assert model(x).shape == (5, 4 * 17 * 17)
    assert len(model) == 6
    names = [f"{k}.{n}" for k in (0, 1, 3, 4) for n in ("weight", "bias")]
    assert list(model.named_parameters()) == names


INITIALISERS = {
    "uniform": (lambda k: nn.init.uniform((200, 50), -1, 3, key=k), 1.0, 4 / 12**0.5),
    "normal": (lambda k: nn.init.normal((200, 50), 1.0, 0.5, key=k), 1.0, 0.5),
    "xavier_uniform": (lambda k: nn.init.xavier_uniform((200, 50), key=k), 0.0, (2 / 250) ** 0.5),
    "xavier_normal": (lambda k: nn.init.xavier_normal((200, 50), key=k), 0.0, (2 / 250) ** 0.5),
    "kaiming_uniform": (
        lambda k: nn.init.kaiming_uniform((200, 50), nonlinearity="relu", key=k), 0.0, 0.2
    ),
    "kaiming_normal": (
        lambda k: nn.init.kaiming_normal((50, 200), mode="fan_out", key=k), 0.0, 0.2
    ),
    "trunc_normal": (lambda k: nn.init.trunc_normal((200, 50), std=2.0, key=k), 0.0, 1.08),
}  # fmt: skip


@pytest.mark.parametrize("name", INITIALISERS)
def test_initialisers_have_their_mean_and_spread(name: str) -> None:
    make, mean, spread = INITIALISERS[name]
    w = make(bs.random.key(5))
    assert w.dtype == np.float32
    np.testing.assert_allclose(w.mean(), mean, atol=4 * spread / 100)
    np.testing.assert_allclose(w.std(), spread, rtol=0.04)


def test_special_initialisers() -> None:
    for shape in ((5, 3), (3, 5), (4, 2, 3)):
        q = nn.init.orthogonal(shape, key=bs.random.key(0)).reshape(shape[0], -1)
        small = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
        np.testing.assert_allclose(small, np.eye(len(small)), atol=1e-6)
    w = nn.init.sparse((10, 4), 0.3, key=bs.random.key(0))
    assert ((w == 0).sum(0) == 3).all()
    x = np.random.default_rng(0).normal(size=(2, 4, 6)).astype(np.float32)
    kernel = nn.init.dirac((4, 2, 3), groups=2)
    np.testing.assert_allclose(nn.functional.conv1d(x, kernel, padding=1, groups=2), x)


def test_forward_is_what_a_call_does() -> None:
    class Scale(nn.Module):
        factor: np.ndarray

        def forward(self, x):
            if x.sum() > 0:
                return self.factor * x
            return -x

    class Twice(Scale):
        def forward(self, x):
            return 2 * super().forward(x)

    class Called(Scale):
        def __call__(self, x):
            return 10 * self.forward(x)

    class CalledTwice(Called):
        def forward(self, x):
            return 2 * self.factor * x

    x = np.array([1.0, 2.0])
    for kind, times in ((Scale, 1), (Twice, 2), (Called, 10), (CalledTwice, 20)):
        model = kind(np.array(3.0))
        np.testing.assert_array_equal(model(x), 3 * times * x)
        loss = lambda model, x: model(x).sum()
        assert bs.grad(loss)(model, x).factor == 3 * times
        assert bs.jit(bs.grad(loss))(model, x).factor == 3 * times
    assert not callable(nn.Module())


@pytest.mark.parametrize(
    ("name", "says"), [("parameters", "rule.init"), ("forward", "call the module"), ("cuda", "bs.jit")]
)  # fmt: skip
def test_pytorchs_habits_are_answered(name, says):
    layer = nn.Linear(2, 3)
    with pytest.raises(
        AttributeError, match=f"'Linear' object has no attribute '{name}': .*{says}"
    ):
        getattr(layer, name)
    with pytest.raises(AttributeError, match=r"'weigth'$"):
        getattr(layer, "weigth")  # noqa: B009 - asked for, and not there
    assert not hasattr(layer, name)


@pytest.mark.parametrize("layers", [(nn.ReLU,), (3,), ([nn.ReLU(), nn.Tanh()],)])
def test_what_is_no_layer_is_refused(layers):
    with pytest.raises(TypeError, match="modules and functions one by one"):
        nn.Sequential(nn.Linear(2, 2), *layers)


@pytest.mark.parametrize("layer", [nn.Conv2d, nn.ConvTranspose1d])
def test_groups_divide_channels(layer):
    for channels, groups in (((3, 4), 2), ((4, 3), 2), ((4, 4), 0)):
        with pytest.raises(ValueError, match=f"groups={groups} must divide"):
            layer(*channels, 3, groups=groups)
