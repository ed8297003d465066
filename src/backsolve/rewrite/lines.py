"""One entry in each line of an array of zeros: the gradient of `x[arange(n), labels]`, and its mask.

    scatter_add(t, 0 … n − 1, j; shape=(n, m))

What is done with all of it is done with its entries: its sum along a line is t, and a choice between it and
zeros, by a mask of the same places, is a choice within t. An index that is out of range must still be found:
so a rule goes only where something else that stays reads or writes by the same index.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Equation, Shape, Var, type_of
from ..operators.gather import line_axis
from ..primitive import P
from .engine import Rule, Walk, raw

_BY_INDEX = ("gather", "scatter_add", "scatter_set")
_GOES = ("sum", "where", "negative", "multiply")  # what is done with the entries here instead


def _lines(w: Walk, a: Any) -> tuple[Equation, int] | None:
    """The equation that made such an array, and the axis along which a line runs."""
    e = w.producer(a, "scatter_add")
    if e is None or type(e.inputs[0]) is not Var:
        return None
    t, *indices = e.inputs
    known = [raw(w.arrays.get(i)) if type(i) is Var else np.asarray(i) for i in indices]
    axis = line_axis(known, [type_of(i).shape for i in indices], e.outputs[0].shape)
    lines = None if axis is None else _lines_shape(e.outputs[0].shape, axis)
    if axis is None or t.shape != lines or type(indices[axis]) is not Var:
        return None
    return e, axis


def _lines_shape(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


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
    found = _lines(w, e.inputs[0])
    if found is None:
        return None
    lines, axis = found
    if e.params["axis"] != (axis,) or not _is_guarded(w, lines.inputs[1 + axis]):
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
    masks, entries = _lines(w, mask), _lines(w, made.inputs[0])
    if masks is None or entries is None or masks[0].inputs[1:] != entries[0].inputs[1:]:
        return None
    places, lines, factor = masks[0], entries[0], made.inputs[1:]
    if any(type(f) is Var for f in factor) or y.type != e.outputs[0].type:
        return None
    t = w.emit(e, made.primitive, lines.inputs[0], *factor)
    chosen = w.emit(e, P.where, places.inputs[0], t, other)
    if chosen.type.dtype != y.type.dtype:
        return None
    return w.emit(e, P.scatter_add, chosen, *lines.inputs[1:], shape=lines.params["shape"])


SUM: Rule = _sum
MASKED: Rule = _where
