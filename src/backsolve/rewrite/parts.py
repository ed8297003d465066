"""Rules for parts among zeros, the adjoints of slices.

Where a mask keeps all of a part, it does nothing: around it there are zeros anyway. Parts that together make up
the whole array are put side by side, instead of added to zeros one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Equation, Shape, Var
from ..operators.slice import key_of
from ..primitive import P
from .engine import Rule, Walk, instead, raw

MOST = 64  # parts


def _masked(w: Walk, e: Equation) -> Any:
    mask, a, other = e.inputs
    part = w.producer(a, "unslice")
    if part is None or not w.is_number(other, 0) or type(mask) is not Var:
        return None
    found = next((raw(c) for v, c in w.program.constants if v is mask), None)
    if found is None or e.outputs[0].shape != a.shape:
        return None
    kept = np.broadcast_to(found, a.shape)[(*key_of(part.params["spec"]), ...)]
    return a if bool(kept.all()) else None


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
    boxes = [_box(shape, p.params["spec"]) for p in parts]
    if any(box is None for box in boxes):
        return None
    for axis in range(len(shape)):
        pieces = _in_line(shape, axis, boxes, parts)
        if pieces is not None:
            atoms = [_laid(w, e, box, part) for box, part in pieces]
            starts = tuple([box[axis][0] for box, _ in pieces] + [shape[axis]])
            return instead(e, P.concatenate, *atoms, axis=axis, starts=starts)
    return None


Box = list[tuple[int, int]]


def _box(shape: Shape, spec: Any) -> Box | None:
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


def _in_line(shape: Shape, axis: int, boxes: Any, parts: list[Equation]) -> Any:
    """The parts in order, if they fill the array along this axis."""
    full = [
        all(b == (0, n) for k, (b, n) in enumerate(zip(box, shape, strict=True)) if k != axis)
        for box in boxes
    ]
    if not all(full):
        return None
    pieces = sorted(zip(boxes, parts, strict=True), key=lambda x: x[0][axis])
    ends = [0, *[box[axis][1] for box, _ in pieces]]
    starts = [*[box[axis][0] for box, _ in pieces], shape[axis]]
    return pieces if ends == starts else None


def _laid(w: Walk, e: Equation, box: Box, part: Equation) -> Any:
    """A part with the axes of the whole."""
    (t,) = part.inputs
    shape = tuple(stop - start for start, stop in box)
    return t if t.shape == shape else w.emit(e, P.reshape, t, shape=shape)


MASKED: Rule = _masked
SIDE_BY_SIDE: Rule = _side_by_side
