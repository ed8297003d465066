"""Identity: t ↦ t. Without a type it is the `I` of any space, as in `I - L`."""

from __future__ import annotations

from typing import Any

from ..ir import Type
from .base import Cost, Operator, fitted
from .structure import facts


class Identity(Operator):
    """t ↦ t. Without a type it is the `I` of any space, as in `I - L`."""

    __slots__ = ("_type",)
    moves_entries = True
    facts = facts("identity")

    def __init__(self, type: Any = None):
        self._type = type

    def apply(self, t: Any) -> Any:
        return t

    def support(self, mask: Any) -> Any:
        return mask

    @property
    def T(self) -> Operator:
        return self

    @property
    def in_type(self) -> Any:
        return self._type

    out_type = in_type

    @property
    def cost(self) -> Cost:
        return Cost()

    def typed(self, in_type: Type, out_type: Type | None) -> Operator:
        return fitted(Identity(Type(in_type.shape, in_type.dtype)), in_type, out_type)

    def __repr__(self) -> str:
        return "Identity()"


I = Identity()
