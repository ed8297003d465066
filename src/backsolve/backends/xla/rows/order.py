"""Orders: sorting, ranks, search."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from .base import row


@row("argsort")
def argsort(m: Any, e: Any, inputs: Any) -> Any:
    return jnp.argsort(jnp.asarray(inputs[0]), axis=e.params["axis"], stable=True)


@row("ranked")
def ranked(m: Any, e: Any, inputs: Any) -> Any:
    axis = e.params["axis"]
    order = jnp.argsort(jnp.asarray(inputs[0]), axis=axis, stable=True)
    return jnp.take(order, np.asarray(e.params["ranks"]), axis=axis)


@row("searchsorted")
def searchsorted(m: Any, e: Any, inputs: Any) -> Any:
    a, v = map(jnp.asarray, inputs)
    dtype = np.result_type(a.dtype, v.dtype)
    return jnp.searchsorted(a.astype(dtype), v.astype(dtype), side=e.params["side"])
