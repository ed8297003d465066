"""numpy.linalg's names for products, and the products that are composed of others."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..primitive import FUNCTIONS, P
from ._register import array, dtype_of, function, named, ndim_of, one_axis, shape_of
from .indexing import getitem
from .products import matmul
from .shapes import moveaxis


@function
def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    a, b = array(a), array(b)
    if axis is not None:
        axisa = axisb = axisc = axis
    a = moveaxis(a, one_axis(axisa, ndim_of(a)), -1)
    b = moveaxis(b, one_axis(axisb, ndim_of(b)), -1)
    if shape_of(a)[-1] != 3 or shape_of(b)[-1] != 3:
        raise ShapeError(f"`cross` needs vectors of length 3, got {shape_of(a)} and {shape_of(b)}")

    def turned(x: Any, by: int) -> Any:
        return FUNCTIONS["roll"](x, by, -1)

    y = turned(a, -1) * turned(b, -2) - turned(a, -2) * turned(b, -1)
    return moveaxis(y, -1, one_axis(axisc, ndim_of(y)))


@named("linalg.cross")
def _linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return cross(x1, x2, axis=axis)


for _name in ("matmul", "outer", "tensordot", "vecdot", "matrix_transpose"):
    FUNCTIONS[f"linalg.{_name}"] = FUNCTIONS[_name]


@named("linalg.diagonal")
def _linalg_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return FUNCTIONS["diagonal"](x, offset, -2, -1)


@named("linalg.trace")
def _linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return FUNCTIONS["trace"](x, offset, -2, -1, dtype)


@named("linalg.vector_norm")
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    x = array(x)
    n = ndim_of(x)
    axes = tuple(range(n)) if axis is None else np.atleast_1d(axis).tolist()
    axes = [one_axis(k, n) for k in axes]
    rest = [k for k in range(n) if k not in axes]
    moved = FUNCTIONS["transpose"](x, [*rest, *axes])
    flat = FUNCTIONS["reshape"](moved, (*[shape_of(x)[k] for k in rest], -1))
    y = FUNCTIONS["linalg.norm"](flat, ord, axis=-1)
    kept = tuple(1 if k in axes else s for k, s in enumerate(shape_of(x)))
    return FUNCTIONS["reshape"](y, kept) if keepdims else y


@named("linalg.matrix_norm")
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return FUNCTIONS["linalg.norm"](x, ord, axis=(-2, -1), keepdims=keepdims)


@named("linalg.matrix_power")
def matrix_power(a: Any, n: int) -> Any:
    a = array(a)
    if n < 0:
        a, n = FUNCTIONS["linalg.inv"](a), -n
    result = None
    while n:  # by the binary digits of n
        if n % 2:
            result = a if result is None else matmul(result, a)
        a, n = (matmul(a, a) if n > 1 else a), n // 2
    if result is None:
        size = shape_of(a)[-1]
        return P.broadcast_to(np.eye(size, dtype=dtype_of(a)), shape=shape_of(a))
    return result


@named("linalg.multi_dot")
def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    parts = [array(a) for a in arrays]
    labels = "abcdefghijklmnopqrstuvwxyz"
    names = [labels[k : k + 2] for k in range(len(parts))]
    if ndim_of(parts[0]) == 1:
        names[0] = names[0][1]
    if ndim_of(parts[-1]) == 1:
        names[-1] = names[-1][0]
    ends = (names[0][0] if len(names[0]) == 2 else "") + (
        names[-1][1] if len(names[-1]) == 2 else ""
    )
    return FUNCTIONS["einsum"](f"{','.join(names)}->{ends}", *parts)


@named("matvec")
def matvec(x1: Any, x2: Any, /) -> Any:
    y = matmul(x1, getitem(array(x2), (Ellipsis, None)))
    return getitem(y, (Ellipsis, 0))


@named("vecmat")
def vecmat(x1: Any, x2: Any, /) -> Any:
    x1 = array(x1)
    x1 = P.conjugate(x1) if dtype_of(x1).kind == "c" else x1
    y = matmul(getitem(x1, (Ellipsis, None, slice(None))), x2)
    return getitem(y, (Ellipsis, 0, slice(None)))
