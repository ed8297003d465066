"""numpy.linalg's names for products, and the products that are composed of others."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..errors import MatrixError, ShapeError
from ..primitive import FUNCTIONS, P
from ._register import array, dtype_of, function, named, ndim_of, one_axis, shape_of
from .elementwise import astype
from .indexing import getitem
from .products import matmul
from .reductions import _prepared
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


for _name in ("matmul", "tensordot", "vecdot", "matrix_transpose"):
    FUNCTIONS[f"linalg.{_name}"] = FUNCTIONS[_name]


@named("linalg.outer")
def _linalg_outer(x1: Any, x2: Any, /) -> Any:
    if ndim_of(x1) != 1 or ndim_of(x2) != 1:
        raise ShapeError(f"`outer` needs two vectors, got shapes {shape_of(x1)} and {shape_of(x2)}")
    return FUNCTIONS["outer"](x1, x2)


@named("linalg.diagonal")
def _linalg_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return FUNCTIONS["diagonal"](x, offset, -2, -1)


@named("linalg.trace")
def _linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return FUNCTIONS["trace"](x, offset, -2, -1, dtype)


@named("linalg.norm")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Vector norms and matrix norms of every order; 0 at 0."""
    x, axes = _prepared(x, axis, None)
    if dtype_of(x).kind not in "fc":
        x = astype(x, float)
    matrix = len(axes) == 2
    if ord is None or (ord == "fro" and matrix) or (ord == 2 and len(axes) == 1):
        return P.norm(x, axis=axes, keepdims=keepdims)
    size = P.absolute(x)
    if matrix:
        if ord in (2, -2, "nuc"):
            return _by_singular_values(x, ord, axes, keepdims)
        if ord not in (1, -1, np.inf, -np.inf):
            raise ValueError(f"`norm` of matrices has no order {ord!r}")
        # ±1: over the sums of columns; ±∞: of rows
        summed, left = axes if abs(ord) == 1 else axes[::-1]
        sums = P.sum(size, axis=(summed,), keepdims=True)
        y = (P.max if ord > 0 else P.min)(sums, axis=(left,), keepdims=True)
        return y if keepdims else FUNCTIONS["squeeze"](y, axes)
    if len(axes) != 1 or isinstance(ord, str):
        raise ShapeError(
            f"`norm` of order {ord!r} needs one or two axes, got {axes} of shape {shape_of(x)}"
        )
    if ord == np.inf:
        return P.max(size, axis=axes, keepdims=keepdims)
    if ord == -np.inf:
        return P.min(size, axis=axes, keepdims=keepdims)
    if ord == 0:
        return P.sum(astype(P.not_equal(x, 0), dtype_of(size)), axis=axes, keepdims=keepdims)
    if ord == 1:
        return P.sum(size, axis=axes, keepdims=keepdims)
    return P.power(P.sum(P.power(size, float(ord)), axis=axes, keepdims=keepdims), 1.0 / ord)


def _by_singular_values(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    s = P.svdvals(moveaxis(x, axes, (-2, -1)))
    how = P.sum if ord == "nuc" else P.max if ord == 2 else P.min
    y = how(s, axis=(ndim_of(s) - 1,), keepdims=False)
    kept = tuple(1 if k in axes else n for k, n in enumerate(shape_of(x)))
    return FUNCTIONS["reshape"](y, kept) if keepdims else y


@named("linalg.vector_norm")
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    x = array(x)
    n = ndim_of(x)
    axes = tuple(range(n)) if axis is None else np.atleast_1d(axis).tolist()
    axes = [one_axis(k, n) for k in axes]
    rest = [k for k in range(n) if k not in axes]
    moved = FUNCTIONS["transpose"](x, [*rest, *axes])
    flat = FUNCTIONS["reshape"](moved, (*[shape_of(x)[k] for k in rest], -1))
    y = norm(flat, ord, axis=-1)
    kept = tuple(1 if k in axes else s for k, s in enumerate(shape_of(x)))
    return FUNCTIONS["reshape"](y, kept) if keepdims else y


@named("linalg.matrix_norm")
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return norm(x, ord, axis=(-2, -1), keepdims=keepdims)


@named("linalg.matrix_power")
def matrix_power(a: Any, n: int) -> Any:
    a, n = array(a), operator.index(n)
    if ndim_of(a) < 2 or shape_of(a)[-1] != shape_of(a)[-2]:
        raise MatrixError(f"`matrix_power` needs square matrices, got shape {shape_of(a)}")
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
    if ndim_of(x1) == 0:
        raise ShapeError(f"`vecmat` needs vectors (…, n), got shape {shape_of(x1)}")
    x1 = P.conjugate(x1) if dtype_of(x1).kind == "c" else x1
    y = matmul(getitem(x1, (Ellipsis, None, slice(None))), x2)
    return getitem(y, (Ellipsis, 0, slice(None)))
