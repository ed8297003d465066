"""Attention and its adjoints. Softmax and its relatives are written out before (rewrite/expand.py).

Of 16-bit arrays the products are taken in 16 bits, the weights in float32. The adjoints of q, k and v repeat
the weights word for word: XLA computes them once. On GPUs cuDNN has kernels for the value and for the three
adjoints at once, which hold no weights; where shapes suit them, equations of the same q, k and v share a call.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .base import as_output, is_half, row

_MOST_OF_A_HEAD = 128  # numbers of a key, in cuDNN's kernels
_KEYS_AT_A_TIME = 64


def _product(m: Any, labels: str, a: Any, b: Any) -> Any:
    """In float32 if the operands have 16 bits."""
    wide = jnp.float32 if is_half(a) else None
    return jnp.einsum(labels, a, b, precision=m.precision, preferred_element_type=wide)


def _weights(m: Any, q: Any, k: Any, scale: float, causal: bool) -> Any:
    s = _product(m, "...id,...jd->...ij", q, k)
    s = s * jnp.asarray(scale, s.dtype)
    if causal:
        rows, columns = (lax.broadcasted_iota(jnp.int32, s.shape[-2:], axis) for axis in (0, 1))
        s = jnp.where(columns <= rows, s, -jnp.inf)
    s = jnp.exp(s - jnp.max(s, axis=-1, keepdims=True, initial=-jnp.inf))
    return s / jnp.sum(s, axis=-1, keepdims=True)


@row("attention")
def attention(m: Any, e: Any, inputs: Any) -> Any:
    q, k, v = as_output(m, e, inputs)
    if m.on_gpu and _suits_cudnn(q, k, v):
        return _by_cudnn(m, e, inputs, (q, k, v)).value
    W = _weights(m, q, k, e.params["scale"], e.params["causal"])
    return jnp.einsum("...ij,...je->...ie", W.astype(v.dtype), v, precision=m.precision)


@row("attention_adjoint")
def attention_adjoint(m: Any, e: Any, inputs: Any) -> Any:
    q, k, v, u = as_output(m, e, inputs)
    scale, which = e.params["scale"], e.params["which"]
    if m.on_gpu and _suits_cudnn(q, k, v):
        return _by_cudnn(m, e, inputs, (q, k, v)).adjoints(inputs[3], u)[which]
    W = _weights(m, q, k, scale, e.params["causal"])
    if which == 2:
        return jnp.einsum("...ij,...ie->...je", W.astype(u.dtype), u, precision=m.precision)
    S = _product(m, "...ie,...je->...ij", u, v) * W
    S = (S - W * jnp.sum(S, axis=-1, keepdims=True)) * jnp.asarray(scale, S.dtype)
    S = S.astype(q.dtype)
    if which == 0:
        return jnp.einsum("...ij,...jd->...id", S, k, precision=m.precision)
    return jnp.einsum("...ij,...id->...jd", S, q, precision=m.precision)


# ---- by cuDNN


def _suits_cudnn(q: Any, k: Any, v: Any) -> bool:
    if not is_half(q) or q.ndim != 4 or not q.shape == k.shape == v.shape:
        return False
    n, d = q.shape[-2:]
    return d % 8 == 0 and d <= _MOST_OF_A_HEAD and n % _KEYS_AT_A_TIME == 0 and q.size > 0


class _ByCudnn:
    """The value for q, k and v, and the adjoints from what its kernel leaves. Heads stand behind places."""

    def __init__(self, given: Any, arrays: Any, scale: float, causal: bool) -> None:
        self._given = given  # kept: they are known by their ids

        def run(q: Any, k: Any, v: Any) -> Any:
            turned = [jnp.swapaxes(a, 1, 2) for a in (q, k, v)]
            y = jax.nn.dot_product_attention(
                *turned, scale=scale, is_causal=causal, implementation="cudnn"
            )
            return jnp.swapaxes(y, 1, 2)

        # One operator with a kernel of its own for its adjoint: nothing is differentiated here.
        self.value, self._pull = jax.vjp(run, *arrays)
        self._pulled: dict[int, tuple[Any, Any]] = {}

    def adjoints(self, given: Any, u: Any) -> Any:
        """Of q, k and v."""
        if id(given) not in self._pulled:
            self._pulled[id(given)] = given, self._pull(u)
        return self._pulled[id(given)][1]


def _by_cudnn(m: Any, e: Any, inputs: Any, arrays: Any) -> _ByCudnn:
    """What equations of the same q, k and v share while a program is translated."""
    given, scale, causal = inputs[:3], e.params["scale"], e.params["causal"]
    key = (*map(id, given), scale, causal)
    if key not in m.attentions:
        m.attentions[key] = _ByCudnn(given, arrays, scale, causal)
    return m.attentions[key]
