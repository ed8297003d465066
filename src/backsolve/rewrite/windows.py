"""Small windows taken apart: the entries of all windows with one place in them become one array.

    y = max over k of windows(x)                 y = max(x[0::2], x[1::2])
    fold(t)                                      t₀ and t₁ side by side

Pooling, and its derivative, as loops over windows would run over two or three entries innermost. Taken apart,
they run along rows of windows, in vector registers, with the entries of each window in registers of their own.
Convolutions keep their windows: those are operands of products.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..ir import Equation, Program, Shape, Var
from ..operators.windows import Cut
from ..primitive import P
from .component_rows import Rows, laying
from .component_rules import rule_for
from .regions import inside

MOST_ENTRIES = 16  # of a window
ROW = 4  # windows side by side that are worth it
LONG = 64  # windows that are worth it


def split_windows(program: Program) -> Program:
    return inside(_split_all(program), split_windows)


def _split_all(program: Program) -> Program:
    forms: dict[tuple[Shape, Shape], None] = {}
    for e in program.equations:
        cut = e.params.get("cut")
        if isinstance(cut, Cut):
            whole = _windows_of(e).shape
            depth = len(whole) - len(cut.size)
            forms[whole[:depth], whole[depth:]] = None
    for lead, size in forms:
        if 1 < prod(size) <= MOST_ENTRIES and lead[-1] >= ROW and prod(lead) >= LONG:
            program = _split(program, lead, size)
    return program


def _windows_of(e: Equation) -> Var:
    """The variable that holds windows one by one."""
    found = e.outputs[0] if e.primitive is P.windows else e.inputs[0]
    assert type(found) is Var
    return found


def _split(program: Program, lead: Shape, size: Shape) -> Program:
    group = _group(program, (*lead, *size), lead)
    if not group:
        return program
    rows = Rows(program, lead)
    for e in program.equations:
        rows.where = e.where
        if e.primitive is P.fold and e.inputs[0] in rows.parts:
            _fold(rows, e)
        elif id(e) not in group:
            rows.keep(e)
        elif e.primitive is P.windows:
            rows.parts[e.outputs[0]] = _entries(rows, e)
        else:
            rule = rule_for(e)
            assert rule is not None
            if not rows.split(e, rule.components):
                return program
    return rows.finished()


# ---- what is taken apart


def _group(program: Program, whole: Shape, lead: Shape) -> set[int]:
    """Equations on windows of one form, tied to Windows or Fold, whose results nobody wants in one piece."""
    readers: dict[Any, list[Equation]] = {}
    for e in program.equations:
        for a in e.inputs:
            readers.setdefault(a, []).append(e)
    outputs = {a for a in program.outputs if type(a) is Var}
    fitting = {id(e): e for e in program.equations if _fits(e, whole, lead)}
    while True:
        wanted = [
            k
            for k, e in fitting.items()
            if e.outputs[0].shape == whole
            and (
                e.outputs[0] in outputs
                or not all(
                    id(r) in fitting or r.primitive is P.fold for r in readers.get(e.outputs[0], [])
                )
            )
        ]
        if not wanted:
            return _tied(list(fitting.values()), readers)
        for k in wanted:
            del fitting[k]


def _fits(e: Equation, whole: Shape, lead: Shape) -> bool:
    if e.primitive is P.windows:
        return e.outputs[0].shape == whole
    shapes = [a.shape for a in (*e.inputs, *e.outputs) if type(a) is Var]
    is_known = e.primitive.elementwise or e.primitive.name in _KNOWN
    rule = rule_for(e) if is_known and whole in shapes and len(e.outputs) == 1 else None
    out = e.outputs[0]
    if rule is None or out.shape[: len(lead)] != lead or out.type.weak:
        return False
    return prod(out.shape[len(lead) :]) <= MOST_ENTRIES and rule.fits(e, lead, MOST_ENTRIES)


_KNOWN = ("broadcast_to", "sum", "prod", "max", "first_max", "min", "any", "all")


def _tied(equations: list[Equation], readers: dict[Any, list[Equation]]) -> set[int]:
    """Those that Windows are read by, or that end in Fold, directly or through others."""
    makers = {e.outputs[0]: e for e in equations}
    fitting = {id(e) for e in equations}
    left = [
        e
        for e in equations
        if e.primitive is P.windows
        or any(r.primitive is P.fold for r in readers.get(e.outputs[0], []))
    ]
    found: set[int] = set()
    while left:
        e = left.pop()
        if id(e) not in found:
            found.add(id(e))
            left += [makers[a] for a in e.inputs if type(a) is Var and a in makers]
            left += [r for r in readers.get(e.outputs[0], []) if id(r) in fitting]
    return found


# ---- windows into components, and back


def _entries(rows: Rows, e: Equation) -> Any:
    """The entries number k of all windows, for each k: evenly spaced entries of the array."""
    (x,), cut = e.inputs, e.params["cut"]
    rows.whole(x)

    def entry(k: tuple[int, ...]) -> Any:
        places = [(s.start, s.stop, s.step) for s in cut.places(k, x.shape)]
        return rows.emit(P.slice, x, spec=tuple(places))

    return rows.each(cut.size, entry)


def _fold(rows: Rows, e: Equation) -> None:
    (t,), out, cut = e.inputs, e.outputs[0], e.params["cut"]
    parts = rows.parts[t]
    if cut.size == cut.step and set(cut.dilation) == {1}:
        whole = _side_by_side(rows, parts, cut, out)
        rows.define(out, P.reshape, whole, shape=out.shape)
    else:
        # All entries number k lie together, in rows as those of the sum.
        pieces = [rows.emit(laying(c), c, shape=(1, *rows.lead)) for c in parts.flat]
        stack = _joined(rows, pieces, 0)
        stack = rows.emit(P.reshape, stack, shape=(*cut.size, *rows.lead))
        inner, depth = len(cut.size), len(rows.lead)
        axes = (*range(inner, inner + depth), *range(inner))
        rows.define(out, P.fold, rows.emit(P.permute, stack, axes=axes), **e.params)
    rows.wholes.add(out)


def _side_by_side(rows: Rows, parts: Any, cut: Cut, out: Var) -> Any:
    """Windows that neither overlap nor leave gaps: rows of entries one after the other, and zeros behind."""
    shape = list(rows.lead)
    for axis, size in zip(cut.axes[::-1], cut.size[::-1], strict=True):
        one = (*shape[: axis + 1], 1, *shape[axis + 1 :])
        count = shape[axis] * size
        shape[axis] = count
        lines = parts.reshape(-1, size)
        joined = []
        for line in lines:
            pieces = [rows.emit(laying(c), c, shape=one) for c in line]
            join = rows.emit(P.reshape, _joined(rows, pieces, axis + 1), shape=tuple(shape))
            rest = out.shape[axis] - count
            if rest:
                zeros = (*shape[:axis], rest, *shape[axis + 1 :])
                blank = rows.emit(P.broadcast_to, rows.blank(out.dtype), shape=zeros)
                join = _joined(rows, [join, blank], axis)
            joined.append(join)
        shape[axis] = out.shape[axis]
        parts = np.empty(len(joined), object)
        parts[:] = joined
    return parts[0]


def _joined(rows: Rows, pieces: list[Var], axis: int) -> Any:
    starts = [0]
    for piece in pieces:
        starts.append(starts[-1] + piece.shape[axis])
    return rows.emit(P.concatenate, *pieces, axis=axis, starts=tuple(starts))
