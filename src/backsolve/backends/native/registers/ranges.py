"""Between which bounds an integer lies, so that an index known to be inside needs no check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

Interval = tuple[float, float]
ANY: Interval = (-np.inf, np.inf)


class Ranges:
    """Of registers that hold integers."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, Interval] = {}

    def of(self, register: Any) -> Interval:
        if isinstance(register, ir.Constant) and isinstance(register.type, ir.IntType):
            value = float(register.constant)
            return value, value
        return self._known.get(register, ANY)

    def note(self, register: Any, interval: Interval) -> None:
        if interval != ANY and isinstance(register, ir.Instruction | ir.Argument):
            self._known[register] = interval

    def after(self, name: str, inputs: list[Any], dtype: np.dtype[Any]) -> Interval:
        """Bounds of the result of an element-wise equation, given as they are only if none wraps."""
        rule = RULES.get(name)
        if rule is None or dtype.kind not in "iu":
            return ANY
        low, high = rule(*[self.of(x) for x in inputs])
        limits = np.iinfo(dtype)
        return (low, high) if limits.min <= low <= high <= limits.max else ANY


def _product(x: Interval, y: Interval) -> Interval:
    if any(np.isinf(v) for v in (*x, *y)):
        return ANY
    corners = [p * q for p in x for q in y]
    return min(corners), max(corners)


def _remainder(x: Interval, y: Interval) -> Interval:
    if y[0] <= 0:
        return ANY
    if x[0] >= 0 and x[1] < y[0]:
        return x
    return 0, y[1] - 1


def _floor_divide(x: Interval, y: Interval) -> Interval:
    if y[0] <= 0 or np.isinf(x[0]) or np.isinf(x[1]):
        return ANY
    corners = [p // q for p in x for q in y if not np.isinf(q)]
    return min([*corners, 0]), max([*corners, 0])


def union(*intervals: Interval) -> Interval:
    return min(x[0] for x in intervals), max(x[1] for x in intervals)


def _cast(x: Interval, *_: Interval) -> Interval:
    return x


RULES: dict[str, Callable[..., Interval]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "subtract": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "negative": lambda x: (-x[1], -x[0]),
    "multiply": _product,
    "remainder": _remainder,
    "floor_divide": _floor_divide,
    "minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "clip": lambda x, low, high: (
        min(max(x[0], low[0]), high[0]),
        min(max(x[1], low[1]), high[1]),
    ),
    "where": lambda _, x, y: union(x, y),
    "absolute": lambda x: (max(x[0], -x[1], 0), max(-x[0], x[1])),
    "cast": _cast,
    "cast_discrete": _cast,
    "alias": _cast,
}
