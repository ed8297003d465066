"""Scaled dot-product attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import DTypeError, UnsupportedError
from ...numpy._register import array, dtype_of
from ...primitive import P


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(scale · query keyᵀ) value, as PyTorch's: (…, n, d), (…, m, d), (…, m, e) ↦ (…, n, e).

    Leading axes are broadcast. `scale` is 1/√d if not given. `attn_mask`, of a shape that broadcasts to
    (…, n, m), says where a query looks (booleans) or is added to the scores. With `is_causal`, query i
    looks at the keys 0 … i. A query that looks at no key gives zeros. `enable_gqa` repeats the heads of
    keys and values (axis −3) to as many as queries have. Dropout is not offered.

    Without a mask the n × m scores are never held, and those that `is_causal` hides are not computed.

    >>> import numpy as np
    >>> q, k, v = np.zeros((3, 3, 2))
    >>> scaled_dot_product_attention(q, k, v + np.array([[3.0], [0.0], [6.0]]), is_causal=True)[:, 0]
    array([3. , 1.5, 3. ])
    """
    if dropout_p:
        raise UnsupportedError(f"attention takes no dropout, got dropout_p={dropout_p}")
    if is_causal and attn_mask is not None:
        raise ValueError("give attn_mask or is_causal=True, not both: a mask may be causal itself")
    q, k, v = map(array, (query, key, value))
    if any(dtype_of(a).kind != "f" for a in (q, k, v)):
        dtypes = ", ".join(str(dtype_of(a)) for a in (q, k, v))
        raise DTypeError(f"attention needs real floating-point arrays, got {dtypes}")
    if enable_gqa:
        k, v = (np.repeat(a, q.shape[-3] // a.shape[-3], axis=-3) for a in (k, v))
    scale = float(q.shape[-1]) ** -0.5 if scale is None else float(scale)
    if attn_mask is not None:
        return _masked(q, k, v, array(attn_mask), scale)
    lead = np.broadcast_shapes(*[a.shape[:-2] for a in (q, k, v)])
    q, k, v = (_stacked(a, lead) for a in (q, k, v))
    return P.attention(q, k, v, scale=scale, causal=bool(is_causal))


def _stacked(a: Any, lead: tuple[int, ...]) -> Any:
    return a if a.shape[:-2] == lead else np.broadcast_to(a, (*lead, *a.shape[-2:]))


def _masked(q: Any, k: Any, v: Any, mask: Any, scale: float) -> Any:
    scores = (q @ np.swapaxes(k, -1, -2)) * scale
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
    return np.where(looks, weights, 0.0) @ v
