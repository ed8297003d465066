"""Reductions and running sums and products."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from .base import ROWS, plain, row


def _over(name: str, reduce: Any) -> None:
    plain(name)(lambda a, *, axis, keepdims: reduce(a, axis=axis, keepdims=keepdims))


_over("sum", jnp.sum)
_over("prod", jnp.prod)
_over("max", jnp.max)
_over("first_max", jnp.max)
_over("min", jnp.min)


def _as_it_is(name: str, reduce: Any) -> None:
    ROWS[name] = lambda m, e, inputs: reduce(jnp.asarray(inputs[0]), **e.params)


_as_it_is("any", jnp.any)
_as_it_is("all", jnp.all)
_as_it_is("argmax", jnp.argmax)
_as_it_is("argmin", jnp.argmin)

plain("cumsum")(lambda a, *, axis: jnp.cumsum(a, axis))
plain("cumprod")(lambda a, *, axis: jnp.cumprod(a, axis))


@plain("recurrence")
def recurrence(a: Any, t: Any, *, axis: int, reverse: bool) -> Any:
    """s_j = a_j s_{j−1} + t_j, in log depth."""
    if not a.size:
        return t

    def joined(first: Any, second: Any) -> Any:
        return first[0] * second[0], second[0] * first[1] + second[1]

    return lax.associative_scan(joined, (a, t), reverse=reverse, axis=axis)[1]


@row("block_recurrence")
def block_recurrence(m: Any, e: Any, inputs: Any) -> Any:
    """The same for matrices and vectors, round by round."""
    a, t = (jnp.asarray(x).astype(m.dtype(e.outputs[0])) for x in inputs)
    a, t = jnp.moveaxis(a, -3, 0), jnp.moveaxis(t, -2, 0)

    def step(s: Any, given: Any) -> Any:
        A, b = given
        s = jnp.einsum("...ij,...j->...i", A, s, precision=m.precision) + b
        return s, s

    _, y = lax.scan(step, jnp.zeros(t.shape[1:], t.dtype), (a, t), reverse=e.params["reverse"])
    return jnp.moveaxis(y, 0, -2)
