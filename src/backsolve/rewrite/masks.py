"""where(mask, y, 0) is y if y is zero outside of the mask anyway.

Structural zeros travel as masks beside the adjoints (solve/masked.py). Where no infinite derivative could have
met them, the adjoint has its zeros already: the last choice does nothing, and the mask need not be computed.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

from ..ir import Equation, Shape, Var, type_of
from ..primitive import P
from .engine import Rule, Walk, instead

# entries, as they are, and zeros
MOVES = ("unslice", "permute", "reshape", "broadcast_to", "slice")
ADDS = ("scatter_add", "fold")  # the same, and sums of them; of masks, whether any is true


def _masked(w: Walk, e: Equation) -> Any:
    mask, a, b = e.inputs
    for y, other, value in ((a, b, False), (b, a, True)):
        if w.is_number(other, 0) and type(y) is Var and type_of(y) == e.outputs[0].type:
            if Outside(w).is_zero(y, mask, value):
                return y
            return _by_sum(w, e, mask, y) if not value else None
    return None


def _by_sum(w: Walk, e: Equation, mask: Any, y: Var) -> Any:
    """where(any(m), s · z, 0), of a sum s of positive numbers where m is true: it is not 0 where any is."""
    product = w.producer(y, "multiply")
    for s in product.inputs if product is not None else ():
        if type(s) is Var and type(mask) is Var and _adds_where_any(w, s, mask):
            return instead(e, P.where, w.emit(e, P.not_equal, s, 0), y, 0)
    return None


def _adds_where_any(w: Walk, s: Var, mask: Var) -> bool:
    made, cover = w.maker(s), w.maker(mask)
    while made is not None and cover is not None and s.shape == mask.shape:
        if made.params != cover.params:
            return False
        names = made.primitive.name, cover.primitive.name
        s, mask = made.inputs[0], cover.inputs[0]
        made = w.maker(s)
        if names == ("sum", "any"):
            if made is None or made.primitive is not P.where or s.shape != mask.shape:
                return False
            chosen, a, b = made.inputs
            return chosen is mask and w.is_number(b, 0) and _is_share(w, a)
        if names not in (("reshape", "reshape"), ("broadcast_to", "broadcast_to")):
            return False
        cover = w.maker(mask)
    return False


def _is_share(w: Walk, a: Any) -> bool:
    """Whether it is one over a count: what each of those gets that are the largest, or the smallest."""
    made = w.maker(a) if type(a) is Var else None
    while made is not None and made.primitive.name in ("reshape", "broadcast_to"):
        made = w.maker(made.inputs[0])
    if made is None or made.primitive is not P.divide or not w.is_number(made.inputs[0], 1):
        return False
    count = w.producer(made.inputs[1], "sum")
    counted = w.producer(count.inputs[0], "cast") if count is not None else None
    return counted is not None and type_of(counted.inputs[0]).dtype.kind == "b"


class Known(Protocol):
    """What is known of the equations so far: Walk has it."""

    def maker(self, a: Var) -> Equation | None: ...

    def number(self, a: Any) -> Any: ...

    def is_number(self, a: Any, value: float) -> bool: ...


class Outside:
    def __init__(self, w: Known):
        self.w = w
        self.known: dict[tuple[Any, Any, bool], bool] = {}

    def is_zero(self, y: Any, mask: Any, value: bool) -> bool:
        """Whether y is +0 wherever the mask has this value."""
        if type(mask) is not Var:
            return False
        if type(y) is not Var:
            return self.w.is_number(y, 0)
        key = y, mask, value
        if key not in self.known:
            self.known[key] = False  # of what is asked meanwhile; there are no circles
            self.known[key] = self._look(y, mask, value)
        return self.known[key]

    def _look(self, y: Var, mask: Var, value: bool) -> bool:
        made, cover = self.w.maker(y), self.w.maker(mask)
        if made is None:
            return self.w.is_number(y, 0)
        name, covering = made.primitive.name, cover.primitive.name if cover is not None else ""
        covers = cover.inputs if cover is not None else ()
        if covering == "logical_not":
            return self.is_zero(y, covers[0], not value)
        both = covering == ("logical_and" if value else "logical_or")  # then so have both
        if both and any(self.is_zero(y, part, value) for part in covers):
            return True
        if cover is not None and covering == "any" and not value and cover.params["keepdims"]:
            whole = y.shape == type_of(covers[0]).shape  # nothing of it is true
            if whole and self.is_zero(y, covers[0], False):
                return True
        if name == "where":
            chosen, a, b = made.inputs
            taken = a if value else b
            if chosen is mask:
                return self.is_zero(taken, mask, value)
            return self.is_zero(a, mask, value) and self.is_zero(b, mask, value)
        if name == "add":
            return all(self.is_zero(a, mask, value) for a in made.inputs)
        if name == "cast":
            return self.is_zero(made.inputs[0], mask, value)
        if name == "multiply" and self._is_factor(made.inputs[1]):
            return self.is_zero(made.inputs[0], mask, value)
        if cover is None or made.params != cover.params or made.inputs[1:] != covers[1:]:
            return False
        t, m = made.inputs[0], covers[0]
        everywhere = self.w.number(m) is not None and bool(self.w.number(m))
        if name == covering and name in MOVES:
            return type_of(t).shape == type_of(m).shape and self.is_zero(t, m, value)
        adds = name == covering and name in ADDS
        if (name, covering) == ("sum", "any"):
            adds = _covers(type_of(m).shape, type_of(t).shape, made.params["axis"])
        return adds and not value and (everywhere or self.is_zero(t, m, False))

    def _is_factor(self, a: Any) -> bool:
        """A number that zeros stay zeros with."""
        return type(a) in (int, float) and 0 < a < math.inf


def _covers(mask: Shape, shape: Shape, axes: tuple[int, ...]) -> bool:
    """Whether a mask of one shape says something about each entry along the axes of another."""
    if len(mask) != len(shape):
        return False
    return all(
        m == n or (m == 1 and k not in axes)
        for k, (m, n) in enumerate(zip(mask, shape, strict=True))
    )


def _all_or_any(w: Walk, e: Equation) -> Any:
    """Beside a neutral truth the other one; a mask, or whether any of it is true: the latter."""
    neutral = e.primitive is P.logical_and
    for a, b in (e.inputs, e.inputs[::-1]):
        if w.is_number(b, neutral):
            return a
        some = w.producer(b, "any") if not neutral else None
        if some is not None and some.inputs[0] is a and some.params["keepdims"]:
            return instead(e, P.broadcast_to, b, shape=e.outputs[0].shape)
    return None


MASKED: Rule = _masked
ALL_OR_ANY: Rule = _all_or_any
