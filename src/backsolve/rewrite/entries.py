"""Few entries of an element-wise result: the function of those entries, not of all.

    gather(f(a, b), i)     f(gather(a, i), gather(b, i))

The adjoint of `x[i] -= v` is such a read, of minus the adjoint of a whole array.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..ir import Equation, Program, Var, type_of
from .clean import drop_unused
from .regions import inside

LARGE = 16  # entries above which an array is worth it
_READS = ("gather", "slice")


def read_entries(program: Program) -> Program:
    return inside(_read_entries(program), read_entries)


def _read_entries(program: Program) -> Program:
    while True:
        readers: dict[Any, list[Equation]] = {}
        for e in program.equations:
            for a in e.inputs:
                readers.setdefault(a, []).append(e)
        outputs = {a for a in program.outputs if type(a) is Var}
        found = {
            e.outputs[0]: e
            for e in program.equations
            if e.primitive.elementwise
            and e.outputs[0] not in outputs
            and _is_read_in_parts(e.outputs[0], readers.get(e.outputs[0], []))
            and all(_goes_along(a, e.outputs[0]) for a in e.inputs)
        }
        if not found:
            return program
        equations: list[Equation] = []
        for e in program.equations:
            made = found.get(e.inputs[0]) if e.inputs and type(e.inputs[0]) is Var else None
            equations += [e] if made is None else _entries_first(e, made)
        program = drop_unused(
            Program(program.inputs, program.constants, tuple(equations), program.outputs)
        )


def _is_read_in_parts(v: Var, readers: list[Equation]) -> bool:
    if v.type.is_stack or v.type.size <= LARGE:
        return False
    if not readers or not all(e.primitive.name in _READS and e.inputs[0] is v for e in readers):
        return False
    if any(v in e.inputs[1:] for e in readers):
        return False
    return 2 * sum(e.outputs[0].type.size for e in readers) <= v.type.size


def _goes_along(a: Any, v: Var) -> bool:
    shape = type_of(a).shape
    return shape in ((), v.shape)


def _entries_first(read: Equation, made: Equation) -> list[Equation]:
    equations, inputs = [], []
    for a in made.inputs:
        if type(a) is Var and a.shape:
            (t,) = read.primitive.infer([type_of(x) for x in (a, *read.inputs[1:])], read.params)
            entry = Var(t)
            equations.append(replace(read, outputs=(entry,), inputs=(a, *read.inputs[1:])))
            a = entry
        inputs.append(a)
    return [*equations, replace(made, outputs=read.outputs, inputs=tuple(inputs))]
