"""Arrays and modules that stand in several places of a module stay one through every transformation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn, optim, tree
from backsolve.errors import StructureError
from backsolve.training import Checkpoints

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 4))


class Tied(nn.Module):
    """An autoencoder whose two ways are one matrix."""

    def __init__(self) -> None:
        self.encode = nn.Linear(4, 3, dtype=np.float64, key=bs.random.key(0))
        self.decode = {"weight": self.encode.weight, "bias": np.zeros(4)}

    def __call__(self, x: Any) -> Any:
        return np.tanh(self.encode(x)) @ self.decode["weight"] + self.decode["bias"]


class Repeated(nn.Module):
    """One block, used three times, that counts its calls."""

    def __init__(self) -> None:
        block = Counting(RNG.normal(size=(4, 4)) / 2, np.zeros(()))
        self.blocks = [block] * 3

    def __call__(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x


class Counting(nn.Module):
    weight: Any
    calls: Any
    buffers = ("calls",)

    def __call__(self, x: Any) -> Any:
        self.calls = self.calls + 1.0
        return np.tanh(x @ self.weight)


def error(model: Any) -> Any:
    return np.mean((model(X) - X) ** 2)


def is_tied(model: Any) -> bool:
    return model.decode["weight"] is model.encode.weight


def of_one_array(w: Any) -> Any:
    model = Tied()
    return np.mean((np.tanh(X @ w.T + model.encode.bias) @ w - X) ** 2)


@pytest.mark.parametrize("wrap", [lambda f: f, bs.jit], ids=["eager", "compiled"])
def test_gradients_of_all_places_add(wrap: Any) -> None:
    model = Tied()
    gradient = wrap(bs.grad(error))(model)
    assert is_tied(gradient)
    expected = bs.grad(of_one_array)(model.encode.weight)
    np.testing.assert_allclose(gradient.encode.weight, expected, rtol=1e-12)
    bs.testing.check_grads(error, (model,))


def test_forward_mode_and_vmap_move_all_places() -> None:
    model = Tied()
    direction = tree.map(np.ones_like, model)
    assert is_tied(direction)
    flat = tree.map(np.zeros_like, model)
    flat = flat.replace({"encode.weight": np.ones((3, 4))})
    _, slope = bs.jvp(error, (model,), (flat,))
    expected = np.sum(bs.grad(of_one_array)(model.encode.weight))
    np.testing.assert_allclose(slope, expected, rtol=1e-12)
    stacked = tree.map(lambda a: np.stack([a, 2 * a]), model)
    errors = bs.vmap(error)(stacked)
    np.testing.assert_allclose(errors, [error(model), error(tree.map(lambda a: 2 * a, model))])


@pytest.mark.parametrize("wrap", [lambda f: f, bs.jit], ids=["eager", "compiled"])
def test_steps_of_an_optimiser_keep_the_tie(wrap: Any) -> None:
    model, w = Tied(), Tied().encode.weight
    rule = optim.SGD(0.1, momentum=0.9)
    state, plain = rule.init(model), rule.init(w)
    assert len(state.slots) == 3

    @wrap
    def step(model: Any, state: Any) -> Any:
        gradient = bs.grad(error)(model)
        gradient = gradient.replace(
            {k: 0 * gradient.state_dict()[k] for k in ("encode.bias", "decode.bias")}
        )
        return rule.update(model, gradient, state)

    for _ in range(3):
        model, state = step(model, state)
        assert is_tied(model)
        w, plain = rule.update(w, bs.grad(of_one_array)(w), plain)
    np.testing.assert_allclose(model.encode.weight, w, rtol=1e-12)


def test_fit_and_checkpoints_keep_the_tie(tmp_path: Any) -> None:
    model = Tied()

    def run(epochs: int, folder: Any = None) -> Any:
        where = None if folder is None else Checkpoints(folder)
        return bs.fit(
            model, nn.functional.mse_loss, (X, X), optimizer=optim.Adam(0.01), epochs=epochs,
            batch_size=4, checkpoint=where,
        ).model  # fmt: skip

    whole = run(4)
    run(2, tmp_path)
    resumed = run(4, tmp_path)
    assert is_tied(whole)
    assert is_tied(resumed)
    np.testing.assert_array_equal(whole.encode.weight, resumed.encode.weight)
    assert list(whole.state_dict()) == ["encode.weight", "encode.bias", "decode.bias"]
    fresh = Tied()
    fresh.load_state_dict(whole.state_dict())
    assert is_tied(fresh)
    np.testing.assert_array_equal(fresh(X), whole(X))


@pytest.mark.parametrize("wrap", [lambda f: f, bs.jit], ids=["eager", "compiled"])
def test_a_module_in_several_places_stays_one(wrap: Any) -> None:
    @wrap
    def run(model: Any) -> Any:
        y = model(X)
        return y, model

    model = Repeated()
    y, after = run(model)
    assert all(block is after.blocks[0] for block in after.blocks)
    assert float(after.blocks[0].calls) == 3.0
    np.testing.assert_allclose(y, Repeated.__call__(Repeated().replace(model.state_dict()), X))
    assert [name for name, _ in model.modules()] == ["", "blocks.0"]


def test_fit_counts_all_calls_of_a_module_in_several_places() -> None:
    fitted = bs.fit(Repeated(), nn.functional.mse_loss, (X, X), batch_size=4, epochs=2)
    assert float(fitted.model.blocks[2].calls) == 3.0 * 4


def test_equal_results_are_no_ties() -> None:
    class Sum(nn.Module):
        a: Any
        b: Any

        def __call__(self, x: Any) -> Any:
            return np.sum(x + self.a + self.b)

    model = Sum(np.ones(4), np.zeros(4))
    gradient = bs.grad(lambda m: m(X))(model)
    assert gradient.a is not gradient.b
    same = np.ones(4)
    mapped = tree.map(lambda a: same, model)
    assert mapped.a is not mapped.b
    stepped = tree.map(lambda p, g: p - g, model, gradient)
    np.testing.assert_allclose(stepped.a - stepped.b, 1.0)


def test_places_of_plain_containers_and_arguments_are_separate() -> None:
    w = np.ones(3)
    gradient = bs.grad(lambda p: np.sum(p["a"] * 2 + p["b"]))({"a": w, "b": w})
    np.testing.assert_array_equal(gradient["a"], 2.0)
    np.testing.assert_array_equal(gradient["b"], 1.0)
    model = Tied()
    one, other = bs.grad(lambda m, target: np.sum(m(X) - target(X)), argnums=(0, 1))(model, model)
    np.testing.assert_allclose(one.encode.weight, -other.encode.weight)


def test_forms_that_differ_in_ties_alone_are_told_apart() -> None:
    tied = Tied()
    untied = Tied()
    untied.decode = {**untied.decode, "weight": untied.encode.weight.copy()}
    with pytest.raises(
        StructureError, match=r"`encode\.weight` and `decode\.weight` hold one array in"
    ):
        tree.map(np.add, tied, untied)
    rule = optim.SGD(0.1)
    with pytest.raises(StructureError, match=r"`encode\.weight` and `decode\.weight`"):
        rule.update(tied, untied, rule.init(tied))
    with pytest.raises(StructureError, match="in the second"):
        bs.jvp(error, (untied,), (tied,))


def test_fit_refuses_what_might_be_one_parameter_or_two() -> None:
    w = np.ones((4, 4))

    def loss(model: Any, batch: Any) -> Any:
        return np.mean((batch @ model["a"] @ model["b"] - batch) ** 2)

    with pytest.raises(StructureError, match="a and b of the container to train are one array"):
        bs.fit({"a": w, "b": w}, loss, X)
    with pytest.raises(StructureError, match=r"a and b are views of the same memory"):
        bs.fit({"a": w, "b": w.T}, loss, X)
    halves = np.ones((4, 8))
    parts = {"a": halves[:, :4], "b": halves[:, 4:]}  # of one memory, but apart
    assert bs.fit(parts, loss, X).step == 1
