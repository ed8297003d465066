"""Numbers that are rounded to 16 bits only to be widened again stay wide, as XLA's own rule is for such pairs.

    float32(where(c, 0, float16(y)))        where(c, 0, y)

What somebody reads in 16 bits (a product, a result) is rounded, and everybody reads that. So are sums: those of
adjoints, or along a residual stream, are kept for long, and should take the memory of 16 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Equation, Program, Type, Var, type_of
from ..primitive import P
from .half import HALF
from .regions import inside

_WIDE = np.dtype(np.float32)


def stay_wide(program: Program) -> Program:
    return inside(_widened(program), stay_wide)


def _widened(program: Program) -> Program:
    passing = _only_widened(program)
    if not passing:
        return program
    wide: dict[Any, Any] = {}  # a variable of 16 bits, or what it was widened to: the number before
    kept: list[Equation] = []
    for e in program.equations:
        inputs = tuple(wide.get(a, a) if type(a) is Var else a for a in e.inputs)
        if not any(v in passing for v in (*e.inputs, *e.outputs)):
            kept.append(e.reading(inputs))
        elif e.primitive is P.cast:  # to 16 bits, or back
            wide[e.outputs[0]] = inputs[0]
        else:
            chosen = wide[e.outputs[0]] = Var(Type(e.outputs[0].shape, _WIDE))
            kept.append(Equation((chosen,), e.primitive, inputs, e.params, e.where))
    outputs = tuple(wide.get(a, a) if type(a) is Var else a for a in program.outputs)
    return Program(program.inputs, program.constants, tuple(kept), outputs)


def _only_widened(program: Program) -> set[Any]:
    """Variables of 16 bits that are rounded float32, or choices of such, and that everybody widens."""
    readers: dict[Any, list[Equation]] = {}
    for e in program.equations:
        for a in e.inputs:
            if type(a) is Var:
                readers.setdefault(a, []).append(e)
    results = {a for a in program.outputs if type(a) is Var}
    sums = {e.outputs[0] for e in program.equations if e.primitive is P.add}
    found = {
        e.outputs[0]
        for e in program.equations
        if e.outputs and e.outputs[0].dtype == HALF and _is_rounding(e, sums)
    } - results
    while True:
        lost = set()
        for e in program.equations:
            v = e.outputs[0] if e.outputs else None
            if v not in found:
                continue
            fine = all(
                _widens(r) or (r.outputs and r.outputs[0] in found) for r in readers.get(v, [])
            )
            if e.primitive is P.where:
                fine = fine and all(a in found for a in e.inputs[1:] if type(a) is Var)
            if not fine:
                lost.add(v)
        if not lost:
            return found
        found -= lost


def _is_rounding(e: Equation, sums: set[Var]) -> bool:
    if e.primitive is P.cast:
        t = type_of(e.inputs[0])
        return t.dtype == _WIDE and not t.weak and e.inputs[0] not in sums
    return e.primitive is P.where and any(type(a) is Var for a in e.inputs[1:])


def _widens(e: Equation) -> bool:
    return e.primitive is P.cast and e.outputs[0].dtype == _WIDE
