"""One entry in each line of a matrix of zeros: the gradient of `x[arange(n), labels]`, and its mask.

    scatter_add(t, 0 … n − 1, j; shape=(n, m))

What is done with all of it is done with its n entries: its sum along a line is t, and a choice between it and
zeros, by a mask of the same places, is a choice within t. An index that is out of range must still be found:
so a rule goes only where something else that stays reads or writes by the same index.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Equation, Var, type_of
from ..primitive import P
from .engine import Rule, Walk, raw

_BY_INDEX = ("gather", "scatter_add", "scatter_set")
_GOES = ("sum", "where", "negative", "multiply")  # what is done with the entries here instead


def _lines(w: Walk, a: Any) -> Equation | None:
    """The equation that made such a matrix."""
    e = w.producer(a, "scatter_add")
    if e is None or len(e.inputs) != 3 or len(e.outputs[0].shape) != 2:
        return None
    t, numbers, j = e.inputs
    known = raw(w.arrays.get(numbers)) if type(numbers) is Var else None
    n = e.outputs[0].shape[0]
    fits = type_of(t).shape == type_of(j).shape == (n,) and type(t) is type(j) is Var
    return e if fits and known is not None and np.array_equal(known, np.arange(n)) else None


def _is_guarded(w: Walk, j: Var) -> bool:
    """Whether an index is looked at by an equation that stays, whatever the rules here do."""
    equations = w.program.equations
    made = {e.outputs[0] for e in equations if e.primitive.name in _BY_INDEX and j in e.inputs[1:]}
    if not made.isdisjoint(a for a in w.program.outputs if type(a) is Var):
        return True
    return any(
        e.primitive.name not in (*_GOES, *_BY_INDEX) and not made.isdisjoint(e.inputs)
        for e in equations
    )


def _sum(w: Walk, e: Equation) -> Any:
    lines = _lines(w, e.inputs[0])
    if lines is None or e.params["axis"] != (1,) or not _is_guarded(w, lines.inputs[2]):
        return None
    t, out = lines.inputs[0], e.outputs[0]
    if type_of(t).dtype != out.dtype:
        cast = P.cast if out.dtype.kind in "fc" else P.cast_discrete
        t = w.emit(e, cast, t, dtype=out.dtype)
    elif out.dtype.kind in "fc":
        t = w.emit(e, P.add, t, 0)  # a sum that begins with +0 is no −0
    if t.shape != out.shape:
        t = w.emit(e, P.reshape, t, shape=out.shape)
    return t


def _where(w: Walk, e: Equation) -> Any:
    """where(mask, −y, 0) with both of the same places."""
    mask, y, other = e.inputs
    made = w.producer(y, "negative", "multiply")
    if made is None or not w.is_number(other, 0):
        return None
    places, lines = _lines(w, mask), _lines(w, made.inputs[0])
    factor = made.inputs[1:]
    if places is None or lines is None or places.inputs[1:] != lines.inputs[1:]:
        return None
    if any(type(f) is Var for f in factor) or y.type != e.outputs[0].type:
        return None
    t = w.emit(e, made.primitive, lines.inputs[0], *factor)
    chosen = w.emit(e, P.where, places.inputs[0], t, other)
    if chosen.type.dtype != y.type.dtype:
        return None
    return w.emit(e, P.scatter_add, chosen, *lines.inputs[1:], shape=lines.params["shape"])


SUM: Rule = _sum
MASKED: Rule = _where
