"""Rows that XLA has no words for run on the host: NumPy's function is called back.

What it raises cannot pass through XLA: it is kept, and the run fails by number as any other does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ....ir import Equation, type_of


class FailedOnHostError(RuntimeError):
    """Stands for what was raised there."""


def call_elsewhere(m: Any, e: Equation, inputs: Sequence[Any]) -> Any:
    out = e.outputs[0].type
    types = [type_of(a) for a in e.inputs]
    # NumPy has no bfloat16: there such numbers are float32.
    wide = lambda t: np.dtype(np.float32) if m.dtype(t) != t.dtype else t.dtype
    given = [jnp.asarray(a, wide(t)) for a, t in zip(inputs, types, strict=True)]

    def run(*arrays: Any) -> Any:
        values = [
            np.asarray(a).item() if t.weak else np.asarray(a)
            for a, t in zip(arrays, types, strict=True)
        ]
        try:
            with np.errstate(all="ignore"):
                return np.asarray(e.primitive.run(*values, **e.params), wide(out)), np.False_
        except Exception as error:
            m.raised.append(error)
            return np.zeros(out.shape, wide(out)), np.True_

    kinds = jax.ShapeDtypeStruct(out.shape, wide(out)), jax.ShapeDtypeStruct((), np.bool_)
    y, failed = jax.pure_callback(run, kinds, *given)
    m.fail_if(failed, FailedOnHostError, f"`{e.primitive.name}` failed on the host", e.where)
    return y
