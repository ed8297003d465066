"""hello: the square of a number and its derivative."""

from __future__ import annotations

from typing import Any

import backsolve as bs

from .base import Function


def square(x: Any) -> Any:
    return x * x


def prepare(message: Any) -> tuple[float]:
    return (float(message),)


functions = {"square": Function(bs.jit(square)), "double": Function(bs.jit(bs.grad(square)))}
derivative = ("double",)
sizes: dict[str, dict[str, Any]] = {"small": {}}


def generate(rng: Any) -> float:
    return float(rng.normal())
