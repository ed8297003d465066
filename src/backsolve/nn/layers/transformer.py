"""Blocks of transformers, and stacks of them; weights as PyTorch names them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ... import random
from .. import functional as F  # noqa: N812 - as everyone writes it
from ..init import next_key, xavier_uniform
from ..module import Module
from .attention import MultiheadAttention
from .containers import Dropout
from .linear import Linear
from .normalisations import LayerNorm


class _Block(Module):
    """What encoder and decoder share: the two maps behind attention."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Any], Any] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        keys = random.split(next_key(key), 6)
        attention = dict(dropout=dropout, bias=bias, batch_first=batch_first, dtype=dtype)
        self.self_attn = MultiheadAttention(d_model, nhead, **attention, key=keys[0])
        if self.attends:
            self.multihead_attn = MultiheadAttention(d_model, nhead, **attention, key=keys[1])
        self.linear1 = Linear(d_model, dim_feedforward, bias, key=keys[2], dtype=dtype)
        self.linear2 = Linear(dim_feedforward, d_model, bias, key=keys[3], dtype=dtype)
        for k in range(2 + self.attends):
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
            setattr(self, f"norm{k + 1}", norm)
        self.dropout = Dropout(dropout, key=keys[4])
        self.activation = getattr(F, activation) if isinstance(activation, str) else activation
        self.norm_first = norm_first

    attends: ClassVar[bool] = False  # to another sequence, too

    def _around(self, x: Any, norm: Any, part: Callable[[Any], Any]) -> Any:
        return x + part(norm(x)) if self.norm_first else norm(x + part(x))

    def _feed_forward(self, x: Any) -> Any:
        return self.dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))

    def _attend(self, layer: Any, x: Any, memory: Any, **masks: Any) -> Any:
        return self.dropout(layer(x, memory, memory, need_weights=False, **masks)[0])


class TransformerEncoderLayer(_Block):
    """Self-attention and a map of two layers, each with a way around and a norm."""

    norm1: Any
    norm2: Any

    def __call__(
        self,
        src: Any,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Any:
        masks = dict(attn_mask=src_mask, key_padding_mask=src_key_padding_mask, is_causal=is_causal)
        x = self._around(src, self.norm1, lambda x: self._attend(self.self_attn, x, x, **masks))
        return self._around(x, self.norm2, self._feed_forward)


class TransformerDecoderLayer(_Block):
    """Self-attention, attention to another sequence, and a map of two layers."""

    attends = True
    norm1: Any
    norm2: Any
    norm3: Any

    def __call__(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        own = dict(
            attn_mask=tgt_mask, key_padding_mask=tgt_key_padding_mask, is_causal=tgt_is_causal
        )
        other = dict(
            attn_mask=memory_mask,
            key_padding_mask=memory_key_padding_mask,
            is_causal=memory_is_causal,
        )
        x = self._around(tgt, self.norm1, lambda x: self._attend(self.self_attn, x, x, **own))
        x = self._around(
            x, self.norm2, lambda x: self._attend(self.multihead_attn, x, memory, **other)
        )
        return self._around(x, self.norm3, self._feed_forward)


# ---- stacks


class _Stack(Module):
    """Copies of a layer, one above the other, and a norm behind them."""

    def __init__(self, layer: Any, num_layers: int, norm: Any = None, *, key: Any = None):
        keys = random.split(next_key(key), max(num_layers, 1))
        self.layers = [_copied(layer, keys[k]) for k in range(num_layers)]
        self.norm = norm

    def _through(self, x: Any, *others: Any, **masks: Any) -> Any:
        for layer in self.layers:
            x = layer(x, *others, **masks)
        return x if self.norm is None else self.norm(x)


def _copied(layer: Any, key: Any) -> Any:
    """A copy with the same weights, which draws other numbers."""
    new = copy.deepcopy(layer)
    for _, module in new.modules():
        if "key" in module.buffers:
            key, module.key = random.split(key)
    return new


class TransformerEncoder(_Stack):
    """num_layers copies of an encoder layer. `is_causal` without a mask hides what comes later."""

    def __init__(self, encoder_layer: Any, num_layers: int, norm: Any = None, *, key: Any = None):
        super().__init__(encoder_layer, num_layers, norm, key=key)

    def __call__(
        self,
        src: Any,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Any:
        return self._through(src, mask, src_key_padding_mask, is_causal=bool(is_causal))


class TransformerDecoder(_Stack):
    """num_layers copies of a decoder layer."""

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Any = None, *, key: Any = None):
        super().__init__(decoder_layer, num_layers, norm, key=key)

    def __call__(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        return self._through(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            tgt_is_causal=bool(tgt_is_causal), memory_is_causal=memory_is_causal,
        )  # fmt: skip


class Transformer(Module):
    """An encoder, and a decoder that attends to what it found (Vaswani and others, 2017).

    >>> import numpy as np
    >>> model = Transformer(8, 2, 1, 1, 16)
    >>> model(np.ones((5, 3, 8), np.float32), np.ones((4, 3, 8), np.float32)).shape
    (4, 3, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Any], Any] = "relu",
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        keys = random.split(next_key(key), 5)

        def stack(kind: Any, layer: Any, count: int, own: Any) -> Any:
            first, second = random.split(own)
            block = layer(
                d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps,
                batch_first, norm_first, bias, key=first, dtype=dtype,
            )  # fmt: skip
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
            return kind(block, count, norm, key=second)

        self.encoder = custom_encoder or stack(
            TransformerEncoder, TransformerEncoderLayer, num_encoder_layers, keys[0]
        )
        self.decoder = custom_decoder or stack(
            TransformerDecoder, TransformerDecoderLayer, num_decoder_layers, keys[1]
        )
        matrices = {n: a for n, a in self.named_parameters().items() if a.ndim > 1}
        drawn = random.split(keys[2], max(len(matrices), 1))
        fresh = {
            name: xavier_uniform(a.shape, key=drawn[k], dtype=a.dtype)
            for k, (name, a) in enumerate(matrices.items())
        }
        self.__dict__.update(vars(self.replace(fresh)))

    def __call__(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            tgt_is_causal, memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, dtype: Any = np.float32) -> Any:
        """A mask to be added: −∞ where a key comes after its query."""
        return np.where(np.tri(sz, dtype=bool), 0.0, -np.inf).astype(dtype)
