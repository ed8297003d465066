"""Attention with weights of its own, and the blocks of transformers; weights as PyTorch names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ... import random
from ...errors import ShapeError
from ...numpy._register import array, ndim_of, shape_of
from .. import functional as F  # noqa: N812 - as everyone writes it
from ..functional.attention import attention_weights
from ..init import next_key, xavier_uniform
from ..module import Module
from .containers import Dropout
from .linear import Linear
from .normalisations import LayerNorm


class MultiheadAttention(Module):
    """Attention of several heads: (steps, batch, embed_dim), or batch first, or without batch.

    A call gives the result and, unless need_weights is False, the weights. Masks say where a query does
    *not* look (booleans) or are added to the scores, as PyTorch has it.
    """

    buffers: ClassVar[tuple[str, ...]] = ("key",)

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = False,
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        if embed_dim % num_heads:
            raise ShapeError(f"embed_dim={embed_dim} must be a multiple of num_heads={num_heads}")
        self.num_heads, self.dropout, self.batch_first = num_heads, dropout, batch_first
        first, second, self.key = random.split(next_key(key), 3)
        self.in_proj_weight = xavier_uniform((3 * embed_dim, embed_dim), key=first, dtype=dtype)
        self.in_proj_bias = np.zeros(3 * embed_dim, dtype) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, key=second, dtype=dtype)
        if bias:
            self.out_proj.bias = np.zeros(embed_dim, dtype)

    def __call__(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> Any:
        q, k, v = map(array, (query, key, value))
        alone = ndim_of(q) == 2
        if alone:
            q, k, v = (a[None] for a in (q, k, v))
        elif not self.batch_first:
            q, k, v = (np.swapaxes(a, 0, 1) for a in (q, k, v))
        size = shape_of(q)[-1]
        parts = []
        for n, a in enumerate((q, k, v)):
            rows = slice(n * size, (n + 1) * size)
            bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
            parts.append(self._heads(F.linear(a, self.in_proj_weight[rows], bias)))
        mask = self._mask(attn_mask, key_padding_mask, parts, alone)
        drop = self.dropout if self.training else 0.0
        own = None
        if drop:
            self.key, own = random.split(self.key)
        weights = None
        if need_weights:
            if is_causal and mask is None:
                mask = np.tri(shape_of(q)[1], shape_of(k)[1], dtype=bool)
            weights = attention_weights(parts[0], parts[1], mask, (size // self.num_heads) ** -0.5)
            dropped = F.dropout(weights, drop, generator=own) if drop else weights
            y = dropped @ parts[2]
        else:
            causal = is_causal and mask is None
            y = F.scaled_dot_product_attention(
                parts[0], parts[1], parts[2], mask, drop, causal, generator=own
            )
        y = self.out_proj(np.reshape(np.swapaxes(y, 1, 2), shape_of(q)))
        if weights is not None and average_attn_weights:
            weights = np.mean(weights, axis=1)
        if alone:
            return y[0], None if weights is None else weights[0]
        return (y if self.batch_first else np.swapaxes(y, 0, 1)), weights

    def _heads(self, a: Any) -> Any:
        """(batch, steps, features) ↦ (batch, heads, steps, features of a head)."""
        batch, steps, size = shape_of(a)
        parts = np.reshape(a, (batch, steps, self.num_heads, size // self.num_heads))
        return np.swapaxes(parts, 1, 2)

    def _mask(self, hidden: Any, padding: Any, parts: list[Any], alone: bool) -> Any:
        """Both masks as one that is added, or as one that says where queries look."""
        masks = []
        if hidden is not None:
            hidden = array(hidden)
            if ndim_of(hidden) == 3:  # one for each head of each example
                hidden = np.reshape(hidden, (-1, self.num_heads, *shape_of(hidden)[1:]))
            masks.append(hidden)
        if padding is not None:
            padding = array(padding)
            masks.append((padding[None] if alone else padding)[:, None, None, :])
        if not masks:
            return None
        if all(m.dtype == np.bool_ for m in masks):
            seen = np.logical_not(masks[0])
            return seen if len(masks) == 1 else np.logical_and(seen, np.logical_not(masks[1]))
        dtype = parts[0].dtype
        added = [
            np.where(m, -np.inf, 0.0).astype(dtype) if m.dtype == np.bool_ else m for m in masks
        ]
        return added[0] if len(added) == 1 else added[0] + added[1]


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
