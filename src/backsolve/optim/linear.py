"""Linear equations of a step: by conjugate gradients, with the differential as an operator, or dense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..control import while_loop
from ..solve.krylov import unit_of
from ..solve.packing import plain

SMALL = 256  # parameters up to which a dense matrix is the quicker way


def conjugate_gradients(
    times: Callable[[Any], Any], b: Any, tolerance: float = 1e-8, most: int = 250
) -> Any:
    """x with times(x) = b, for a symmetric positive map; ends where the residual is tolerance · |b|.

    >>> conjugate_gradients(lambda x: np.array([2.0, 5.0]) * x, np.array([2.0, 10.0]))
    array([1., 2.])
    """
    unit = unit_of(plain(b))  # the squares of small numbers are no numbers
    b = b / unit
    enough = tolerance * tolerance * np.sum(b * b)

    def goes_on(now: tuple[Any, ...]) -> Any:
        return np.logical_and(now[4] < most, now[3] > enough)

    def body(now: tuple[Any, ...]) -> tuple[Any, ...]:
        x, r, d, square, count = now
        image = times(d)
        curve = np.sum(d * image)
        t = np.where(curve > 0, square / np.where(curve > 0, curve, 1), 0).astype(b.dtype)
        x, r = x + t * d, r - t * image
        new = np.sum(r * r)
        # a direction without curvature: what was found so far has to do
        ends = np.where(curve > 0, new, 0).astype(b.dtype)
        return x, r, r + new / square * d, ends, count + 1

    start = (np.zeros_like(b), b, b, np.sum(b * b), np.zeros((), np.int64))
    return unit * while_loop(goes_on, body, start)[0]


METHODS = ("auto", "dense", "cg")


def check_method(method: Any, known: tuple[str, ...] = METHODS) -> None:
    """Told where the solver is made, not in its first step."""
    if method not in known:
        *others, last = (f'"{name}"' for name in known)
        raise ValueError(f"method is {', '.join(others)} or {last}, got {method!r:.60}")


def is_dense(method: str, size: int) -> bool:
    return method == "dense" or (method == "auto" and size <= SMALL)
