"""Integers for real numbers: x ≈ (q − zero point) · scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....numpy._register import dtype_of, ndim_of, shape_of
from .convolutions import conv
from .table import operator
from .types import dtype_named


def _beside(a: Any, x: Any, axis: int, block: int = 0) -> Any:
    """A scale or zero point beside x: one number, or one for each entry or each block of an axis."""
    if block:
        along = axis % ndim_of(x)
        spread = np.repeat(a, block, along)
        return spread[tuple(slice(0, s) for s in shape_of(x))]
    if ndim_of(a) == 0 or shape_of(a) == (1,):
        return np.reshape(a, ())
    return np.reshape(a, (-1, *[1] * (ndim_of(x) - 1 - axis % ndim_of(x))))


def _rounded(x: Any, zero: Any, dtype: Any) -> Any:
    """Integers of a type, those beyond its ends at its ends."""
    bounds = np.iinfo(dtype)
    return np.clip(np.rint(x) + zero, bounds.min, bounds.max).astype(dtype)


@operator("QuantizeLinear")
def quantize(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0,
    precision: int = 0, saturate: int = 1,
) -> Any:  # fmt: skip
    if zero is not None:
        dtype = dtype_of(zero)
    else:
        dtype = dtype_named(output_dtype) if output_dtype else np.dtype(np.uint8)
    shift = 0 if zero is None else _beside(zero, x, axis, block_size).astype(np.int32)
    return _rounded(x / _beside(scale, x, axis, block_size), shift, dtype)


@operator("DequantizeLinear")
def dequantize(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Any:  # fmt: skip
    shift = 0 if zero is None else _beside(zero, x, axis, block_size).astype(np.int32)
    dtype = dtype_named(output_dtype) if output_dtype else dtype_of(scale)
    return ((x.astype(np.int32) - shift) * _beside(scale, x, axis, block_size)).astype(dtype)


def _centred(x: Any, zero: Any, axis: int) -> Any:
    wide = x.astype(np.int32)
    return wide if zero is None else wide - _beside(zero, x, axis).astype(np.int32)


@operator("MatMulInteger")
def matmul_integer(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return np.matmul(_centred(a, a_zero, -2), _centred(b, b_zero, -1))


@operator("QLinearMatMul")
def quantized_matmul(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any
) -> Any:
    total = matmul_integer(a, b, a_zero, b_zero)
    by = _beside(a_scale, total, -2) * _beside(b_scale, total, -1) / y_scale
    return _rounded(total * by, y_zero.astype(np.int32), dtype_of(y_zero))


@operator("ConvInteger")
def conv_integer(x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, **attributes: Any) -> Any:
    return conv(_centred(x, x_zero, 1), _centred(w, w_zero, 0), **attributes)


@operator("QLinearConv")
def quantized_conv(
    x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, y_scale: Any, y_zero: Any,
    b: Any = None, **attributes: Any,
) -> Any:  # fmt: skip
    total = conv(_centred(x, x_zero, 1), _centred(w, w_zero, 0), b, **attributes)
    by = x_scale * _beside(w_scale, total, 1) / y_scale
    return _rounded(total * by, y_zero.astype(np.int32), dtype_of(y_zero))
