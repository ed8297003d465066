"""The derivative of a matrix exponential, recognised: compiled code has a formula of less than half the work.

A solve writes it as operators/frechet.py does,

    Frechet(E) = the upper right block of  exp [A E; 0 A]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Equation, Var
from ..operators.slice import key_of
from ..primitives.exponential import expm_along
from .recognise import Formula


class _Derivative(Formula):
    row, holds = expm_along, "expm"

    def inputs(self, e: Equation) -> tuple[Any, Any] | None:
        """A and E, if `e` takes the block above out of the exponential."""
        block = self.input_of(e, "slice")
        whole = self.input_of(self.made.get(block), "expm")
        if whole is None or not _is_upper_right(e.params["spec"], block.shape, e.outputs[0].shape):
            return None
        halves = self.joined(whole, len(whole.shape) - 2)
        if halves is None:
            return None
        upper, lower = (self.joined(half, len(whole.shape) - 1) for half in halves)
        if upper is None or lower is None or upper[0] is not lower[1] or not self.is_zero(lower[0]):
            return None
        a, direction = upper
        same = all(type(x) is Var and x.type == e.outputs[0].type for x in (a, direction))
        return (a, direction) if same else None

    def input_of(self, e: Equation | None, name: str) -> Any:
        return e.inputs[0] if e is not None and e.primitive.name == name else None

    def joined(self, a: Any, axis: int) -> tuple[Any, Any] | None:
        """Two halves that are concatenated along an axis."""
        e = self.made.get(a)
        if e is None or e.primitive.name != "concatenate" or len(e.inputs) != 2:
            return None
        n = a.shape[axis]
        if e.params["axis"] != axis or tuple(e.params["starts"]) != (0, n // 2, n):
            return None
        return e.inputs[0], e.inputs[1]

    def is_zero(self, a: Any) -> bool:
        a = self.before_broadcast(a)
        value = self.constants.get(a) if type(a) is Var else a
        return value is not None and not np.any(value)


join_frechets = _Derivative.join


def _is_upper_right(spec: Any, whole: tuple[int, ...], part: tuple[int, ...]) -> bool:
    if len(whole) != len(part) or whole[:-2] != part[:-2] or len(spec) != len(whole):
        return False
    rows, columns = key_of(spec)[-2:]
    n, places = part[-1], range(whole[-1])
    if not (isinstance(rows, slice) and isinstance(columns, slice)):
        return False
    return places[rows] == range(n) and places[columns] == range(n, 2 * n)
