"""Entry by entry: arithmetic, comparisons, logic, activations."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from scipy import special

from ....nn import functional
from ....numpy._register import dtype_of, ndim_of, shape_of
from .table import operator

# ---- of one array

_OF_ONE: dict[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Acos": np.arccos,
    "Acosh": np.arccosh,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atanh": np.arctanh,
    "BitwiseNot": np.bitwise_not,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Cosh": np.cosh,
    "Erf": special.erf,
    "Exp": np.exp,
    "Floor": np.floor,
    "IsNaN": np.isnan,
    "Log": np.log,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Reciprocal": np.reciprocal,
    "Round": np.rint,
    "Sigmoid": special.expit,
    "Sign": np.sign,
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Sqrt": np.sqrt,
    "Tan": np.tan,
    "Tanh": np.tanh,
}
for _name, _f in _OF_ONE.items():
    operator(_name)(_f)


@operator("Identity")
def identity(x: Any) -> Any:
    return [x]  # a sequence, too


@operator("IsInf")
def is_inf(x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    return np.isinf(x) & (
        (np.greater(x, 0) & bool(detect_positive)) | (np.less(x, 0) & bool(detect_negative))
    )


# ---- of two


def aligned(a: Any, b: Any, axis: int | None) -> Any:
    """b with ones behind, so that it begins at an axis of a: how opsets before 7 broadcast."""
    if axis is None:
        return b
    behind = ndim_of(a) - axis % max(ndim_of(a), 1) - ndim_of(b)
    return np.reshape(b, (*shape_of(b), *[1] * behind))


def _of_two(name: str, f: Callable[..., Any]) -> None:
    operator(name, since=7)(f)

    @operator(name)
    def old(a: Any, b: Any, *, broadcast: int = 0, axis: int | None = None) -> Any:
        return f(a, aligned(a, b, axis) if broadcast else b)


def divide(a: Any, b: Any) -> Any:
    """Of integers, rounded towards zero."""
    if dtype_of(a).kind not in "iu":
        return np.divide(a, b)
    down = np.floor_divide(a, b)
    is_up = np.not_equal(down * b, a) & (np.less(a, 0) ^ np.less(b, 0))
    return (down + is_up).astype(dtype_of(a))


def power(a: Any, b: Any) -> Any:
    return np.power(a, b).astype(dtype_of(a))


_OF_TWO: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": divide,
    "Pow": power,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
    "GreaterOrEqual": np.greater_equal,
    "LessOrEqual": np.less_equal,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
}
for _name, _f in _OF_TWO.items():
    _of_two(_name, _f)


@operator("Mod")
def mod(a: Any, b: Any, *, fmod: int = 0) -> Any:
    return np.fmod(a, b) if fmod else np.mod(a, b)


@operator("BitShift")
def bit_shift(a: Any, b: Any, *, direction: str) -> Any:
    return np.left_shift(a, b) if direction == "LEFT" else np.right_shift(a, b)


@operator("PRelu")
def prelu(x: Any, slope: Any, *, _opset: int) -> Any:
    if _opset < 7 and ndim_of(slope) == 1 and ndim_of(x) > 1:
        slope = aligned(x, slope, 1)
    return np.where(np.less(x, 0), slope * x, x)


# ---- of several


@operator("Max")
def maximum(*xs: Any) -> Any:
    return reduce(np.maximum, xs)


@operator("Min")
def minimum(*xs: Any) -> Any:
    return reduce(np.minimum, xs)


@operator("Sum")
def total(*xs: Any) -> Any:
    return reduce(np.add, xs)


@operator("Mean")
def mean(*xs: Any) -> Any:
    return total(*xs) / len(xs)


@operator("Where")
def where(condition: Any, a: Any, b: Any) -> Any:
    return np.where(condition, a, b)


@operator("Clip")
def clip_by_attributes(x: Any, *, min: float | None = None, max: float | None = None) -> Any:
    return clip(x, min, max)


@operator("Clip", since=11)
def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    if low is not None:
        x = np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


# ---- activations


@operator("Relu")
def relu(x: Any) -> Any:
    return functional.relu(x) if dtype_of(x).kind == "f" else np.maximum(x, 0)


@operator("LeakyRelu")
def leaky_relu(x: Any, *, alpha: float = 0.01) -> Any:
    return functional.leaky_relu(x, alpha)


@operator("ThresholdedRelu")
def thresholded_relu(x: Any, *, alpha: float = 1.0) -> Any:
    return np.where(np.greater(x, alpha), x, 0)


@operator("Elu")
def elu(x: Any, *, alpha: float = 1.0) -> Any:
    return functional.elu(x, alpha)


@operator("Celu")
def celu(x: Any, *, alpha: float = 1.0) -> Any:
    return functional.celu(x, alpha)


@operator("Selu")
def selu(
    x: Any, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Any:
    return gamma * functional.elu(x, alpha)


@operator("Gelu")
def gelu(x: Any, *, approximate: str = "none") -> Any:
    return functional.gelu(x, approximate)


@operator("HardSigmoid")
def hard_sigmoid(x: Any, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    return np.clip(alpha * x + beta, 0, 1)


@operator("HardSwish")
def hard_swish(x: Any) -> Any:
    return functional.hardswish(x)


@operator("Mish")
def mish(x: Any) -> Any:
    return functional.mish(x)


@operator("Softplus")
def softplus(x: Any) -> Any:
    return np.logaddexp(x, dtype_of(x).type(0))


@operator("Softsign")
def softsign(x: Any) -> Any:
    return functional.softsign(x)


@operator("Swish")
def swish(x: Any, *, alpha: float = 1.0) -> Any:
    return (x * functional.sigmoid(alpha * x)).astype(dtype_of(x))


@operator("Shrink")
def shrink(x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    return np.where(np.less(x, -lambd), x + bias, np.where(np.greater(x, lambd), x - bias, 0))


@operator("ScaledTanh")
def scaled_tanh(x: Any, *, alpha: float = 1.0, beta: float = 1.0) -> Any:
    return alpha * np.tanh(beta * x)
