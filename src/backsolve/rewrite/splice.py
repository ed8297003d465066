"""Some equations of a Program recorded anew, as other code on the same inputs, among those that stay.

What stays is the object that it was, so what is known of it (`Equation.seen`) still holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir import Equation, Program, Var, type_of
from ..primitive import wrap
from ..trace import Recorder


class Splice:
    def __init__(self, program: Program):
        self._program = program
        self._recorder = Recorder()
        self._values: dict[Var, Any] = {}  # variables of the Program, as recorded code takes them
        self._originals: dict[Var, Var] = {}  # and what of the Program such a variable stands for
        self._atoms: dict[Var, Any] = {}  # what stands for a variable that was made anew

    def value(self, a: Any) -> Any:
        """An atom of the Program for code that is to be recorded."""
        if type(a) is not Var:
            return a
        if a not in self._values:
            var = Var(a.type, self._recorder)
            self._originals[var] = a
            self._values[a] = wrap(var, None)
        return self._values[a]

    def keeps(self, e: Equation) -> bool:
        """The equation stays, if all that it reads still has the type that it had."""
        inputs = tuple(map(self._now, e.inputs))
        if any(type_of(a) != type_of(b) for a, b in zip(inputs, e.inputs, strict=True)):
            return False
        self._recorder.equations.append(e.reading(inputs))
        return True

    def define(self, variables: Sequence[Var], values: Sequence[Any]) -> None:
        """What was recorded last made these."""
        for v, y in zip(variables, values, strict=True):
            atom = self._recorder.atom(y)
            self._values[v], self._atoms[v] = y, self._original(atom)

    def program(self) -> Program:
        before, made = self._program, self._recorder.program((), ())
        equations = [e.reading(tuple(map(self._original, e.inputs))) for e in made.equations]
        constants = (*before.constants, *made.constants)
        outputs = tuple(map(self._now, before.outputs))
        return Program(before.inputs, constants, tuple(equations), outputs)

    def _now(self, a: Any) -> Any:
        return self._atoms.get(a, a) if type(a) is Var else a

    def _original(self, a: Any) -> Any:
        return self._originals.get(a, a) if type(a) is Var else a
