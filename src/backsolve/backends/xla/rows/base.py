"""The table of rows, and what they share: numbers of one dtype, as NumPy would choose it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ....dtypes import joined_dtype
from ....ir import Equation, type_of
from ....tables import Table

Row = Callable[[Any, Equation, Sequence[Any]], Any]
ROWS: Table[Row] = Table()
row = ROWS.row

FLOATS = frozenset([np.dtype(t) for t in (jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64)])
_IN_ALL = 60_000  # numbers up to here are none of these dtypes' infinity


def plain(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A row of values of the output's dtype: rule(*inputs, **params)."""

    def enter(rule: Callable[..., Any]) -> Callable[..., Any]:
        row(name)(lambda m, e, inputs: rule(*as_output(m, e, inputs), **e.params))
        return rule

    return enter


def is_half(a: Any) -> bool:
    return a.dtype in (jnp.float16, jnp.bfloat16)


def as_output(m: Any, e: Equation, inputs: Sequence[Any]) -> list[Any]:
    """The inputs in the dtype of the output."""
    dtype = m.dtype(e.outputs[0])
    return [of_dtype(a, dtype) for a in inputs]


def of_dtype(a: Any, dtype: Any) -> Any:
    """An array of JAX's, of this dtype; it is asked first, for most are, and JAX's own way takes long."""
    if not getattr(a, "weak_type", True) and a.dtype == dtype:
        return a
    if type(a) in (int, float) and abs(a) < _IN_ALL and dtype in FLOATS:
        return lax.convert_element_type(a, dtype)
    return jnp.asarray(a).astype(dtype)


def at_once(of_floats: Callable[..., Any], of_any: Callable[..., Any]) -> Callable[..., Any]:
    """A rule of numbers of one dtype: for floats by `jax.lax`, which records one operation.

    `jax.numpy`, the rule for all others, would trace a function for each set of shapes first.
    """

    def rule(*args: Any) -> Any:
        return of_floats(*of_one_rank(args)) if args[0].dtype in FLOATS else of_any(*args)

    return rule


def of_one_rank(args: Sequence[Any]) -> Sequence[Any]:
    """Axes of length 1 in front, as NumPy adds them; `jax.lax` repeats along these and takes scalars."""
    ranks = {a.ndim for a in args if a.ndim}
    if len(ranks) < 2:
        return args
    rank = max(ranks)
    return [lax.broadcast(a, (1,) * (rank - a.ndim)) if 0 < a.ndim < rank else a for a in args]


def spread(a: Any, shape: tuple[int, ...]) -> Any:
    """np.broadcast_to."""
    places = range(len(shape) - a.ndim, len(shape))
    return a if a.shape == shape else lax.broadcast_in_dim(a, shape, tuple(places))


def in_common(m: Any, e: Equation, inputs: Sequence[Any]) -> list[Any]:
    """The inputs in the dtype in which NumPy would compare or join them."""
    dtype = common_dtype(m, e)
    return [of_dtype(a, dtype) for a in inputs]


def common_dtype(m: Any, e: Equation) -> Any:
    found = joined_dtype([type_of(a) for a in e.inputs])
    return m.half if found == np.float16 else found
