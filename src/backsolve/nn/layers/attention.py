"""Attention with weights of its own, named as PyTorch names them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ... import random
from ...errors import ShapeError
from ...numpy._register import array, dtype_of, ndim_of, shape_of
from .. import functional as F  # noqa: N812 - as everyone writes it
from ..functional.attention import attention_weights
from ..init import next_key, xavier_normal, xavier_uniform
from ..module import Module
from .linear import Linear


class MultiheadAttention(Module):
    """Attention of several heads: (steps, batch, embed_dim), or batch first, or without batch.

    A call gives the result and, unless need_weights is False, the weights. Masks say where a query does
    *not* look (booleans) or are added to the scores, as PyTorch has it. `add_bias_kv` appends one learnt key
    and value to each sequence, `add_zero_attn` one of zeros; masks never hide these.

    >>> import numpy as np
    >>> y, weights = MultiheadAttention(8, 2, kdim=3, vdim=5)(np.ones((4, 8)), np.ones((6, 3)), np.ones((6, 5)))
    >>> y.shape, weights.shape
    ((4, 8), (4, 6))
    """

    buffers: ClassVar[tuple[str, ...]] = ("key",)

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        *,
        key: Any = None,
        dtype: Any = np.float32,
    ):
        if embed_dim % num_heads:
            raise ShapeError(f"embed_dim={embed_dim} must be a multiple of num_heads={num_heads}")
        self.num_heads, self.dropout, self.batch_first = num_heads, dropout, batch_first
        self.add_zero_attn = add_zero_attn
        first, second, third, self.key = random.split(next_key(key), 4)
        sizes = (embed_dim, kdim or embed_dim, vdim or embed_dim)
        if sizes == (embed_dim,) * 3:
            self.in_proj_weight = xavier_uniform((3 * embed_dim, embed_dim), key=first, dtype=dtype)
        else:
            for name, size, own in zip("qkv", sizes, random.split(first, 3), strict=True):
                drawn = xavier_uniform((embed_dim, size), key=own, dtype=dtype)
                setattr(self, f"{name}_proj_weight", drawn)
        self.in_proj_bias = np.zeros(3 * embed_dim, dtype) if bias else None
        self.bias_k: Any = None
        self.bias_v: Any = None
        if add_bias_kv:
            for name, own in zip("kv", random.split(third), strict=True):
                setattr(
                    self, f"bias_{name}", xavier_normal((1, 1, embed_dim), key=own, dtype=dtype)
                )
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
        parts = [self._heads(a) for a in self._extended(*self._projected(q, k, v))]
        more = shape_of(parts[1])[2] - shape_of(k)[1]  # keys that were appended
        if (
            is_causal
            and attn_mask is None
            and (need_weights or more or key_padding_mask is not None)
        ):
            attn_mask, is_causal = ~np.tri(shape_of(q)[1], shape_of(k)[1], dtype=bool), False
        mask = self._mask(attn_mask, key_padding_mask, more, dtype_of(parts[0]), alone)
        drop = self.dropout if self.training else 0.0
        own = None
        if drop:
            self.key, own = random.split(self.key)
        weights = None
        if need_weights:
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

    def _projected(self, *inputs: Any) -> list[Any]:
        """What is asked, what it is compared with and what is read, all of embed_dim features."""
        own = vars(self)
        size = self.out_proj.weight.shape[0]
        found = []
        for n, (name, a) in enumerate(zip(("query", "key", "value"), inputs, strict=True)):
            rows = slice(n * size, (n + 1) * size)
            joint = own.get("in_proj_weight")
            weight = own[f"{name[0]}_proj_weight"] if joint is None else joint[rows]
            if shape_of(a)[-1] != shape_of(weight)[1]:
                raise ShapeError(
                    f"MultiheadAttention: {name} must have {shape_of(weight)[1]} features along its "
                    f"last axis, got {shape_of(a)[-1]}"
                )
            bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
            found.append(F.linear(a, weight, bias))
        return found

    def _extended(self, q: Any, k: Any, v: Any) -> list[Any]:
        """With the keys and values appended that are learnt, or zeros."""
        batch, _, size = shape_of(k)
        one = (batch, 1, size)
        if self.bias_k is not None:
            k = np.concatenate([k, np.broadcast_to(self.bias_k, one)], axis=1)
            v = np.concatenate([v, np.broadcast_to(self.bias_v, one)], axis=1)
        if self.add_zero_attn:
            k = np.concatenate([k, np.zeros(one, dtype_of(k))], axis=1)
            v = np.concatenate([v, np.zeros(one, dtype_of(v))], axis=1)
        return [q, k, v]

    def _heads(self, a: Any) -> Any:
        """(batch, steps, features) ↦ (batch, heads, steps, features of a head)."""
        batch, steps, size = shape_of(a)
        parts = np.reshape(a, (batch, steps, self.num_heads, size // self.num_heads))
        return np.swapaxes(parts, 1, 2)

    def _mask(self, hidden: Any, padding: Any, more: int, dtype: Any, alone: bool) -> Any:
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
        if more:
            masks = [np.pad(m, [(0, 0)] * (ndim_of(m) - 1) + [(0, more)]) for m in masks]
        if all(m.dtype == np.bool_ for m in masks):
            seen = np.logical_not(masks[0])
            return seen if len(masks) == 1 else np.logical_and(seen, np.logical_not(masks[1]))
        added = [
            np.where(m, -np.inf, 0.0).astype(dtype) if m.dtype == np.bool_ else m for m in masks
        ]
        return added[0] if len(added) == 1 else added[0] + added[1]
