"""Stacks of transformer layers: masks, copies, first values; values are in test_weighted_layers.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn

_rng = np.random.default_rng(0)
SRC, TGT = _rng.normal(size=(3, 6, 8)), _rng.normal(size=(3, 5, 8))
BLOCK: dict[str, Any] = {"dim_feedforward": 12, "batch_first": True, "dtype": np.float64}


def test_an_encoder_is_its_layers_one_after_the_other() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, **BLOCK)
    stack = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8, dtype=np.float64)).eval()
    layer.eval()
    later = ~np.tri(6, dtype=bool)
    padded = np.arange(6) >= np.array([[6], [4], [5]])
    x = layer(layer(SRC, later, padded), later, padded)
    np.testing.assert_allclose(stack(SRC, later, padded), nn.LayerNorm(8, dtype=np.float64)(x))
    np.testing.assert_allclose(stack(SRC, None, padded, is_causal=True), stack(SRC, later, padded))
    assert "layers.1.self_attn.in_proj_weight" in stack.named_parameters()


def test_copies_begin_with_equal_weights_and_drop_other_entries() -> None:
    stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, **BLOCK), 2)
    first, second = stack.layers
    np.testing.assert_array_equal(first.linear1.weight, second.linear1.weight)
    assert first.linear1.weight is not second.linear1.weight
    assert not np.array_equal(first.dropout.key.key, second.dropout.key.key)


def test_a_decoder_attends_to_what_it_is_given() -> None:
    layer = nn.TransformerDecoderLayer(8, 2, **BLOCK)
    stack = nn.TransformerDecoder(layer, 2).eval()
    layer.eval()
    hidden = _rng.uniform(size=(5, 6)) < 0.3
    options: dict[str, Any] = {"memory_mask": hidden, "tgt_is_causal": True}
    x = layer(layer(TGT, SRC, **options), SRC, **options)
    np.testing.assert_allclose(stack(TGT, SRC, **options), x)


def test_a_transformer_is_its_two_halves() -> None:
    model = nn.Transformer(
        8, 2, 2, 1, 12, batch_first=True, key=bs.random.key(0), dtype=np.float64
    ).eval()
    mask = nn.Transformer.generate_square_subsequent_mask(5, np.float64)
    y = model(SRC, TGT, tgt_mask=mask)
    np.testing.assert_allclose(y, model.decoder(TGT, model.encoder(SRC), mask))
    # Xavier's bounds, and copies that differ
    w = model.encoder.layers[0].linear1.weight
    assert 0.9 * np.sqrt(6 / 20) < np.abs(w).max() <= np.sqrt(6 / 20)
    assert not np.array_equal(w, model.encoder.layers[1].linear1.weight)
    own = nn.Transformer(8, 2, 1, 1, 12, custom_encoder=model.encoder, dtype=np.float64)
    assert len(own.encoder.layers) == 2


def test_appended_keys_are_never_hidden() -> None:
    layer = nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True, batch_first=True)
    x = SRC.astype(np.float32)
    _, weights = layer(x, x, x, key_padding_mask=np.ones((3, 6), bool), is_causal=True)
    assert weights.shape == (3, 6, 8)
    np.testing.assert_array_equal(weights[..., :6], 0)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-6)
    y, _ = layer(x, x, x, is_causal=True, need_weights=False)
    same, weights = layer(x, x, x, attn_mask=~np.tri(6, dtype=bool))
    np.testing.assert_allclose(y, same, rtol=1e-5, atol=1e-6)


def test_padding_and_causal_go_together() -> None:
    layer = nn.MultiheadAttention(8, 2, batch_first=True, dtype=np.float64)
    padded = np.arange(6) >= np.array([[6], [4], [5]])
    y, _ = layer(SRC, SRC, SRC, padded, need_weights=False, is_causal=True)
    same, _ = layer(SRC, SRC, SRC, padded, attn_mask=~np.tri(6, dtype=bool))
    np.testing.assert_allclose(y, same)


def test_features_are_checked_by_name() -> None:
    layer = nn.MultiheadAttention(8, 2, kdim=3)
    with pytest.raises(bs.errors.ShapeError, match="key must have 3 features"):
        layer(np.ones((4, 8)), np.ones((4, 8)), np.ones((4, 8)))
    with pytest.raises(bs.errors.ShapeError, match="query must have 8 features"):
        layer(np.ones((4, 3)), np.ones((4, 3)), np.ones((4, 8)))
