"""Reductions and running sums and products."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from .base import ROWS, as_output, plain, row

# Numbers in a column: from here on few threads would be busy, up to there XLA does not split it itself.
_LONG, _LONGEST = 512, 4096


def _over(name: str, reduce: Any) -> None:
    plain(name)(lambda a, *, axis, keepdims: reduce(a, axis=axis, keepdims=keepdims))


_over("prod", jnp.prod)
_over("max", jnp.max)
_over("first_max", jnp.max)
_over("min", jnp.min)


def _as_it_is(name: str, reduce: Any) -> None:
    ROWS[name] = lambda m, e, inputs: reduce(jnp.asarray(inputs[0]), **e.params)


_as_it_is("all", jnp.all)
_as_it_is("argmax", jnp.argmax)
_as_it_is("argmin", jnp.argmin)


@row("sum")
def total(m: Any, e: Any, inputs: Any) -> Any:
    return _in_two_steps(m, jnp.sum, *as_output(m, e, inputs), **e.params)


@row("any")
def some(m: Any, e: Any, inputs: Any) -> Any:
    return _in_two_steps(m, jnp.any, jnp.asarray(inputs[0]), **e.params)


def _in_two_steps(m: Any, reduce: Any, a: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """Statistics of channels on GPUs: of each example first, and then of all.

    XLA does the same with longer columns. Of these it would store the terms, computed by more threads than
    add them up. The barrier keeps the steps apart.
    """
    count = math.prod([a.shape[k] for k in axis])
    if m.on_gpu and 0 in axis and 1 < len(axis) < a.ndim and _LONG <= count <= _LONGEST:
        rest = tuple([k for k in axis if k])
        a = lax.optimization_barrier(reduce(a, axis=rest, keepdims=True))
    return reduce(a, axis=axis, keepdims=keepdims)


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
