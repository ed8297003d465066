"""Element types, and arrays that are made."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import DTypeError
from ....numpy._register import dtype_of, ndim_of, shape_of
from ....tensor import Tensor
from .table import known, looked_at, number, operator, whole


def dtype_named(code: int) -> np.dtype[Any]:
    """NumPy's element type of ONNX's number for it."""
    from onnx import TensorProto, helper

    name = TensorProto.DataType.Name(code)
    dtype = None if name == "STRING" else np.dtype(helper.tensor_dtype_to_np_dtype(code))
    if dtype is None or dtype.kind not in "biufc":
        raise DTypeError(f"arrays of {name} are not arrays of numbers here")
    return dtype


@operator("Cast")
def cast(x: Any, *, to: Any, saturate: int = 1, round_mode: str = "up") -> Any:
    dtype = np.dtype(to.lower()) if isinstance(to, str) else dtype_named(to)
    return x if dtype_of(x) == dtype else x.astype(dtype)


@operator("CastLike")
def cast_like(x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up") -> Any:
    return x.astype(dtype_of(like))


@operator("BitCast")
def bit_cast(x: Any, *, to: int) -> Any:
    return known(x, "what BitCast reads").view(dtype_named(to))


@operator("Constant")
def constant(
    *,
    value: Any = None,
    value_float: Any = None,
    value_floats: Any = None,
    value_int: Any = None,
    value_ints: Any = None,
    sparse_value: Any = None,
) -> Any:
    if value_float is not None or value_floats is not None:
        return np.array(value_floats if value_float is None else value_float, np.float32)
    if value_int is not None or value_ints is not None:
        return np.array(value_ints if value_int is None else value_int, np.int64)
    return sparse_value if value is None else value


@operator("ConstantOfShape")
def constant_of_shape(shape: Any, *, value: Any = None) -> Any:
    fill = np.float32(0) if value is None else np.ravel(value)[0]
    return np.full(whole(shape, "a shape"), fill)


@operator("EyeLike")
def eye_like(x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    rows, columns = shape_of(x)
    return np.eye(rows, columns, k, dtype=dtype_of(x) if dtype is None else dtype_named(dtype))


@operator("Range")
def range_(start: Any, limit: Any, delta: Any) -> Any:
    first, end, step = (
        looked_at(v, "the ends of a range").reshape(()) for v in (start, limit, delta)
    )
    y = np.arange(first, end, step, dtype=dtype_of(start))
    if isinstance(start, Tensor) or isinstance(delta, Tensor):  # how many there are does not vary
        return start + delta * np.arange(len(y)).astype(dtype_of(start))
    return y


@operator("Shape")
def shape(x: Any, *, start: int = 0, end: int | None = None) -> Any:
    return np.array(shape_of(x)[start:end], np.int64)


@operator("Size")
def size(x: Any) -> Any:
    return np.array(np.prod(shape_of(x)), np.int64)


@operator("Trilu")
def trilu(x: Any, k: Any = None, *, upper: int = 1) -> Any:
    by = 0 if k is None else number(k, "Trilu's k")
    return np.triu(x, by) if upper else np.tril(x, by)


@operator("OneHot")
def one_hot(indices: Any, depth: Any, values: Any, *, axis: int = -1) -> Any:
    count = int(number(depth, "OneHot's depth"))
    axis = axis % (ndim_of(indices) + 1)
    at = np.expand_dims(indices, axis)
    at = np.where(np.less(at, 0), at + count, at)
    places = np.arange(count).reshape(-1, *[1] * (ndim_of(indices) - axis))
    return np.where(np.equal(at, places), values[1], values[0])
