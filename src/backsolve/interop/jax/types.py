"""Types of JAX's values and of ours: what JAX calls weak is a Python number to us, 64 bits are its setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...ir import Type

_NARROW = {"f": np.float32, "i": np.int32, "u": np.uint32, "c": np.complex64}
_WEAK = {"b": True, "i": 0, "f": 0.0, "c": 0j}


def wide_now() -> bool:
    """Whether JAX's own numbers may have 64 bits here."""
    return bool(jax.config.read("jax_enable_x64"))


def as_array(x: Any) -> Any:
    """An argument as a value of JAX's."""
    if isinstance(x, jax.Array) and _is_plain(x.dtype):
        return x
    if isinstance(x, str | bytes) or not (
        np.isscalar(x) or hasattr(x, "dtype") or hasattr(x, "__jax_array__")
    ):
        raise TypeError(
            f"a function of JAX's arrays got an argument of type {type(x).__name__}: pass numbers, arrays and "
            "pytrees of them, or declare it static: function(f, static_argnums=…)"
        )
    y = jnp.asarray(x)
    if not _is_plain(y.dtype):
        keys = jax.dtypes.issubdtype(y.dtype, jax.dtypes.prng_key)
        how = "jax.random.key_data(x)" if keys else "x.astype(float32)"
        raise TypeError(f"arrays of {y.dtype} are not known here; convert them, {how}")
    return y


def _is_plain(dtype: Any) -> bool:
    """Whether NumPy has it: keys of random numbers, for one, are JAX's own."""
    return isinstance(dtype, np.dtype) and dtype.kind in "biufc"


def type_in(x: Any) -> Type:
    """Our type of a value of JAX's: a weak number takes the type of what it meets."""
    aval = jax.typeof(x)
    if aval.weak_type and not aval.shape and aval.dtype.kind in _WEAK:
        return Type((), np.asarray(_WEAK[aval.dtype.kind]).dtype, weak=True)
    return Type(aval.shape, np.dtype(aval.dtype))


def narrowed(t: Type, wide: bool) -> Type:
    """What a value of ours is to JAX: of 32 bits, unless it is set to have 64."""
    small: Any = _NARROW.get(t.dtype.kind)
    if wide or small is None or t.dtype.itemsize <= np.dtype(small).itemsize:
        return t
    return Type(t.shape, np.dtype(small), t.weak)


def carried(t: Type, wide: bool) -> Type:
    """What a value of ours is to JAX that has to come back as it was: 64 bits are two words of 32."""
    return t if narrowed(t, wide) == t else Type((*t.shape, 2), np.dtype(np.uint32))


def is_inexact(t: Type) -> bool:
    return t.dtype.kind in "fc"


def aval_of(t: Type) -> Any:
    return jax.core.ShapedArray(t.shape, t.dtype, weak_type=t.weak and not t.shape)


def cast(values: Sequence[Any], types: Sequence[Type]) -> list[Any]:
    """Values in the element types of `types`; what is carried in words, or shall be, by its bits."""
    return [_cast(x, t) for x, t in zip(map(jnp.asarray, values), types, strict=True)]


def _cast(x: Any, t: Type) -> Any:
    if x.ndim != len(t.shape):
        return jax.lax.bitcast_convert_type(x, t.dtype)
    return x if x.dtype == t.dtype else x.astype(t.dtype)
