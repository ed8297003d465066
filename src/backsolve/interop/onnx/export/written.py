"""A Program in rows that ONNX has operators for: what it has none for is written out by a formula in NumPy."""

from __future__ import annotations

from typing import Any

from ....ir import Equation, Program, Type, Var, type_of
from ....primitive import P
from ....rewrite import rewrite
from ....rewrite.expand import EXPANSIONS
from ....rewrite.regions import inside
from ....trace import stage
from .rows import FORMULAS, ROWS


def written_out(program: Program) -> Program:
    constants, equations = list(program.constants), []
    for e in program.equations:
        f = FORMULAS.get(e.primitive.name) or EXPANSIONS.get(e.primitive.name)
        kinds = {type_of(a).dtype.kind for a in (*e.inputs, *e.outputs)}
        if f is None or e.primitive.name in ROWS or "c" in kinds or e.outputs[0].type.size == 0:
            equations.append(e)
            continue
        inner = _recorded(e, f)
        constants += inner.constants
        equations += _in_place(inner, e)
    made = Program(program.inputs, tuple(constants), tuple(equations), program.outputs)
    return inside(made, written_out)


def _recorded(e: Equation, f: Any) -> Program:
    """The Program of a formula for the types of an equation, in the dtype of its result."""
    out = e.outputs[0].type
    wide = out.dtype if out.dtype.kind in "fiu" and e.primitive.elementwise else None
    types = [Type(t.shape, t.dtype) for t in map(type_of, e.inputs)]
    casts = [wide is not None and (t.weak or t.dtype.kind in "biu") for t in map(type_of, e.inputs)]

    def run(*staged: Any) -> list[Any]:
        given = [x.astype(wide) if c else x for x, c in zip(staged, casts, strict=True)]
        y = f(*given, **e.params)
        return [y if y.dtype == out.dtype else y.astype(out.dtype)]

    return written_out(rewrite(stage(run, types)[0]))


def _in_place(inner: Program, e: Equation) -> list[Equation]:
    """The equations of a Program where one stood, at the user's line."""
    known: dict[Any, Any] = dict(zip(inner.inputs, e.inputs, strict=True))
    (result,) = inner.outputs
    made = {v for q in inner.equations for v in q.outputs}
    if result in made:
        known[result] = e.outputs[0]
    now = lambda a: known.get(a, a) if type(a) is Var else a
    found = [
        Equation(
            tuple(map(now, q.outputs)), q.primitive, tuple(map(now, q.inputs)), q.params, e.where
        )
        for q in inner.equations
    ]
    if result not in made:
        found.append(Equation(e.outputs, P.alias, (now(result),), {}, e.where))
    return found
