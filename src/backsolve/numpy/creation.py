"""Making arrays from Tensors, where NumPy alone would lose their derivative."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..primitive import FUNCTIONS, P
from ..tensor import Tensor
from ._register import array as as_array
from ._register import dtype_of, function, ndim_of, one_axis, shape_of
from .elementwise import astype, copy

KEEPING: dict[str, Callable[..., Any]] = {}  # NumPy's, but Tensors among the arguments give one


def _keeping(f: Any) -> Any:
    KEEPING[f.__name__] = f
    return f


def has_tensor(x: Any) -> bool:
    return isinstance(x, Tensor) or (isinstance(x, list | tuple) and any(has_tensor(e) for e in x))


def _joined(x: Any) -> Any:
    """Nested lists with Tensors in them as one Tensor."""
    if isinstance(x, list | tuple) and has_tensor(x):
        return FUNCTIONS["stack"]([_joined(e) for e in x])
    return as_array(x)


@_keeping
def array(object: Any, dtype: Any = None, **options: Any) -> Any:
    """NumPy's array, which may hold Tensors: the result is then a (new) Tensor."""
    if not has_tensor(object):
        return np.array(object, dtype, **options)
    joined = _joined(object)
    return copy(joined) if dtype is None else astype(joined, dtype)


@_keeping
def asarray(a: Any, dtype: Any = None, **options: Any) -> Any:
    """NumPy's asarray; a Tensor stays as it is."""
    if not has_tensor(a):
        return np.asarray(a, dtype, **options)
    joined = _joined(a)
    return joined if dtype is None or dtype_of(joined) == dtype else astype(joined, dtype)


KEEPING["asanyarray"] = asarray


@_keeping
def full(shape: Any, fill_value: Any, dtype: Any = None, **options: Any) -> Any:
    """NumPy's full; filled with a Tensor it is a Tensor."""
    if not has_tensor(fill_value):
        return np.full(shape, fill_value, dtype, **options)
    filled = FUNCTIONS["broadcast_to"](_joined(fill_value), shape)
    return filled if dtype is None else astype(filled, dtype)


def _beside(a: Any, constant: Any) -> Any:
    """Beside a tensor a tensor: `y = np.zeros_like(x); y[i] = x[i]` writes tensors into it."""
    return Tensor(constant) if isinstance(a, Tensor) and type(constant) is np.ndarray else constant


def _like(make: Any) -> Any:
    def call(
        a: Any, dtype: Any = None, order: str = "K", subok: bool = True, **options: Any
    ) -> Any:
        shape = options.get("shape")
        return _beside(a, make(shape_of(a) if shape is None else shape, dtype or dtype_of(a)))

    call.__name__ = f"{make.__name__}_like"
    call.__doc__ = (
        f"`numpy.{call.__name__}`: of a tensor a tensor, into which others can be written."
    )
    return call


zeros_like = FUNCTIONS["zeros_like"] = FUNCTIONS["empty_like"] = _like(np.zeros)
ones_like = FUNCTIONS["ones_like"] = _like(np.ones)


@function
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
) -> Any:
    return _beside(
        a, full(shape_of(a) if shape is None else shape, fill_value, dtype or dtype_of(a))
    )


@function
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    start, stop = as_array(start), as_array(stop)
    start, stop = (float(a) if type(a) in (int, bool) else a for a in (start, stop))
    start, stop = (astype(a, float) if dtype_of(a).kind in "iub" else a for a in (start, stop))
    steps = num - 1 if endpoint else num
    n = max(ndim_of(start), ndim_of(stop))
    kind = np.result_type(*[a.dtype if hasattr(a, "dtype") else a for a in (start, stop)], 1.0)
    k = np.arange(num).reshape(-1, *[1] * n).astype(kind)
    step = (stop - start) / steps if steps > 0 else (stop - start) * np.nan
    y = start + k * step if steps > 0 else start + k * (stop - start)
    if endpoint and num > 1:  # the end exactly, not by rounding
        y = P.where(k == steps, stop, y)
    y = FUNCTIONS["moveaxis"](y, 0, one_axis(axis, n + 1)) if axis else y
    y = y if dtype is None else astype(y, dtype)
    return (y, step) if retstep else y


@function
def meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Any, ...]:
    n = len(xi)
    grids = []
    for k, x in enumerate(xi):
        along = {0: 1, 1: 0}.get(k, k) if indexing == "xy" and n > 1 else k
        grids.append(FUNCTIONS["reshape"](x, tuple(-1 if j == along else 1 for j in range(n))))
    return tuple(grids) if sparse else FUNCTIONS["broadcast_arrays"](*grids)


@function
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    x = as_array(x)
    if ndim_of(x) != 1:
        raise ShapeError(f"`vander` needs points of rank 1, got shape {shape_of(x)}")
    n = shape_of(x)[0] if N is None else operator.index(N)
    np.broadcast_to(False, (*shape_of(x), n))  # its error, if n is no length
    x = astype(x, np.promote_types(dtype_of(x), int))
    if not n:
        return P.broadcast_to(np.zeros((), dtype_of(x)), shape=(*shape_of(x), 0))
    powers = [P.power(x, k) for k in range(n)]
    return FUNCTIONS["stack"](powers if increasing else powers[::-1], axis=-1)
