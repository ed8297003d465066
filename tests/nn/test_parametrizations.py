"""Weights computed from others: names, state, removal; values are in test_weighted_layers.py."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn
from backsolve.nn import utils

X = np.random.default_rng(0).normal(size=(5, 3))


def linear() -> Any:
    return nn.Linear(3, 4, key=bs.random.key(1), dtype=np.float64)


def test_weight_norm_begins_at_the_weight_and_is_removed_again() -> None:
    layer, plain = utils.weight_norm(linear()), linear()
    assert isinstance(layer, nn.Linear)
    np.testing.assert_allclose(layer.weight, plain.weight)
    np.testing.assert_allclose(layer(X), plain(X))
    gradient = bs.grad(lambda m: np.sum(m(X) ** 2))(layer).parametrizations["weight"]
    # a direction has no derivative along itself
    along = np.sum(gradient.original1 * plain.weight, axis=1)
    np.testing.assert_allclose(along, 0, atol=1e-12)
    utils.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert set(layer.named_parameters()) == {"weight", "bias"}
    np.testing.assert_allclose(layer(X), plain(X))


def test_spectral_norm_has_the_largest_singular_value_in_the_end() -> None:
    layer = utils.spectral_norm(linear())

    @bs.jit
    def step(layer: Any) -> Any:
        y = layer(X)
        return y, layer

    for _ in range(100):
        _, layer = step(layer)
    assert type(layer).__name__ == "ParametrizedLinear"
    np.testing.assert_allclose(np.linalg.norm(layer.weight, 2), 1, rtol=1e-9)
    layer.eval()
    before = layer.state_dict()
    layer(X)
    for name, value in layer.state_dict().items():
        np.testing.assert_array_equal(value, before[name])
    assert set(layer.named_parameters()) == {"bias", "parametrizations.weight.original"}
    assert set(layer.named_buffers()) == {f"parametrizations.weight.0._{n}" for n in "uv"}


def test_state_is_loaded_and_copied() -> None:
    layer, other = utils.spectral_norm(linear()), utils.spectral_norm(nn.Linear(3, 4))
    other.load_state_dict(layer.state_dict())
    np.testing.assert_allclose(other.eval()(X), layer.eval()(X), rtol=1e-5)
    np.testing.assert_array_equal(copy.deepcopy(layer)(X), layer(X))


class Doubled(nn.Module):
    def __call__(self, w: Any) -> Any:
        return 2 * w

    def right_inverse(self, w: Any) -> Any:
        return w / 2


def test_maps_follow_each_other_and_weights_stand_beside_each_other() -> None:
    layer = utils.register_parametrization(linear(), "weight", Doubled())
    utils.register_parametrization(layer, "weight", np.tanh)
    np.testing.assert_allclose(layer.weight, np.tanh(linear().weight))
    utils.register_parametrization(layer, "bias", np.exp)
    y = X @ np.tanh(linear().weight).T + np.exp(linear().bias)
    np.testing.assert_allclose(bs.jit(lambda m: m(X))(layer), y)
    utils.remove_parametrizations(layer, "weight")
    np.testing.assert_allclose(layer(X), y)
    assert set(layer.named_parameters()) == {"weight", "parametrizations.bias.original"}


def test_state_of_the_module_itself_still_moves() -> None:
    layer = utils.weight_norm(nn.BatchNorm1d(3, dtype=np.float64), dim=None)
    layer(X)
    assert layer.num_batches_tracked == 1


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="no array named 'scale'"):
        utils.weight_norm(linear(), "scale")
    with pytest.raises(ValueError, match="no array named 'scale'"):
        utils.spectral_norm(linear(), "scale")
    with pytest.raises(ValueError, match="n_power_iterations"):
        utils.spectral_norm(linear(), n_power_iterations=0)
    with pytest.raises(ValueError, match="is not parametrized"):
        utils.remove_parametrizations(linear(), "weight")
    with pytest.raises(ValueError, match="several originals"):
        utils.register_parametrization(utils.weight_norm(linear()), "weight", Doubled())
