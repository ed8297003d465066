"""What the rules of simplification are written against: a walk over the equations with a memory.

A rule gets the walk and an equation whose inputs are already simple. It gives back an atom that equals
the result, an Equation to stand in its place, or None. `emit` makes equations on the way.

An equation that no rule has changed remembers what they looked at (`Equation.seen`). A later walk, of whatever
Program it stands in then, passes over it if that is still the same: rules see nothing but their equation, what
defines the variables that they ask this walk about, and how often some are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from operator import is_
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
        self.constants = dict(program.constants)
        self.arrays = {v: c for v, c in program.constants if type(c) is np.ndarray}
        self.numbers = {v: raw(c).flat[0] for v, c in program.constants if is_uniform(raw(c))}
        atoms = [a for e in program.equations for a in e.inputs] + list(program.outputs)
        self.uses = Counter([a for a in atoms if type(a) is Var])
        self.sources: dict[Var, Any] = dict(program.constants)  # these, and `made`
        self.looked: list[Var] = []  # what the rules have asked about for the equation at hand
        self.counted: list[Var] = []  # and of what they wanted to know how often it is read

    def run(self, rules_of: Callable[[Primitive], Sequence[Rule]]) -> Program:
        for e in self.program.equations:
            if self.same:
                e = e.reading(tuple(map(self.now, e.inputs)))
            if e.primitive.holds_regions:
                if e.outputs:  # a call of which nothing is asked is no call
                    self.keep(e)
                continue
            if self.is_as_seen(e):
                self.keep(e)
                continue
            visited = e
            self.looked, self.counted = [a for a in e.inputs if type(a) is Var], []
            for rule in rules_of(e.primitive):
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
                if e is visited:
                    self.remember(e)
                self.keep(e)
        outputs = tuple(map(self.now, self.program.outputs))
        return Program(self.program.inputs, self.program.constants, tuple(self.kept), outputs)

    def remember(self, e: Equation) -> None:
        """What the rules looked at in vain."""
        looked, counted = tuple(dict.fromkeys(self.looked)), tuple(self.counted)
        sources = tuple(map(self.sources.get, looked))
        seen = (looked, sources, counted, tuple(map(self.uses.get, counted)))
        object.__setattr__(e, "seen", seen)

    def is_as_seen(self, e: Equation) -> bool:
        """Whether all is still as it was when no rule could do anything."""
        if e.seen is None:
            return False
        looked, sources, counted, uses = e.seen
        return all(map(is_, map(self.sources.get, looked), sources)) and (
            not counted or tuple(map(self.uses.get, counted)) == uses
        )

    def now(self, a: Any) -> Any:
        return self.same.get(a, a) if type(a) is Var else a

    def keep(self, e: Equation) -> None:
        self.made[e.outputs[0]] = self.sources[e.outputs[0]] = e
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
        if type(a) is not Var:
            return a
        self.looked.append(a)
        return self.numbers.get(a)

    def is_number(self, a: Any, value: float) -> bool:
        n = self.number(a)
        return n is not None and bool(n == value)

    def array(self, a: Var) -> Any:
        """The array that a variable always is, or None."""
        self.looked.append(a)
        return self.arrays.get(a)

    def maker(self, a: Var) -> Equation | None:
        """The equation which defines a variable, if one does."""
        self.looked.append(a)
        return self.made.get(a)

    def producer(self, a: Any, *names: str) -> Equation | None:
        """The equation of one of these primitives which defines atom `a`, if one does."""
        e = self.maker(a) if type(a) is Var else None
        return e if e is not None and e.primitive.name in names else None

    def sole(self, a: Any, *names: str) -> Equation | None:
        """The same, if nobody else reads `a`: then its equation goes when `a` is not read any more."""
        e = self.producer(a, *names)
        if e is None:
            return None
        self.counted.append(a)
        return e if self.uses[a] == 1 else None


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
