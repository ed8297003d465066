"""Attention and its adjoints. Softmax and its relatives are written out before (rewrite/expand.py)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from .base import as_output, row


def _weights(m: Any, q: Any, k: Any, scale: float, causal: bool) -> Any:
    s = jnp.einsum("...id,...jd->...ij", q, k, precision=m.precision) * jnp.asarray(scale, q.dtype)
    if causal:
        n, keys = s.shape[-2:]
        s = jnp.where(jnp.tri(n, keys, dtype=bool), s, -jnp.inf)
    s = jnp.exp(s - jnp.max(s, axis=-1, keepdims=True, initial=-jnp.inf))
    return s / jnp.sum(s, axis=-1, keepdims=True)


@row("attention")
def attention(m: Any, e: Any, inputs: Any) -> Any:
    q, k, v = as_output(e, inputs)
    W = _weights(m, q, k, e.params["scale"], e.params["causal"])
    return jnp.einsum("...ij,...je->...ie", W, v, precision=m.precision)


@row("attention_adjoint")
def attention_adjoint(m: Any, e: Any, inputs: Any) -> Any:
    q, k, v, u = as_output(e, inputs)
    scale, which = e.params["scale"], e.params["which"]
    W = _weights(m, q, k, scale, e.params["causal"])
    if which == 2:
        return jnp.einsum("...ij,...ie->...je", W, u, precision=m.precision)
    S = jnp.einsum("...ie,...je->...ij", u, v, precision=m.precision) * W
    S = (S - W * jnp.sum(S, axis=-1, keepdims=True)) * jnp.asarray(scale, q.dtype)
    if which == 0:
        return jnp.einsum("...ij,...jd->...id", S, k, precision=m.precision)
    return jnp.einsum("...ij,...id->...jd", S, q, precision=m.precision)
