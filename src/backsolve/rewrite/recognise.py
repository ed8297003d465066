"""Formulas recognised from their last equation back, each replaced by the one row that computes it."""

from __future__ import annotations

from typing import Any, ClassVar

from ..ir import Equation, Program, Var
from ..primitive import Primitive
from .engine import raw


class Formula:
    """Subclasses say what they replace it by, and how to know it; see `join`."""

    row: ClassVar[Primitive]
    holds: ClassVar[str]  # a primitive that every program with the formula has

    def __init__(self, program: Program):
        self.made = {v: e for e in program.equations for v in e.outputs}
        self.constants = {v: raw(c) for v, c in program.constants}

    def inputs(self, e: Equation) -> tuple[Any, ...] | None:
        """What the row takes, if `e` is the last equation of the formula."""
        raise NotImplementedError(f"{type(self).__name__}.inputs")

    def before_broadcast(self, a: Any) -> Any:
        e = self.made.get(a) if type(a) is Var else None
        while e is not None and e.primitive.name == "broadcast_to":
            a = e.inputs[0]
            e = self.made.get(a) if type(a) is Var else None
        return a

    @classmethod
    def join(cls, program: Program) -> Program:
        if not any(e.primitive.name == cls.holds for e in program.equations):
            return program
        formula = cls(program)
        equations = [
            e
            if (found := formula.inputs(e)) is None
            else Equation(e.outputs, cls.row, found, {}, e.where)
            for e in program.equations
        ]
        return Program(program.inputs, program.constants, tuple(equations), program.outputs)
