"""Parts among zeros, said so that backends can add them in place.

x − part(t)                        x + part(−t)
permute(scatter_add(t, j))         scatter_add(t, 0…n−1, j)        the entries of a column
permute(unslice(t))                unslice(permute(t))
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..ir import Equation, Program, Type, Var, type_of
from ..primitive import P
from .clean import drop_unused

LARGE = 16  # entries above which an array is worth it
PARTS = ("scatter_add", "unslice")


def with_plain_parts(program: Program) -> Program:
    plain = _Plain()
    equations = [x for e in program.equations for x in plain.said(e)]
    if len(equations) == len(program.equations):
        return program
    constants = (*program.constants, *plain.constants)
    return drop_unused(replace(program, constants=constants, equations=tuple(equations)))


class _Plain:
    def __init__(self) -> None:
        self.makers: dict[Var, Equation] = {}
        self.constants: list[tuple[Var, Any]] = []

    def said(self, e: Equation) -> list[Equation]:
        found = [e]
        if len(e.outputs) == 1 and e.outputs[0].type.size > LARGE:
            if e.primitive is P.subtract:
                found = self._subtracted(e)
            elif e.primitive is P.permute:
                found = self._turned(e)
        self.makers.update({v: x for x in found for v in x.outputs})
        return found

    def _part(self, a: Any) -> Equation | None:
        e = self.makers.get(a) if type(a) is Var else None
        return e if e is not None and e.primitive.name in PARTS else None

    def _subtracted(self, e: Equation) -> list[Equation]:
        x, b = e.inputs
        part = self._part(b)
        if part is None or type_of(x) != e.outputs[0].type or b.type != e.outputs[0].type:
            return [e]
        t = part.inputs[0]
        minus, among = Var(Type(type_of(t).shape, type_of(t).dtype)), Var(b.type)
        return [
            Equation((minus,), P.negative, (t,), {}, e.where),
            replace(part, outputs=(among,), inputs=(minus, *part.inputs[1:])),
            replace(e, primitive=P.add, inputs=(x, among)),
        ]

    def _turned(self, e: Equation) -> list[Equation]:
        part = self._part(e.inputs[0])
        if part is None or type(part.inputs[0]) is not Var:
            return [e]
        at = part.inputs[1:] if part.primitive is P.scatter_add else part.params["spec"]
        if part.primitive is P.scatter_add and any(type_of(i).shape for i in at):
            return [e]
        axes, shape = e.params["axes"], e.outputs[0].shape
        is_single = [k < len(at) and not isinstance(at[k], tuple) for k in range(len(axes))]
        walked = [a for a in range(len(axes)) if not is_single[a]]
        order = tuple(walked.index(a) for a in axes if a in walked)
        t = part.inputs[0]
        turned = Var(Type(tuple(t.shape[k] for k in order), t.dtype))
        found = [Equation((turned,), P.permute, (t,), {"axes": order}, e.where)]
        if part.primitive is P.unslice:
            spec = tuple(at[a] if a < len(at) else (None, None, None) for a in axes)
            return [
                *found,
                replace(
                    part, outputs=e.outputs, inputs=(turned,), params={"spec": spec, "shape": shape}
                ),
            ]
        last = max(k for k, a in enumerate(axes) if is_single[a])
        free = [k for k in range(last) if not is_single[axes[k]]]
        indices = [
            self._line(shape[k], len(free) - free.index(k) - 1) if k in free else at[a]
            for k, a in enumerate(axes[: last + 1])
        ]
        return [
            *found,
            replace(part, outputs=e.outputs, inputs=(turned, *indices), params={"shape": shape}),
        ]

    def _line(self, n: int, behind: int) -> Var:
        """0 … n−1 along an axis with so many behind it."""
        values = np.arange(n).reshape(n, *[1] * behind)
        self.constants.append((Var(type_of(values)), values))
        return self.constants[-1][0]
