"""Fourier transforms."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from .base import row


@row("fft")
def fft(m: Any, e: Any, inputs: Any) -> Any:
    a = jnp.asarray(inputs[0]).astype(m.dtype(e.outputs[0]))
    if not a.size:
        return a
    axes = e.params["axes"]
    for axis in axes:  # XLA transforms at most three together
        a = (
            jnp.fft.ifft(a, axis=axis, norm="forward")
            if e.params["inverse"]
            else jnp.fft.fft(a, axis=axis)
        )
    return a


@row("rfft")
def rfft(m: Any, e: Any, inputs: Any) -> Any:
    a = jnp.asarray(inputs[0])
    return jnp.fft.rfft(a, axis=e.params["axis"]) if a.size else jnp.zeros(e.outputs[0].shape)


@row("irfft")
def irfft(m: Any, e: Any, inputs: Any) -> Any:
    a = jnp.asarray(inputs[0])
    if not a.size:
        return jnp.zeros(e.outputs[0].shape)
    return jnp.fft.irfft(a, e.params["n"], axis=e.params["axis"], norm="forward")
