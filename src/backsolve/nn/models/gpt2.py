"""GPT-2 (Radford and others, 2019), with the names and forms of weights that Hugging Face publishes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from ... import random
from ...errors import ShapeError
from ...numpy._register import array, shape_of
from .. import functional as F  # noqa: N812 - as everyone writes it
from ..init import next_key, normal
from ..layers import Dropout, Embedding, LayerNorm
from ..module import Module


class Conv1D(Module):
    """x W + b: a linear layer whose weights lie the other way round, (inputs, outputs)."""

    def __init__(self, outputs: int, inputs: int, std: float, *, key: Any, dtype: Any):
        self.weight = normal((inputs, outputs), 0.0, std, key=key, dtype=dtype)
        self.bias = np.zeros(outputs, dtype)

    def __call__(self, x: Any) -> Any:
        return x @ self.weight + self.bias


class _Attention(Module):
    def __init__(self, n: int, heads: int, dropout: float, std: float, *, key: Any, dtype: Any):
        keys = random.split(key, 4)
        self.heads, self.dropout, self.key = heads, dropout, keys[2]
        self.c_attn = Conv1D(3 * n, n, 0.02, key=keys[0], dtype=dtype)
        self.c_proj = Conv1D(n, n, std, key=keys[1], dtype=dtype)
        self.resid_dropout = Dropout(dropout, key=keys[3])

    buffers: ClassVar[tuple[str, ...]] = ("key",)

    def __call__(self, x: Any) -> Any:
        batch, steps, n = shape_of(x)
        parts = np.reshape(self.c_attn(x), (batch, steps, 3, self.heads, n // self.heads))
        q, k, v = (np.swapaxes(parts[:, :, i], 1, 2) for i in range(3))
        drop, own = self.dropout if self.training else 0.0, None
        if drop:
            self.key, own = random.split(self.key)
        y = F.scaled_dot_product_attention(q, k, v, None, drop, True, generator=own)
        return self.resid_dropout(self.c_proj(np.reshape(np.swapaxes(y, 1, 2), (batch, steps, n))))


class _MLP(Module):
    def __init__(self, n: int, dropout: float, std: float, *, key: Any, dtype: Any):
        keys = random.split(key, 3)
        self.c_fc = Conv1D(4 * n, n, 0.02, key=keys[0], dtype=dtype)
        self.c_proj = Conv1D(n, 4 * n, std, key=keys[1], dtype=dtype)
        self.dropout = Dropout(dropout, key=keys[2])

    def __call__(self, x: Any) -> Any:
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))


class _Block(Module):
    def __init__(self, n: int, heads: int, dropout: float, std: float, *, key: Any, dtype: Any):
        first, second = random.split(key)
        self.ln_1 = LayerNorm(n, dtype=dtype)
        self.attn = _Attention(n, heads, dropout, std, key=first, dtype=dtype)
        self.ln_2 = LayerNorm(n, dtype=dtype)
        self.mlp = _MLP(n, dropout, std, key=second, dtype=dtype)

    def __call__(self, x: Any) -> Any:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class _Transformer(Module):
    def __init__(
        self, tokens: int, places: int, n: int, layers: int, heads: int, dropout: float,
        *, key: Any, dtype: Any,
    ):  # fmt: skip
        keys = random.split(key, layers + 3)
        std = 0.02 / math.sqrt(
            2 * max(layers, 1)
        )  # so that a deep sum is no larger than a short one
        self.wte = Embedding(tokens, n, key=keys[0], dtype=dtype)
        self.wpe = Embedding(places, n, key=keys[1], dtype=dtype)
        for table in (self.wte, self.wpe):
            table.weight = dtype(0.02) * table.weight
        self.drop = Dropout(dropout, key=keys[2])
        self.h = [
            _Block(n, heads, dropout, std, key=keys[k + 3], dtype=dtype) for k in range(layers)
        ]
        self.ln_f = LayerNorm(n, dtype=dtype)

    def __call__(self, tokens: Any) -> Any:
        x = self.drop(self.wte(tokens) + self.wpe.weight[: shape_of(tokens)[-1]])
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


class GPT2(Module):
    """Whole numbers (batch, steps) ↦ logits (batch, steps, vocab_size); sizes as GPT2Config's.

    >>> import numpy as np
    >>> model = GPT2(vocab_size=50, n_positions=16, n_embd=8, n_layer=2, n_head=2)
    >>> model(np.zeros((3, 5), int)).shape
    (3, 5, 50)
    """

    # files hold the table of words twice, and older ones masks
    also_named: ClassVar[dict[str, str]] = {"lm_head.weight": "transformer.wte.weight"}
    not_loaded: ClassVar[tuple[str, ...]] = (".attn.bias", ".attn.masked_bias")

    def __init__(
        self,
        vocab_size: int = 50257,
        n_positions: int = 1024,
        n_embd: int = 768,
        n_layer: int = 12,
        n_head: int = 12,
        dropout: float = 0.1,
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        if n_embd % n_head:
            raise ShapeError(f"n_embd={n_embd} must be a multiple of n_head={n_head}")
        self.transformer = _Transformer(
            vocab_size, n_positions, n_embd, n_layer, n_head, dropout,
            key=next_key(key), dtype=dtype,
        )  # fmt: skip

    def __call__(self, tokens: Any) -> Any:
        tokens = array(tokens)
        places = shape_of(self.transformer.wpe.weight)[0]
        if len(shape_of(tokens)) != 2 or shape_of(tokens)[1] > places:
            raise ShapeError(
                f"GPT2 reads (batch, steps) of at most {places} steps, got shape {shape_of(tokens)}"
            )
        return self.transformer(tokens) @ self.transformer.wte.weight.T
