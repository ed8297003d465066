"""Custom: an operator from two functions, as the poster writes `Operator(X -> A*X, X -> A'*X)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .base import Between, Operator


class Custom(Between):
    """An operator from two functions: t ↦ apply(t), and its adjoint.

    >>> import numpy as np
    >>> double = Custom(lambda t: 2 * t, lambda u: 2 * u)
    >>> double.apply(np.ones(2)), double.T.apply(np.ones(2))
    (array([2., 2.]), array([2., 2.]))
    """

    __slots__ = ("_adjoint", "_apply", "name")

    def __init__(
        self,
        apply: Callable[[Any], Any],
        adjoint: Callable[[Any], Any],
        in_type: Any = None,
        out_type: Any = None,
        name: str = "Custom",
    ):
        self._apply, self._adjoint = apply, adjoint
        self._in, self._out = in_type, out_type
        self.name = name

    def apply(self, t: Any) -> Any:
        return self._apply(t)

    @property
    def T(self) -> Operator:
        name = self.name[:-2] if self.name.endswith(".T") else f"{self.name}.T"
        return Custom(self._adjoint, self._apply, self._out, self._in, name)

    def __repr__(self) -> str:
        return self.name
