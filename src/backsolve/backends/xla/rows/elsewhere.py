"""Rows that XLA has no words for run on the host: NumPy's function is called back.

What it raises cannot pass through XLA: it is kept, and the run fails by number as any other does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ....ir import Equation, type_of


class FailedOnHostError(RuntimeError):
    """Stands for what was raised there."""


def call_elsewhere(m: Any, e: Equation, inputs: Sequence[Any]) -> Any:
    out = e.outputs[0].type
    types = [type_of(a) for a in e.inputs]
    # NumPy has no bfloat16: there such numbers are float32.
    wide = lambda t: np.dtype(np.float32) if m.dtype(t) != t.dtype else t.dtype
    given = [_packed(jnp.asarray(a, wide(t))) for a, t in zip(inputs, types, strict=True)]
    packed = jax.eval_shape(_packed, jax.ShapeDtypeStruct(out.shape, wide(out)))

    def run(*parts: Any) -> Any:
        arrays = [_unpacked(x, t.shape, wide(t)) for x, t in zip(parts, types, strict=True)]
        values = [a.item() if t.weak else a for a, t in zip(arrays, types, strict=True)]
        failed = False
        try:
            with np.errstate(all="ignore"):
                y = np.asarray(e.primitive.run(*values, **e.params), wide(out))
        except Exception as error:
            m.raised.append(error)
            y, failed = np.zeros(out.shape, wide(out)), True
        return _unpacked(y, packed.shape, packed.dtype), np.bool_(failed)

    kinds = packed, jax.ShapeDtypeStruct((), np.bool_)
    y, failed = jax.pure_callback(run, kinds, *given, vmap_method="sequential")
    m.fail_if(failed, FailedOnHostError, f"`{e.primitive.name}` failed on the host", e.where)
    return _joined(y, wide(out))


# JAX calls back in a thread of its own, where numbers of 64 bits are not switched on: they travel as two of 32.


def _packed(a: Any) -> Any:
    if a.dtype.kind == "c":
        a = jnp.stack([jnp.real(a), jnp.imag(a)], axis=-1)
    return lax.bitcast_convert_type(a, jnp.uint32) if a.dtype.itemsize == 8 else a


def _unpacked(x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """The same bytes as numbers of another type, on the host."""
    return np.ascontiguousarray(x).reshape(-1).view(dtype).reshape(shape)


def _joined(y: Any, dtype: np.dtype[Any]) -> Any:
    part = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
    if part.itemsize == 8:
        y = lax.bitcast_convert_type(y, part)
    return lax.complex(y[..., 0], y[..., 1]) if dtype.kind == "c" else y
