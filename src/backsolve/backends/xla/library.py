"""JAX, imported when the first program is compiled with it: its devices, its 64 bits, arrays to and from it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ...errors import DeviceError

_AS_IT_IS = nullcontext()


@functools.cache
def jax() -> Any:
    try:
        import jax as found
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'backend="xla" runs programs through JAX, which is not installed: '
            "pip install 'backsolve[xla]' (for NVIDIA GPUs: pip install 'jax[cuda13]')"
        ) from error
    return found


def wide() -> Any:
    """A context in which numbers may have 64 bits; JAX outside of it stays as the user has set it."""
    return _AS_IT_IS if jax().config.jax_enable_x64 else jax().enable_x64(True)


def device_of(name: str | None) -> Any:
    """The device called "cpu", "gpu", "gpu:1", …; None leaves the choice to JAX."""
    if name is None:
        return None
    kind, _, number = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not kind or (number and not number.isdigit()):
        raise DeviceError(f'a device is called "cpu", "gpu" or "gpu:1", got {name!r}')
    try:
        found = jax().devices(kind)
    except RuntimeError:
        raise DeviceError(
            f'there is no device "{kind}" here; JAX finds {_present()}. '
            "For NVIDIA GPUs it needs jax[cuda13] and a driver; leave device= out to run on what is there"
        ) from None
    if int(number or 0) >= len(found):
        raise DeviceError(f'there is no device "{name}": {kind} has {len(found)}, numbered from 0')
    return found[int(number or 0)]


def _present() -> str:
    kinds = [d.platform for d in jax().devices()]
    return ", ".join(f"{kinds.count(k)} × {k}" for k in dict.fromkeys(kinds))


def explained(error: Exception, leaves: Sequence[Any]) -> DeviceError | None:
    """What JAX raised when a program was called, as an error that says what to change, if it is known."""
    said = str(error)
    if "RESOURCE_EXHAUSTED" in said:
        return DeviceError(
            f"there is not enough memory on the device ({said.splitlines()[0]}). Take smaller batches, keep "
            'less for the derivative (bs.checkpoint(f, memory="1GB")), compute in 16 bits (half="bfloat16"), '
            "or split arrays over more devices (mesh=bs.mesh(data=-1))"
        )
    if "incompatible devices" in said:
        places = [f"argument {k} on {_where(a)}" for k, a in enumerate(leaves) if is_array(a)]
        return DeviceError(
            f"the arrays of a call lie on different devices: {', '.join(places)}. Bring them to one "
            "(jax.device_put(x, device)), pass NumPy's arrays, which go where they are needed, or split all of "
            "them by mesh="
        )
    gone = [f"argument {k}" for k, a in enumerate(leaves) if is_array(a) and a.is_deleted()]
    if gone:
        return DeviceError(
            f"the memory of {', '.join(gone)} was given away to an earlier call (donate=): go on with what "
            "that call returned, or donate a copy"
        )
    return None


def _where(a: Any) -> str:
    return " and ".join(sorted(f"{d.platform}:{d.id}" for d in a.devices()))


@functools.cache
def array_type() -> type:
    """What JAX's arrays are, when they are no tracers."""
    return type(jax().numpy.zeros(()))


def is_array(a: Any) -> bool:
    """Whether something is an array of JAX's, without importing it for the question."""
    return type(a).__module__.startswith("jax") and hasattr(a, "devices")


def to_numpy(a: Any) -> Any:
    """A result as NumPy's own: on the CPU without a copy; numbers as numbers."""
    y = np.asarray(a)
    return y[()] if y.ndim == 0 else y
