"""What the rules of simplification are written against: a walk over the equations with a memory.

A rule gets the walk and an equation whose inputs are already simple. It gives back an atom that equals
the result, an Equation to stand in its place, or None. `emit` makes equations on the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..ir import Equation, Program, Type, Var, is_uniform, type_of
from ..primitive import P, Primitive

Rule = Callable[["Walk", Equation], Any]


class Walk:
    def __init__(self, program: Program):
        self.program = program
        self.same: dict[Var, Any] = {}  # a variable and the atom it equals
        self.made: dict[Var, Equation] = {}  # the (rewritten) equation that defines a variable
        self.spread: set[Var] = set()  # variables that are broadcast
        self.kept: list[Equation] = []
        self.arrays = {v: c for v, c in program.constants if type(c) is np.ndarray}
        self.numbers = {v: raw(c).flat[0] for v, c in program.constants if is_uniform(raw(c))}
        atoms = [a for e in program.equations for a in e.inputs] + list(program.outputs)
        self.uses = Counter(a for a in atoms if type(a) is Var)

    def run(self, rules: Mapping[str, list[Rule]], general: Rule) -> Program:
        for e in self.program.equations:
            if self.same:
                e = e.reading(tuple(map(self.now, e.inputs)))
            if e.primitive.holds_regions:
                if e.outputs:  # a call of which nothing is asked is no call
                    self.keep(e)
                continue
            for rule in (general, *rules.get(e.primitive.name, ())):
                result = rule(self, e)
                if result is None:
                    continue
                if isinstance(result, Equation):
                    another = result.primitive is not e.primitive
                    e = result
                    if another:
                        break  # its own rules see it in the next round
                elif type_of(result) == e.outputs[0].type:
                    self.same[e.outputs[0]] = result
                    break
            if e.outputs[0] not in self.same:
                self.keep(e)
        outputs = tuple(map(self.now, self.program.outputs))
        return Program(self.program.inputs, self.program.constants, tuple(self.kept), outputs)

    def now(self, a: Any) -> Any:
        return self.same.get(a, a) if type(a) is Var else a

    def keep(self, e: Equation) -> None:
        self.made[e.outputs[0]] = e
        if e.primitive is P.broadcast_to:
            self.spread.add(e.outputs[0])
        self.kept.append(e)

    def emit(self, like: Equation, primitive: Primitive, *inputs: Any, **params: Any) -> Any:
        """A new equation, on behalf of the user's line of `like`; its variable."""
        (t,) = primitive.infer([type_of(a) for a in inputs], params)
        var = Var(t)
        self.uses[var] = 1
        self.keep(Equation((var,), primitive, inputs, params, like.where))
        return var

    def number(self, a: Any) -> Any:
        """The one number that an atom is everywhere, or None."""
        return self.numbers.get(a) if type(a) is Var else a

    def is_number(self, a: Any, value: float) -> bool:
        n = self.number(a)
        return n is not None and bool(n == value)

    def producer(self, a: Any, *names: str) -> Equation | None:
        """The equation of one of these primitives which defines atom `a`, if one does."""
        e = self.made.get(a) if type(a) is Var else None
        return e if e is not None and e.primitive.name in names else None

    def sole(self, a: Any, *names: str) -> Equation | None:
        """The same, if nobody else reads `a`: then its equation goes when `a` is not read any more."""
        return self.producer(a, *names) if type(a) is Var and self.uses[a] == 1 else None


def raw(constant: Any) -> Any:
    return getattr(constant, "_v", constant)


def instead(e: Equation, primitive: Primitive, *inputs: Any, **params: Any) -> Equation | None:
    """Another equation for the same variable; None if its type would differ."""
    try:
        (t,) = primitive.infer([type_of(a) for a in inputs], params)
    except (TypeError, ValueError):
        return None
    return (
        Equation(e.outputs, primitive, inputs, params, e.where) if t == e.outputs[0].type else None
    )


def is_real(t: Type) -> bool:
    return t.dtype.kind in "fiub"


def scalar(value: Any) -> Any:
    """A NumPy number as a bare Python one, if that holds it exactly in any dtype; else None."""
    v = value.item() if isinstance(value, np.generic) else value
    if type(v) is float and not np.isfinite(v):
        return None
    if type(v) is int and abs(v) > 2**31:
        return None
    return v if type(v) in (float, int, bool) else None
