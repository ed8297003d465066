"""Products that add nothing up, outer products above all: multiplications, which join the loops around them.

For native code alone, and late: XLA does it itself, and convolutions are known by their products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Equation, Program, Type, Var, type_of
from ..operators.nests import split_subscripts
from ..primitive import P
from .contractions import SUMMED


def multiply_out(program: Program) -> Program:
    if not any(_adds_nothing(e) for e in program.equations):
        return program
    equations: list[Equation] = []
    for e in program.equations:
        if _adds_nothing(e):
            _multiply(e, equations)
        else:
            equations.append(e)
    return Program(program.inputs, program.constants, tuple(equations), program.outputs)


def _adds_nothing(e: Equation) -> bool:
    """Whether it is a product of two arrays whose summed axes have one entry each."""
    if e.primitive is not P.contract or len(e.inputs) != 2 or e.params["sizes"]:
        return False
    labels, output = split_subscripts(e.params["subscripts"])
    plain = all(len(set(x)) == len(x) for x in (*labels, output))
    dtypes = {type_of(a).dtype for a in (*e.inputs, *e.outputs)}
    if not plain or len(dtypes) > 1 or e.outputs[0].dtype.char not in SUMMED:
        return False
    shapes = [type_of(a).shape for a in e.inputs]
    return all(
        n == 1 or c in output
        for mine, shape in zip(labels, shapes, strict=True)
        for c, n in zip(mine, shape, strict=True)
    )


def _multiply(e: Equation, equations: list[Equation]) -> None:
    labels, output = split_subscripts(e.params["subscripts"])

    def turned(a: Any, mine: str) -> Any:
        """An operand with the axes of the output."""
        lengths = dict(zip(mine, type_of(a).shape, strict=True))
        kept = [c for c in output if c in mine]
        gone = [c for c in mine if c not in output]
        a = add(P.permute, a, axes=tuple([mine.index(c) for c in (*gone, *kept)]))
        return add(P.reshape, a, shape=tuple([lengths.get(c, 1) for c in output]))

    def add(primitive: Any, a: Any, **params: Any) -> Any:
        shape = type_of(a).shape
        shape = params["shape"] if "shape" in params else tuple([shape[k] for k in params["axes"]])
        y = Var(Type(shape, np.dtype(type_of(a).dtype)))
        equations.append(Equation((y,), primitive, (a,), params, e.where))
        return y

    parts = tuple([turned(a, mine) for a, mine in zip(e.inputs, labels, strict=True)])
    equations.append(Equation(e.outputs, P.multiply, parts, {}, e.where))
