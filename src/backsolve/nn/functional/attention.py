"""Scaled dot-product attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import random
from ...control import map as mapped
from ...errors import DTypeError, ShapeError
from ...numpy._register import array, dtype_of, ndim_of, shape_of
from ...primitive import P
from ...solve.checkpoint import checkpoint
from ._arguments import needed
from .dropout import dropout

TILE = 128  # queries at a time, where there is a mask or dropout
LARGE = 1 << 20  # scores from which on they are not held


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    generator: Any = None,
) -> Any:
    """softmax(scale · query keyᵀ) value, as PyTorch's: (…, n, d), (…, m, d), (…, m, e) ↦ (…, n, e).

    Leading axes are broadcast. `scale` is 1/√d if not given. `attn_mask`, of a shape that broadcasts to
    (…, n, m), says where a query looks (booleans) or is added to the scores. With `is_causal`, query i
    looks at the keys 0 … i. A query that looks at no key gives zeros. `enable_gqa` repeats the heads of
    keys and values (axis −3) to as many as queries have. With `dropout_p`, weights are dropped at random, drawn
    with `generator` (a state of backsolve.random).

    The n × m scores are never held, not for derivatives either, where there are a million of them or neither
    mask nor dropout. Those that `is_causal` alone hides are not computed.

    >>> import numpy as np
    >>> q, k, v = np.zeros((3, 3, 2))
    >>> scaled_dot_product_attention(q, k, v + np.array([[3.0], [0.0], [6.0]]), is_causal=True)[:, 0]
    array([3. , 1.5, 3. ])
    """
    if is_causal and attn_mask is not None:
        raise ValueError("give attn_mask or is_causal=True, not both: a mask may be causal itself")
    q, k, v = map(array, (query, key, value))
    if any(dtype_of(a).kind != "f" for a in (q, k, v)):
        dtypes = ", ".join(str(dtype_of(a)) for a in (q, k, v))
        raise DTypeError(f"attention needs real floating-point arrays, got {dtypes}")
    if enable_gqa:
        k, v = (np.repeat(a, q.shape[-3] // a.shape[-3], axis=-3) for a in (k, v))
    scale = float(q.shape[-1]) ** -0.5 if scale is None else float(scale)
    if attn_mask is not None or dropout_p:
        mask = None if attn_mask is None else array(attn_mask)
        if shape_of(q)[-2] * shape_of(k)[-2] >= LARGE:
            return _in_tiles(q, k, v, mask, is_causal, scale, dropout_p, generator)
        if is_causal:
            mask = np.tri(shape_of(q)[-2], shape_of(k)[-2], dtype=bool)
        weights = attention_weights(q, k, mask, scale)
        return dropout(weights, dropout_p, generator=generator) @ v if dropout_p else weights @ v
    lead = np.broadcast_shapes(*[a.shape[:-2] for a in (q, k, v)])
    q, k, v = (_stacked(a, lead) for a in (q, k, v))
    return P.attention(q, k, v, scale=scale, causal=bool(is_causal))


def _stacked(a: Any, lead: tuple[int, ...]) -> Any:
    return a if a.shape[:-2] == lead else np.broadcast_to(a, (*lead, *a.shape[-2:]))


def _in_tiles(
    q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float, p: float, generator: Any
) -> Any:
    """Some queries at a time, whose scores a derivative computes again."""
    n, m = shape_of(q)[-2], shape_of(k)[-2]
    count = -(-n // TILE)

    def tiles(a: Any) -> Any:
        """(…, n, x) ↦ (count, …, TILE, x), with zeros behind the last."""
        widths = [(0, 0)] * (ndim_of(a) - 2) + [(0, count * TILE - n), (0, 0)]
        full = np.pad(a, widths) if count * TILE > n else a
        *lead, _, last = shape_of(full)
        return np.moveaxis(np.reshape(full, (*lead, count, TILE, last)), -3, 0)

    parts: dict[str, Any] = {"q": tiles(q), "first": np.arange(count) * TILE}
    fixed: dict[str, Any] = {"k": k, "v": v}
    if mask is not None:
        by_query = ndim_of(mask) > 1 and shape_of(mask)[-2] > 1
        (parts if by_query else fixed)["mask"] = tiles(mask) if by_query else mask
    if p:
        parts["generator"] = random.split(needed("scaled_dot_product_attention", generator), count)

    @checkpoint
    def some(own: dict[str, Any], fixed: dict[str, Any]) -> Any:
        both = own | fixed
        seen = both.get("mask")
        if causal:
            seen = np.arange(m) <= (both["first"] + np.arange(TILE))[:, None]
        weights = attention_weights(both["q"], both["k"], seen, scale)
        weights = dropout(weights, p, generator=both["generator"]) if p else weights
        return weights @ both["v"]

    y = np.moveaxis(mapped(lambda own: some(own, fixed), parts), 0, -3)
    *lead, _, _, last = shape_of(y)
    return np.reshape(y, (*lead, count * TILE, last))[..., :n, :]


def attention_weights(q: Any, k: Any, mask: Any, scale: float) -> Any:
    """softmax(scale · q kᵀ), 0 where the mask hides a key, and 0 everywhere for a query that looks at none."""
    scores = (q @ np.swapaxes(k, -1, -2)) * scale
    if mask is None:
        return P.softmax(scores, axis=(len(scores.shape) - 1,))
    if dtype_of(mask) == np.bool_:
        seen = mask
    else:
        scores = scores + mask
        seen = np.not_equal(mask, -np.inf)
    # Where a query looks at no key, softmax looks at all of them, and what it gives is dropped.
    looks = np.any(seen, axis=-1, keepdims=True)
    scores = np.where(np.logical_or(seen, np.logical_not(looks)), scores, -np.inf)
    scores = np.where(looks, scores, 0.0)
    weights = P.softmax(scores, axis=(len(scores.shape) - 1,))
    return np.where(looks, weights, 0.0)


def rotary_embedding(input: Any, base: float = 10000.0, offset: Any = 0) -> Any:
    """(…, steps, features): entries k and k + features / 2 of step t turned by t / base^(2k / features).

    So the product of two of them depends on how far apart they stand. `offset` is the number of the first step.
    """
    x = array(input)
    steps, features = shape_of(x)[-2:]
    if features % 2:
        raise ShapeError(f"rotary_embedding turns pairs of features, got {features}")
    half = features // 2
    speed = base ** (-np.arange(half) / half)
    angle = ((np.arange(steps) + offset)[:, None] * speed).astype(dtype_of(x))
    cos, sin = np.cos(angle), np.sin(angle)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
