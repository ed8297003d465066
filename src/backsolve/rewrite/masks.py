"""where(mask, y, 0) is y if y is zero outside of the mask anyway.

Structural zeros travel as masks beside the adjoints (solve/masked.py). Where no infinite derivative could have
met them, the adjoint has its zeros already: the last choice does nothing, and the mask need not be computed.
"""

from __future__ import annotations

from typing import Any

from ..ir import Equation, Var, type_of
from .engine import Rule, Walk

MOVES = (
    "unslice",
    "permute",
    "reshape",
    "broadcast_to",
    "slice",
)  # entries, as they are, and zeros


def _masked(w: Walk, e: Equation) -> Any:
    mask, y, other = e.inputs
    if not w.is_number(other, 0) or type(y) is not Var or type_of(y) != e.outputs[0].type:
        return None
    return y if _Outside(w).is_zero(y, mask) else None


class _Outside:
    def __init__(self, w: Walk):
        self.w = w
        self.known: dict[tuple[Any, Any], bool] = {}

    def is_zero(self, y: Any, mask: Any) -> bool:
        """Whether y is +0 wherever the mask is false."""
        if type(mask) is not Var:
            return False
        if type(y) is not Var:
            return self.w.is_number(y, 0)
        key = y, mask
        if key not in self.known:
            self.known[key] = False  # of what is asked meanwhile; there are no circles
            self.known[key] = self._look(y, mask)
        return self.known[key]

    def _look(self, y: Var, mask: Var) -> bool:
        made, cover = self.w.made.get(y), self.w.made.get(mask)
        if made is None:
            return self.w.is_number(y, 0)
        name, covering = made.primitive.name, cover.primitive.name if cover is not None else ""
        covers = cover.inputs if cover is not None else ()
        if covering == "logical_or" and any(self.is_zero(y, part) for part in covers):
            return True
        if name == "where":
            chosen, a, b = made.inputs
            if chosen is mask:
                return self.is_zero(b, mask)
            if covering == "logical_not" and covers[0] is chosen:
                return self.is_zero(a, mask)
            return self.is_zero(a, mask) and self.is_zero(b, mask)
        if name == "add":
            return all(self.is_zero(a, mask) for a in made.inputs)
        if name == "cast":
            return self.is_zero(made.inputs[0], mask)
        if name == covering == "scatter_add" and cover is not None:
            same = made.inputs[1:] == covers[1:] and made.params == cover.params
            t, m = made.inputs[0], covers[0]
            everywhere = self.w.number(m) is not None and bool(self.w.number(m))
            return same and (everywhere or self.is_zero(t, m))
        if name in MOVES and name == covering and cover is not None:
            a, b = made.inputs[0], covers[0]
            same = made.params == cover.params and type_of(a).shape == type_of(b).shape
            return same and self.is_zero(a, b)
        return False


MASKED: Rule = _masked
