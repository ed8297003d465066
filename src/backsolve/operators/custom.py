"""Custom: an operator from two functions, as the poster writes `Operator(X -> A*X, X -> A'*X)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import Type
from ..tensor import lent
from .base import Between, Operator, fitted
from .broadcast import Broadcast


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
        return self._apply(lent(t))

    @property
    def T(self) -> Operator:
        name = self.name[:-2] if self.name.endswith(".T") else f"{self.name}.T"
        return Custom(self._adjoint, self._apply, self._out, self._in, name)

    def typed(self, in_type: Type, out_type: Type | None) -> Operator:
        """Where it was not said what it goes between, these: what it gives is broadcast, or summed, to them."""
        if self._in is not None or self._out is not None or out_type is None:
            return fitted(self, in_type, out_type)
        apply, adjoint = self._apply, self._adjoint

        def ahead(t: Any) -> Any:
            image = apply(t)
            given = Type(image.shape, image.dtype)
            return (
                image if given.shape == out_type.shape else Broadcast(given, out_type.shape)(image)
            )

        def back(u: Any) -> Any:
            image = adjoint(u)
            return (
                image if image.shape == in_type.shape else Broadcast(in_type, image.shape).T(image)
            )

        return Custom(ahead, back, in_type, out_type, self.name)

    def __repr__(self) -> str:
        return self.name
