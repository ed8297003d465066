"""Rules for parts among zeros, the adjoints of slices.

Where a mask keeps all of a part, it does nothing: around it there are zeros anyway. Parts that together make
up the whole array are put side by side, instead of added to zeros one by one; so are updates of slices that
together leave nothing of the array that they were written into.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..ir import Equation, Shape, Var, type_of
from ..operators.slice import key_of
from ..primitive import P
from .engine import Rule, Walk, instead, raw

MOST = 64  # parts


def _masked(w: Walk, e: Equation) -> Any:
    mask, a, other = e.inputs
    if not w.is_number(other, 0) or type(mask) is not Var or e.outputs[0].type != type_of(a):
        return None
    found = raw(w.constants.get(mask))
    if found is None:
        return None
    part = w.producer(a, "unslice")
    if part is not None:
        inside, _ = _kept(found, part)
        return a if inside else None
    # A multiple of a part: the part of the multiple. (Outside there may be a −0, or a NaN.)
    scaled = w.producer(a, "multiply")
    for x, factor in (scaled.inputs, scaled.inputs[::-1]) if scaled is not None else ():
        part = w.producer(x, "unslice")
        if part is not None and type(factor) in (float, int) and all(_kept(found, part)):
            t = w.emit(e, P.multiply, part.inputs[0], factor)
            return instead(e, P.unslice, t, **part.params)
    return None


def _kept(mask: Any, part: Equation) -> tuple[bool, bool]:
    """Whether a mask keeps all of a part, and nothing else."""
    spread = np.broadcast_to(mask, part.outputs[0].shape)
    inside = spread[(*key_of(part.params["spec"]), ...)]
    return bool(inside.all()), int(spread.sum()) == inside.size


def _side_by_side(w: Walk, e: Equation) -> Any:
    parts: list[Equation] = []
    waiting = list(e.inputs)
    while waiting and len(parts) <= MOST:
        a = waiting.pop()
        part, more = w.sole(a, "unslice"), w.sole(a, "add")
        if part is not None:
            parts.append(part)
        elif more is not None:
            waiting += more.inputs
        else:
            return None
    shape = e.outputs[0].shape
    if len(parts) > MOST or any(p.outputs[0].type != e.outputs[0].type for p in parts):
        return None
    pieces = [(box_of(shape, p.params["spec"]), p.inputs[0]) for p in parts]
    return _joined(w, e, pieces)


def _overwritten(w: Walk, e: Equation) -> Any:
    pieces: list[tuple[Box | None, Any]] = []
    found: Equation | None = e
    while found is not None and len(pieces) <= MOST:
        a, v = found.inputs
        if type(v) is not Var or v.dtype != e.outputs[0].dtype:
            return None
        pieces.append((box_of(e.outputs[0].shape, found.params["spec"]), v))
        found = w.sole(a, "slice_update")
    return _joined(w, e, pieces)


def _joined(w: Walk, e: Equation, pieces: list[tuple[Box | None, Any]]) -> Any:
    """The pieces side by side, if they fill the array of `e`, each place once."""
    shape = e.outputs[0].shape
    boxes = [(box, a) for box, a in pieces if box is not None]
    if len(boxes) < len(pieces) or len(pieces) > MOST:
        return None
    for axis in range(len(shape)):
        line = in_line(shape, axis, boxes)
        if line is not None:
            atoms = [_laid(w, e, box, a) for box, a in line]
            if any(a is None for a in atoms):
                return None
            starts = tuple([box[axis][0] for box, _ in line] + [shape[axis]])
            return instead(e, P.concatenate, *atoms, axis=axis, starts=starts)
    return None


Box = list[tuple[int, int]]


def box_of(shape: Shape, spec: Any) -> Box | None:
    """From where to where a part reaches along each axis; None if it has gaps or new axes."""
    if any(x is None for x in spec):
        return None
    box: Box = []
    for n, x in zip(shape, [*spec, *[(None, None, None)] * (len(shape) - len(spec))], strict=True):
        if isinstance(x, tuple):
            start, stop, step = slice(*x).indices(n)
            if step != 1:
                return None
            box.append((start, max(stop, start)))
        else:
            at = int(x) % n
            box.append((at, at + 1))
    return box


def in_line(shape: Shape, axis: int, pieces: list[tuple[Box, Any]]) -> Any:
    """The pieces in order, if they fill the array along this axis."""
    for box, _ in pieces:
        if any(b != (0, n) for k, (b, n) in enumerate(zip(box, shape, strict=True)) if k != axis):
            return None
    line = sorted(pieces, key=lambda x: x[0][axis])
    ends = [0, *[box[axis][1] for box, _ in line]]
    starts = [*[box[axis][0] for box, _ in line], shape[axis]]
    return line if ends == starts else None


def _laid(w: Walk, e: Equation, box: Box, a: Any) -> Any:
    """A piece with the axes of the whole; None if it would have to be repeated."""
    shape = tuple(stop - start for start, stop in box)
    if a.shape == shape:
        return a
    return w.emit(e, P.reshape, a, shape=shape) if a.type.size == prod(shape) else None


MASKED: Rule = _masked
SIDE_BY_SIDE: Rule = _side_by_side
OVERWRITTEN: Rule = _overwritten
