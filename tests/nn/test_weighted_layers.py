"""Modules with weights against PyTorch's: values and gradients in every parameter, eager and compiled."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from module_cases import MODULES, arrays_of, direction, inputs_of, kept, label_of, made, numbers
from references import load, weights_of

import backsolve as bs
from backsolve import nn

figures = cache(load)


@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("case", MODULES, ids=[label_of(*case) for case in MODULES])
def test_like_pytorch(case: Any, compile: Any) -> None:
    name, arguments, settings, shape = case
    module = made(nn, nn.utils.parametrizations, name, arguments, settings, np.float64)
    starts = {
        k: direction(k, a.shape)
        for k, a in module.named_buffers().items()
        if k[-2:] in ("_u", "_v")
    }
    module = module.replace(starts)
    own = module.named_parameters()
    parameters = {k: numbers(k, p.shape) for k, p in own.items()}
    inputs = inputs_of(shape)

    def total(parameters: Any, inputs: Any) -> Any:
        results = arrays_of(module.replace(parameters)(*inputs))
        sums = [np.sum(np.sin(r) * weights_of(r.shape, k)) for k, r in enumerate(results)]
        return sum(sums), results

    gradients, results = compile(bs.grad(total, (0, 1), has_aux=True))(parameters, inputs)
    into = {f"input {k}": g for k, g in enumerate(gradients[1])}
    found = kept(results, gradients[0] | into)
    expected = figures("modules")[label_of(*case)]
    assert set(found) == set(expected)
    for what, figure in found.items():
        np.testing.assert_allclose(figure, expected[what], rtol=1e-9, atol=1e-10, err_msg=what)


def test_masks_of_attention() -> None:
    layer = nn.MultiheadAttention(8, 2, batch_first=True, dtype=np.float64)
    x = np.random.default_rng(0).normal(size=(3, 5, 8))
    later = ~np.tri(5, dtype=bool)
    causal, weights = layer(x, x, x, attn_mask=later)
    assert (weights[:, later] == 0).all()
    added = np.where(later, -np.inf, 0.0)
    for options in (
        {"is_causal": True},
        {"attn_mask": added},
        {"attn_mask": np.stack([later] * 6)},
    ):
        for need in (True, False):
            y, _ = layer(x, x, x, need_weights=need, **options)
            np.testing.assert_allclose(y, causal)
    padded = np.array([[False] * 5, [False] * 3 + [True] * 2, [False] * 5])
    y, _ = layer(x, x, x, key_padding_mask=padded)
    np.testing.assert_allclose(y[1], layer(x[1:2], x[1:2, :3], x[1:2, :3])[0][0])
    both, _ = layer(x, x, x, key_padding_mask=padded, attn_mask=later)
    mixed, _ = layer(x, x, x, key_padding_mask=padded, attn_mask=added)
    np.testing.assert_allclose(both, mixed)


def test_a_given_state_is_where_it_begins() -> None:
    layer = nn.LSTM(3, 5, dtype=np.float64)
    x = np.random.default_rng(0).normal(size=(7, 2, 3))
    whole, end = layer(x)
    first, state = layer(x[:4])
    second, last = layer(x[4:], state)
    np.testing.assert_allclose(np.concatenate([first, second]), whole)
    for a, b in zip(last, end, strict=True):
        np.testing.assert_allclose(a, b)


def test_dropout_between_layers_is_drawn_anew_and_only_in_training() -> None:
    layer = nn.GRU(3, 5, num_layers=2, dropout=0.5, dtype=np.float64)
    x = np.random.default_rng(0).normal(size=(4, 2, 3))
    assert "key.key" in layer.named_buffers()
    assert not np.array_equal(layer(x)[0], layer(x)[0])
    layer.eval()
    np.testing.assert_array_equal(layer(x)[0], layer(x)[0])


def test_ranks_are_checked() -> None:
    with pytest.raises(bs.errors.ShapeError, match="steps, batch, features"):
        nn.GRU(3, 5)(np.zeros(3))


@pytest.mark.parametrize("compile", [lambda f: f, bs.jit], ids=["eager", "compiled"])
def test_shapes_that_do_not_fit_are_named(compile: Any) -> None:
    x = np.zeros((7, 2, 3))
    for layer, given, message in [
        (nn.LSTM(4, 5), (x,), r"LSTM: input must have 4 features .* \(7, 2, 3\)"),
        (nn.LSTM(3, 5), (x, np.zeros((1, 2, 5))), r"hx must be a pair \(h, c\)"),
        (nn.LSTM(3, 5, proj_size=2), (x, (np.zeros((1, 2, 5)),) * 2), r"\(\(1, 2, 2\), \(1, 2, 5\)\)"),
        (nn.GRU(3, 5), (x, np.zeros((1, 3, 5))), r"hx must be of shape \(1, 2, 5\), got \(1, 3, 5\)"),
        (nn.GRUCell(4, 5), (x[0],), "GRUCell: input must have 4 features"),
        (nn.LSTMCell(3, 5), (x[0], np.zeros((2, 5))), "LSTMCell: hx must be a pair"),
    ]:  # fmt: skip
        with pytest.raises(bs.errors.ShapeError, match=message):
            compile(lambda *a, layer=layer: layer(*a))(*given)
    with pytest.raises(ValueError, match="proj_size is for LSTM only"):
        nn.GRU(3, 5, proj_size=2)
    with pytest.raises(ValueError, match="less than hidden_size"):
        nn.LSTM(3, 5, proj_size=5)
