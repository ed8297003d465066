"""Power series of arrays, of which a coefficient is computed when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np


class Series:
    """Coefficients of t⁰, t¹, …, computed when they are asked for; None is zero by structure."""

    def __init__(self, first: Any):
        self._known: list[Any] = [first]

    def __getitem__(self, k: int) -> Any:
        while len(self._known) <= k:
            self._known.append(self._next(len(self._known)))
        return self._known[k]

    def _next(self, k: int) -> Any:
        return None  # of a constant

    def degree(self) -> float:
        """Beyond which all coefficients are zero by structure, as far as that is known."""
        return 0 if type(self) is Series else inf


class Given(Series):
    """A polynomial."""

    def __init__(self, coefficients: Sequence[Any]):
        self._known = list(coefficients)

    def degree(self) -> float:
        return max((k for k, c in enumerate(self._known) if c is not None), default=0)


class Slope(Series):
    """x'."""

    def __init__(self, x: Series):
        self._x = x
        self._known = []

    def _next(self, k: int) -> Any:
        term = self._x[k + 1]
        if term is not None:
            return (k + 1) * term
        return None if k else np.zeros_like(self._x[0])  # the first one tells the type

    def degree(self) -> float:
        return max(self._x.degree() - 1, 0)


class Truncated(Series):
    """Coefficients up to the order that was asked for; what comes behind is not known."""

    def __init__(self, coefficients: Sequence[Any]):
        self._known = list(coefficients)

    def _next(self, k: int) -> Any:
        raise IndexError(f"coefficient {k} of a series that was computed to order {k - 1}")


class FromSlope(Series):
    """y from y' and its first coefficient: k y_k = [y']_{k−1}."""

    def __init__(self, first: Any, slope: Series):
        super().__init__(first)
        self._slope = slope

    def _next(self, k: int) -> Any:
        term = self._slope[k - 1]
        return None if term is None else term * (1.0 / k)


def total(images: Sequence[Any]) -> Any:
    if not images:
        return None
    total = images[0]
    for t in images[1:]:
        total = total + t
    return total
