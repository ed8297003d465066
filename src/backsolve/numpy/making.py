"""What this namespace makes (zeros, asarray, arange …) are Tensors, which others can be written into."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ..ownership import shared
from ..primitive import wrap
from ..tensor import Tensor
from . import creation
from ._register import OWN, function, own
from .creation import has_tensor
from .elementwise import copy as copied


@function
def on_cpu(device: Any, stream: Any = None) -> None:
    """There is one device; None means it, too."""
    if stream is not None:
        raise ValueError(f'the device "cpu" has no streams; got stream={stream!r}')
    if device not in (None, "cpu"):
        raise ValueError(f'there is one device, "cpu"; got device={device!r}')


def made(y: Any) -> Any:
    """NumPy's fresh array as a Tensor, its memory included; what is not of numbers stays NumPy's."""
    return wrap(y[()], None) if y.dtype.kind in "biufc" else y


@own
def asarray(
    obj: Any, /, dtype: Any = None, *, device: Any = None, copy: bool | None = None, **options: Any
) -> Any:
    """A Tensor as it is; anything else as a Tensor, with its own copy unless copy is False."""
    on_cpu(device)
    if not has_tensor(obj):
        y = np.array(obj, dtype, copy=copy, **options)
        if np.may_share_memory(y, obj):
            y = y.copy() if copy is None else shared(y)
        return made(y)
    y = creation.asarray(obj, dtype)
    if copy is False and y is not obj:
        raise ValueError("`asarray` cannot join or convert tensors without a copy")
    return copied(y) if copy and y is obj else y


@own
def array(
    object: Any, dtype: Any = None, *, copy: bool | None = True, device: Any = None, **options: Any
) -> Any:
    """A Tensor with its own copy of `object`, which may hold Tensors."""
    return asarray(object, dtype, copy=copy, device=device, **options)


OWN["asanyarray"] = asarray


@own
def full(
    shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None, **options: Any
) -> Any:
    """A Tensor of one number, which may itself be a Tensor."""
    on_cpu(device)
    y = creation.full(shape, fill_value, dtype, **options)
    return y if isinstance(y, Tensor) else made(y)


@own
def zeros(
    shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, **options: Any
) -> Any:
    """`numpy.zeros`, as a Tensor."""
    on_cpu(device)
    return made(np.zeros(shape, dtype, order, **options))


@own
def empty(
    shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, **options: Any
) -> Any:
    """`numpy.empty`, as a Tensor."""
    on_cpu(device)
    return made(np.empty(shape, dtype, order, **options))


@own
def fromiter(iter: Any, dtype: Any, count: int = -1, *, device: Any = None, **options: Any) -> Any:
    """`numpy.fromiter`, as a Tensor."""
    on_cpu(device)
    return made(np.fromiter(iter, dtype, count, **options))


def _making(name: str) -> None:
    """NumPy's function of sizes and numbers, which makes a Tensor here; one that is written in Python.

    (Of the others Python finds the signature by parsing a text, which takes milliseconds.)
    """
    make = getattr(np, name)

    def call(*args: Any, device: Any = None, **options: Any) -> Any:
        on_cpu(device)
        return made(make(*args, **options))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`numpy.{name}`, as a Tensor."
    vars(call)["__signature__"] = inspect.signature(make)
    OWN[name] = call


for _name in (
    *("bartlett", "blackman", "eye", "fromfunction", "hamming", "hanning"),
    *("identity", "kaiser", "ones", "tri"),
):
    _making(_name)


@own
def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """The numbers start, start + step, … before stop; `arange(n)` counts from 0."""
    on_cpu(device)
    start, stop = (0, start) if stop is None else (start, stop)
    return made(np.arange(start, stop, step, dtype=dtype))


@own
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """A Tensor on the memory of another library's array, without a copy (unless copy=True)."""
    on_cpu(device)
    y = np.from_dlpack(x, copy=copy)
    return made(y if copy else shared(y))
