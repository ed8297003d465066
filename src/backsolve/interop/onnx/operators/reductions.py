"""Along axes: sums, means, norms, extremes, running sums, softmax."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ....nn import functional
from ....numpy._register import dtype_of, ndim_of, shape_of
from ....numpy.reductions import logsumexp
from .table import number, operator, whole

Reduction = Callable[..., Any]


def _lowest(x: Any) -> Any:
    kind = dtype_of(x).kind
    return False if kind == "b" else -np.inf if kind == "f" else np.iinfo(dtype_of(x)).min


def _highest(x: Any) -> Any:
    kind = dtype_of(x).kind
    return True if kind == "b" else np.inf if kind == "f" else np.iinfo(dtype_of(x)).max


def _extreme(of_numbers: Reduction, of_booleans: Reduction, of_none: Callable[[Any], Any]) -> Any:
    def reduced(x: Any, axis: Any, keepdims: bool) -> Any:
        if dtype_of(x).kind == "b":
            return of_booleans(x, axis=axis, keepdims=keepdims)
        if 0 in shape_of(x):
            return np.max(x, axis=axis, keepdims=keepdims, initial=of_none(x))
        return of_numbers(x, axis=axis, keepdims=keepdims)

    return reduced


def _sum(x: Any, axis: Any, keepdims: bool) -> Any:
    return np.sum(x, axis=axis, keepdims=keepdims)


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": _sum,
    "ReduceMean": lambda x, axis, keepdims: np.mean(x, axis=axis, keepdims=keepdims),
    "ReduceProd": lambda x, axis, keepdims: np.prod(x, axis=axis, keepdims=keepdims),
    "ReduceMax": _extreme(np.max, np.any, _lowest),
    "ReduceMin": _extreme(np.min, np.all, _highest),
    "ReduceL1": lambda x, axis, keepdims: _sum(np.abs(x), axis, keepdims),
    "ReduceL2": lambda x, axis, keepdims: np.sqrt(_sum(x * x, axis, keepdims)),
    "ReduceSumSquare": lambda x, axis, keepdims: _sum(x * x, axis, keepdims),
    "ReduceLogSum": lambda x, axis, keepdims: np.log(_sum(x, axis, keepdims)),
    "ReduceLogSumExp": lambda x, axis, keepdims: (
        np.log(_sum(np.exp(x), axis, keepdims))
        if 0 in shape_of(x)
        else logsumexp(x, axis=axis, keepdims=keepdims)
    ),
}


def _reduction(name: str, f: Reduction) -> None:
    @operator(name, since=13 if name == "ReduceSum" else 18)
    def by_input(
        x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Any:
        along = () if axes is None else whole(axes, f"the axes of {name}")
        if not along and not noop_with_empty_axes:
            along = tuple(range(ndim_of(x)))
        return f(x, along, bool(keepdims)).astype(dtype_of(x))

    @operator(name)
    def by_attribute(x: Any, *, axes: Any = None, keepdims: int = 1) -> Any:
        return by_input(x, axes, keepdims=keepdims)


for _name, _f in _REDUCTIONS.items():
    _reduction(_name, _f)


# ---- where the extremes stand


def _argument(name: str, f: Callable[..., Any]) -> None:
    @operator(name)
    def place(x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        if select_last_index:
            at = shape_of(x)[axis] - 1 - f(np.flip(x, axis), axis=axis, keepdims=bool(keepdims))
        else:
            at = f(x, axis=axis, keepdims=bool(keepdims))
        return np.asarray(at, np.int64) if isinstance(at, np.generic) else at.astype(np.int64)


_argument("ArgMax", np.argmax)
_argument("ArgMin", np.argmin)


# ---- running


def _running(
    x: Any, axis: Any, f: Callable[..., Any], start: Any, exclusive: int, reverse: int
) -> Any:
    along = int(number(axis, "the axis of a running sum"))
    if reverse:
        x = np.flip(x, along)
    if exclusive:
        first = np.full_like(np.empty(()), start, dtype=dtype_of(x), shape=_one(x, along))
        without_last = np.take(x, np.arange(shape_of(x)[along] - 1), axis=along)
        x = np.concatenate([first, without_last], along)
    y = f(x, axis=along).astype(dtype_of(x))
    return np.flip(y, along) if reverse else y


def _one(x: Any, axis: int) -> tuple[int, ...]:
    shape = list(shape_of(x))
    shape[axis] = 1
    return tuple(shape)


@operator("CumSum")
def cumsum(x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    return _running(x, axis, np.cumsum, 0, exclusive, reverse)


@operator("CumProd")
def cumprod(x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    return _running(x, axis, np.cumprod, 1, exclusive, reverse)


# ---- softmax and its like; before opset 13 over all axes from one on, taken as one


def _hardmax(x: Any, axis: int) -> Any:
    at = np.expand_dims(np.argmax(x, axis), axis)
    count = shape_of(x)[axis]
    behind = [1] * (ndim_of(x) - 1 - axis % ndim_of(x))
    return np.equal(at, np.arange(count).reshape(-1, *behind)).astype(dtype_of(x))


def _softmax_like(name: str, f: Callable[[Any, int], Any]) -> None:
    @operator(name, since=13)
    def along_one(x: Any, *, axis: int = -1) -> Any:
        return f(x, axis)

    @operator(name)
    def along_rest(x: Any, *, axis: int = 1) -> Any:
        shape = shape_of(x)
        first = axis % max(len(shape), 1)
        rows = np.reshape(x, (prod(shape[:first]), prod(shape[first:])))
        return np.reshape(f(rows, 1), shape)


_softmax_like("Softmax", functional.softmax)
_softmax_like("LogSoftmax", functional.log_softmax)
_softmax_like("Hardmax", _hardmax)
