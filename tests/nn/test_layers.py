"""Layers: the functions they stand for, with their settings; first values as PyTorch draws them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn
from backsolve.nn.layers import applied

X = np.random.default_rng(0).normal(size=(2, 8, 6, 6))
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "Threshold": (0.1, 2.0),
    "Softmax": (1,),
    "Softmin": (1,),
    "LogSoftmax": (1,),
    **{f"{kind}Pool{n}d": (2,) for kind in ("Max", "Avg") for n in (1, 2, 3)},
    **{f"LPPool{n}d": (2.0, 2) for n in (1, 2, 3)},
    **{f"Adaptive{kind}Pool{n}d": (2,) for kind in ("Max", "Avg") for n in (1, 2, 3)},
    "Upsample": (None, 2),
    "PixelShuffle": (2,),
    "PixelUnshuffle": (2,),
    "ChannelShuffle": (4,),
    "Unfold": (2,),
    "Fold": ((4, 5), 2),
}
LAYERS = {
    name: kind
    for name, kind in ((name, getattr(nn, name)) for name in dir(nn))
    if inspect.isclass(kind) and issubclass(kind, applied.Applied)
}
PLAIN = [n for n in LAYERS if not n.startswith("MaxUnpool") and not n.endswith("Loss")]
assert len(PLAIN) > 40  # wherever they are defined


def input_of(name: str) -> Any:
    if name == "Fold":
        return np.random.default_rng(1).normal(size=(2, 12, 12))
    if name.endswith("1d"):
        return X[..., 0]
    if name.endswith("3d"):
        return X[:, :, None].repeat(4, 2)
    return np.abs(X) if name.startswith("LP") else X


@pytest.mark.parametrize("name", PLAIN)
def test_a_layer_is_its_function_with_settings(name: str) -> None:
    layer = LAYERS[name](*ARGUMENTS.get(name, ()))
    assert layer is not None
    assert getattr(nn, name) is LAYERS[name]
    x = input_of(name)
    found = layer(x)
    settings = {k: v for k, v in vars(layer).items() if k not in ("training", "frozen")}
    np.testing.assert_array_equal(found, LAYERS[name].function(x, **settings))
    np.testing.assert_allclose(bs.jit(lambda m, x: m(x))(layer, x), found, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_what_a_pooling_left_is_put_back(n: int) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 4, 4)[: n + 2])
    largest, places = getattr(nn, f"MaxPool{n}d")(2, return_indices=True)(x)
    back = getattr(nn, f"MaxUnpool{n}d")(2)(largest, places)
    assert back.shape == x.shape
    assert (back[back != 0] == x[back != 0]).all()
    assert (back != 0).sum() == largest.size


def test_layers_begin_within_pytorchs_bounds() -> None:
    layer = nn.Linear(16, 50)
    assert layer.weight.dtype == np.float32
    assert layer.weight.shape == (50, 16)
    assert 0.2 < np.abs(layer.weight).max() <= 0.25
    assert np.abs(layer.bias).max() <= 0.25
    assert nn.Linear(3, 2, bias=False).bias is None
    kernel = nn.Conv2d(4, 8, 3, groups=2)
    bound = 1 / (2 * 9) ** 0.5
    assert 0.8 * bound < np.abs(kernel.weight).max() <= bound


def test_what_does_not_fit_is_an_error() -> None:
    F = nn.functional
    for shape in ((1,), (5,), (4, 1)):
        with pytest.raises(bs.errors.ShapeError, match="each of 4 channels"):
            F.conv2d(X, np.ones((4, 8, 3, 3)), np.ones(shape))
    for x in (X > 0, X + 0j):
        with pytest.raises(bs.errors.DTypeError, match="real numbers"):
            F.max_pool2d(x, 2)


def test_features_must_fit() -> None:
    with pytest.raises(bs.errors.ShapeError, match="4 features"):
        nn.Linear(4, 3)(np.zeros((2, 5)))


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [1, "same", (2, 1)])
def test_padding_modes_of_convolutions(mode: str, padding: Any) -> None:
    layer = nn.Conv2d(8, 3, 3, padding=padding, padding_mode=mode, dtype=np.float64)
    widths = {1: (1, 1, 1, 1), "same": (1, 1, 1, 1), (2, 1): (1, 1, 2, 2)}[padding]
    how = "constant" if mode == "zeros" else mode
    padded = nn.functional.pad(X, widths, how)
    expected = nn.functional.conv2d(padded, layer.weight, layer.bias)
    np.testing.assert_allclose(layer(X), expected)
