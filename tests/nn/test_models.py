"""Networks with PyTorch's weights give PyTorch's numbers; weights that do not fit are listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_cases import DATA, MODELS, inputs_of, state_of

import backsolve as bs
from backsolve.errors import ShapeError, StructureError
from backsolve.interop import safetensors
from backsolve.interop.torch import load_state_dict
from backsolve.nn import models, utils


def kept(name: str) -> tuple[Any, dict[str, Any]]:
    """What PyTorch computed, and the weights that it computed it with, by its names."""
    with np.load(DATA) as figures:
        shapes = dict(line.split(" ") for line in figures[f"{name}|names"])
        own = {k: tuple(int(n) for n in s.split(",") if n) for k, s in shapes.items()}
        return figures[name], state_of(own)


def output(model: Any, x: Any) -> Any:
    y = model(x)
    return y[0] if isinstance(y, tuple) else y


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_pytorchs(name: str) -> None:
    expected, state = kept(name)
    model = load_state_dict(MODELS[name](), state).eval()
    found = output(model, inputs_of(name))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["lenet", "lstm, tied", "gpt2"])
def test_compiled_outputs_are_pytorchs(name: str) -> None:
    expected, state = kept(name)
    model = load_state_dict(MODELS[name](), state).eval()
    found = bs.jit(output)(model, inputs_of(name))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_from_a_file(tmp_path: Path) -> None:
    expected, state = kept("lenet")
    safetensors.save(state, tmp_path / "lenet.safetensors")
    model = load_state_dict(models.LeNet(), tmp_path / "lenet.safetensors")
    found = model(inputs_of("lenet"))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    with pytest.raises(ValueError, match=r"no \.safetensors file"):
        load_state_dict(model, "lenet.pt")
    with pytest.raises(TypeError, match=r"pass module.state_dict\(\)"):
        load_state_dict(model, object())


class Tensor:
    """As much of a PyTorch tensor as is used."""

    def __init__(self, value: Any, dtype: str = "torch.float32"):
        self.value, self.dtype = value, dtype

    def detach(self) -> Any:
        return self

    def cpu(self) -> Any:
        return self

    def float(self) -> Any:
        return Tensor(self.value)

    def numpy(self) -> Any:
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.value


@pytest.mark.parametrize("dtype", ["torch.float32", "torch.bfloat16"])
def test_tensors(dtype: str) -> None:
    _, state = kept("lenet")
    model = load_state_dict(models.LeNet(), {k: Tensor(v, dtype) for k, v in state.items()})
    np.testing.assert_array_equal(model.fc3.bias, state["fc3.bias"])


def test_one_array_under_two_names() -> None:
    _, state = kept("gpt2")
    table = state["transformer.wte.weight"]
    model = load_state_dict(MODELS["gpt2"](), {**state, "lm_head.weight": table})
    np.testing.assert_array_equal(model.transformer.wte.weight, table)
    only = {k: v for k, v in state.items() if k != "transformer.wte.weight"}
    model = load_state_dict(MODELS["gpt2"](), {**only, "lm_head.weight": table})
    np.testing.assert_array_equal(model.transformer.wte.weight, table)
    with pytest.raises(StructureError, match="two that differ there"):
        load_state_dict(model, {**state, "lm_head.weight": table + 1})

    tied = bs.nn.Sequential(bs.nn.Linear(2, 2), bs.nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    both = {
        "0.weight": np.eye(2),
        "1.weight": np.eye(2),
        "0.bias": np.ones(2),
        "1.bias": np.ones(2),
    }
    load_state_dict(tied, both)
    assert tied[1].weight is tied[0].weight
    np.testing.assert_array_equal(tied[0].weight, np.eye(2))
    with pytest.raises(StructureError, match=r"1\.weight: one array with 0\.weight"):
        load_state_dict(tied, {**both, "1.weight": np.ones((2, 2))})


def test_names_of_wrappers_and_of_older_files() -> None:
    expected, state = kept("gpt2")
    wrapped = {f"module.{k}": v for k, v in state.items()}
    bare = {k.removeprefix("transformer."): v for k, v in state.items()}
    bare["h.0.attn.bias"] = np.ones((1, 1, 32, 32))
    for given in (wrapped, bare):
        model = load_state_dict(MODELS["gpt2"](), given).eval()
        np.testing.assert_allclose(model(inputs_of("gpt2")), expected, atol=1e-4)
    normed = utils.weight_norm(bs.nn.Linear(3, 2))
    g, v = np.full((2, 1), 2.0), np.ones((2, 3))
    load_state_dict(normed, {"weight_g": g, "weight_v": v, "bias": np.zeros(2)})
    np.testing.assert_allclose(normed.weight, 2 * v / np.sqrt(3), rtol=1e-6)
    spectral = utils.spectral_norm(bs.nn.Linear(3, 2))
    u = {"weight_u": np.array([1.0, 0.0]), "weight_v": np.array([0.0, 1.0, 0.0])}
    load_state_dict(spectral, {"weight_orig": 3 * v, "bias": np.zeros(2), **u})
    np.testing.assert_allclose(spectral.eval().weight, v)


def test_what_does_not_fit_is_listed() -> None:
    _, state = kept("resnet18 for 32 × 32")
    state["layer1.0.conv9.weight"] = state.pop("layer1.0.conv1.weight")
    state["fc.bias"] = np.zeros(3)
    del state["bn1.num_batches_tracked"]  # files of old have none
    model = MODELS["resnet18 for 32 × 32"]()
    before = model.fc.weight
    with pytest.raises(StructureError) as error:
        load_state_dict(model, state)
    message = str(error.value)
    assert "- layer1.0.conv1.weight (64, 64, 3, 3); is it layer1.0.conv9.weight?" in message
    assert "+ layer1.0.conv9.weight (64, 64, 3, 3)" in message
    assert "≠ fc.bias: (10,) here, (3,) there" in message
    assert "bn1" not in message
    assert model.fc.weight is before
    del state["fc.bias"]
    load_state_dict(model, state, strict=False)
    np.testing.assert_array_equal(model.fc.weight, state["fc.weight"])


def test_models_train() -> None:
    model = models.GPT2(31, 8, 16, 1, 2, dropout=0.1, key=bs.random.key(0))
    tokens = np.random.default_rng(0).integers(0, 31, (4, 8))
    optimiser = bs.optim.Adam(lr=0.01)

    def loss(parameters: Any, model: Any) -> Any:
        model = model.replace(parameters)
        logits = model(tokens[:, :-1])
        return bs.nn.functional.cross_entropy(np.swapaxes(logits, 1, 2), tokens[:, 1:]), model

    @bs.jit
    def step(parameters: Any, state: Any, model: Any) -> Any:
        (value, model), g = bs.value_and_grad(loss, has_aux=True)(parameters, model)
        parameters, state = optimiser.update(parameters, g, state)
        return value, parameters, state, model

    parameters = model.named_parameters()
    state = optimiser.init(parameters)
    values = []
    for _ in range(60):
        value, parameters, state, model = step(parameters, state, model)
        values.append(float(value))
    assert values[-1] < 0.5 * values[0]


def test_sizes_are_checked() -> None:
    with pytest.raises(ValueError, match="28 × 28 or 32 × 32"):
        models.LeNet(image_size=64)
    with pytest.raises(ValueError, match="ninp = nhid"):
        models.LSTMLanguageModel(5, 3, 4, tie_weights=True)
    with pytest.raises(ShapeError, match="multiple of n_head"):
        models.GPT2(n_embd=10, n_head=3)
    with pytest.raises(ShapeError, match="at most 4 steps"):
        models.GPT2(9, 4, 8, 1, 2)(np.zeros((1, 5), int))
