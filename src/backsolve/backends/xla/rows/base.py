"""The table of rows, and what they share: numbers of one dtype, as NumPy would choose it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ....dtypes import joined_dtype
from ....ir import Equation, type_of
from ....tables import Table

Row = Callable[[Any, Equation, Sequence[Any]], Any]
ROWS: Table[Row] = Table()
row = ROWS.row


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
    is_so = not getattr(a, "weak_type", True) and a.dtype == dtype
    return a if is_so else jnp.asarray(a).astype(dtype)


def in_common(m: Any, e: Equation, inputs: Sequence[Any]) -> list[Any]:
    """The inputs in the dtype in which NumPy would compare or join them."""
    dtype = common_dtype(m, e)
    return [of_dtype(a, dtype) for a in inputs]


def common_dtype(m: Any, e: Equation) -> Any:
    found = joined_dtype([type_of(a) for a in e.inputs])
    return m.half if found == np.float16 else found
