"""Several equations of a Program that XLA has one operation for: how they are found, and run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...ir import Equation, Program, Var, is_uniform
from .known import array_of


@dataclass(frozen=True)
class Joined:
    """Several equations as one: run(machine, *inputs) gives the output."""

    inputs: tuple[Any, ...]
    output: Var
    run: Callable[..., Any]


class Search:
    """What made each variable of a Program, and which are constants."""

    def __init__(self, program: Program):
        self.makers = {v: e for e in program.equations for v in e.outputs}
        self.constants = {v: array_of(c) for v, c in program.constants}

    def maker(self, a: Any, *names: str) -> Equation | None:
        """The equation of one of these primitives that made an atom."""
        e = self.makers.get(a) if type(a) is Var else None
        return e if e is not None and e.primitive.name in names else None

    def number(self, a: Any) -> Any:
        """The one number that an atom is everywhere, or None."""
        if type(a) is not Var:
            return a
        c = self.constants.get(a)
        return c.flat[0] if c is not None and is_uniform(c) else None
