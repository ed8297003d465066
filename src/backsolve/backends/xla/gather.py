"""Arguments that lie in parts and are used whole: brought together for equations that need more than a part.

What a device does entry by entry (an optimiser's step) it does with its part; products need all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Equation, Program, Var, type_of


def with_whole(program: Program, places: Sequence[int]) -> tuple[Program, list[int]]:
    """A program with further inputs, read where arguments at `places` are needed whole; which those are."""
    wholes: dict[Var, Var] = {}
    candidates = {program.inputs[k] for k in places}

    def read(e: Equation, a: object) -> object:
        if not isinstance(a, Var) or a not in candidates or _goes_by_parts(e, a):
            return a
        return wholes.setdefault(a, Var(a.type, name=a.name))

    equations = tuple([e.reading(tuple([read(e, a) for a in e.inputs])) for e in program.equations])
    used = [k for k in places if program.inputs[k] in wholes]
    inputs = (*program.inputs, *[wholes[program.inputs[k]] for k in used])
    return Program(inputs, program.constants, equations, program.outputs), used


def _goes_by_parts(e: Equation, a: Var) -> bool:
    """Whether an equation makes each entry of entries in the same place, and of numbers."""
    types = [type_of(x) for x in (*e.inputs, *e.outputs)]
    return e.primitive.elementwise and all(t.shape in ((), a.shape) for t in types)
