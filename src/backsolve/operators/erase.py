"""Erase and EraseAt: an array with some entries set to (structural) zero, the rest of what is overwritten."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Type
from ..primitive import P
from .base import Operator
from .gather import gathered_shape
from .slice import Spec, show_spec
from .structure import facts


class _Erasing(Operator):
    """Abstract; `apply` erases from arrays of every dtype, masks among them."""

    __slots__ = ("_type",)
    moves_entries = True
    facts = facts("diagonal", "symmetric")
    masks = adjoint_masks = True
    _type: Any

    def support(self, mask: Any) -> Any:
        return self.apply(np.ones(self._type.shape, bool) if mask is None else mask)

    @property
    def T(self) -> Operator:
        return self

    @property
    def in_type(self) -> Type:
        return Type(self._type.shape, self._type.dtype)

    out_type = in_type


class Erase(_Erasing):
    """t with a slice set to zero."""

    __slots__ = ("spec",)

    def __init__(self, type: Any, spec: Spec):
        self._type = type
        self.spec = spec

    def apply(self, t: Any) -> Any:
        return P.slice_update(t, np.zeros((), t.dtype), spec=self.spec)

    def __repr__(self) -> str:
        return f"Erase[{show_spec(self.spec)}]"


class EraseAt(_Erasing):
    """t with the indexed entries set to zero."""

    __slots__ = ("indices",)

    def __init__(self, type: Any, indices: tuple[Any, ...]):
        self._type = type
        self.indices = indices

    def apply(self, t: Any) -> Any:
        zeros = np.zeros(gathered_shape(self._type.shape, self.indices), t.dtype)
        return P.scatter_set(t, zeros, *self.indices)

    def __repr__(self) -> str:
        return f"EraseAt({gathered_shape(self._type.shape, self.indices)})"
