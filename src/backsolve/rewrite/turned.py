"""What is computed entry by entry, and goes out with its axes turned alone, is computed turned.

    permute(sin(x) * c)                 sin(permute(x)) * permute(c)
    permute(gather(permute(x), i))      gather(x, 0…n−1, i)             columns of a matrix, by number

So for Jacobians by forward substitution, whose columns come first: no array is written, read again in strides
and written once more. One array that was made in the other order is read in strides, where the copy was; if
there are more of them, all stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..ir import Equation, Program, Type, Var, type_of
from ..primitive import P, Primitive
from .clean import drop_unused


def compute_turned(program: Program) -> Program:
    if not any(e.primitive is P.permute for e in program.equations):
        return program
    around = _Around(program)
    for e in program.equations:
        if e.primitive is not P.permute or not around.ends(e):
            continue
        changed = _columns(program, e, around) or _turned(program, e, around)
        if changed is not None:
            program, around = changed, _Around(changed)
    return program


class _Around:
    """Who reads what; and what goes out of the Program as it is, or in another shape."""

    def __init__(self, program: Program):
        self.makers = {v: e for e in program.equations for v in e.outputs}
        self.readers: dict[Any, list[Equation]] = {}
        for e in program.equations:
            for a in e.inputs:
                if type(a) is Var:
                    self.readers.setdefault(a, []).append(e)
        self.outputs = {a for a in program.outputs if type(a) is Var}

    def maker(self, a: Any, primitive: Primitive | None = None) -> Equation | None:
        """The equation that makes it, if it is one of this primitive."""
        e = self.makers.get(a) if type(a) is Var else None
        return e if e is not None and primitive in (None, e.primitive) else None

    def ends(self, e: Equation) -> bool:
        y = e.outputs[0]
        readers = self.readers.get(y, [])
        if y in self.outputs:
            return not readers
        return len(readers) == 1 and readers[0].primitive is P.reshape and self.ends(readers[0])


def _columns(program: Program, turning: Equation, around: _Around) -> Program | None:
    """Columns of a matrix that is turned twice, read where they are."""
    e = around.maker(turning.inputs[0], P.gather)
    inner = None if e is None else around.maker(e.inputs[0], P.permute)
    if e is None or inner is None or len(e.inputs) != 2:
        return None
    (x,), at = inner.inputs, e.inputs[1]
    if x.type.ndim != 2 or type_of(at).ndim != 1 or turning.outputs[0].type.ndim != 2:
        return None
    rows = np.arange(x.shape[0])[:, None]
    number = Var(type_of(rows))
    constants = (*program.constants, (number, rows))
    read = replace(turning, primitive=P.gather, inputs=(x, number, at), params={})
    equations = tuple([read if e is turning else e for e in program.equations])
    return drop_unused(replace(program, constants=constants, equations=equations))


def _turned(program: Program, turning: Equation, around: _Around) -> Program | None:
    axes, whole = turning.params["axes"], turning.inputs[0]
    if around.maker(whole) is None:
        return None
    found: dict[Var, Equation] = {}
    for e in reversed(program.equations):
        y = e.outputs[0]
        if y.shape != whole.shape or not _is_by_entries(e) or y in around.outputs:
            continue
        readers = around.readers.get(y, ())
        if readers and all(r is turning or r.outputs[0] in found for r in readers):
            found[y] = e
    if whole not in found:
        return None
    known = {v for v, _ in program.constants}
    read = dict.fromkeys(a for e in found.values() for a in e.inputs if type(a) is Var)
    made = [a for a in read if a not in found and a not in known]
    if sum(_is_in_strides(a, axes, around) for a in made) > 1:
        return None
    turned: dict[Var, Any] = {}
    kept: list[Equation] = []

    def read_turned(a: Any, e: Equation) -> Any:
        if type(a) is not Var or not a.shape:
            return a
        if a not in turned:
            turned[a] = _view(a, axes, e, kept)
        return turned[a]

    for e in program.equations:
        y = e.outputs[0]
        if y in found:
            inputs = tuple([read_turned(a, e) for a in e.inputs])
            shape = tuple([y.shape[k] for k in axes])
            turned[y] = Var(Type(shape, y.dtype, y.type.weak))
            kept.append(Equation((turned[y],), e.primitive, inputs, e.params, e.where))
        elif e is turning:
            to = {"shape": e.outputs[0].shape}  # its own: it is dropped later
            kept.append(replace(e, primitive=P.reshape, inputs=(turned[whole],), params=to))
        else:
            kept.append(e)
    return Program(program.inputs, program.constants, tuple(kept), program.outputs)


def _is_by_entries(e: Equation) -> bool:
    return e.primitive.elementwise and not e.primitive.has_effect and not e.outputs[0].type.is_stack


def _is_in_strides(a: Var, axes: Sequence[int], around: _Around) -> bool:
    """Whether it would be read in another order than it lies in memory."""
    spread = around.maker(a, P.broadcast_to)
    if spread is not None and type(spread.inputs[0]) is Var:
        a = spread.inputs[0]
    before = around.maker(a, P.permute)
    if before is not None and a.type.ndim == len(axes):
        a, axes = before.inputs[0], [before.params["axes"][k] for k in axes]
    return _moves((*[1] * (len(axes) - a.type.ndim), *a.shape), axes)


def _moves(shape: Sequence[int], axes: Sequence[int]) -> bool:
    """Whether axes of more than one entry change their order."""
    long = [k for k in axes if shape[k] != 1]
    return long != sorted(long)


def _view(a: Var, axes: Sequence[int], e: Equation, kept: list[Equation]) -> Var:
    """An array that is broadcast, turned as the whole."""
    shape = (*[1] * (len(axes) - a.type.ndim), *a.shape)
    turned = tuple([shape[k] for k in axes])

    def emit(primitive: Any, b: Var, to: Sequence[int], **params: Any) -> Var:
        made = Var(Type(tuple(to), a.dtype, a.type.weak))
        kept.append(Equation((made,), primitive, (b,), params, e.where))
        return made

    if not _moves(shape, axes):
        return a if turned == a.shape else emit(P.reshape, a, turned, shape=turned)
    whole = a if shape == a.shape else emit(P.reshape, a, shape, shape=shape)
    return emit(P.permute, whole, turned, axes=tuple(axes))
