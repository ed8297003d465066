"""What rests on fixed values alone is done once, before a loop, and not in every round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..ir import Equation, Program, Var, type_of
from ..regions import Loop
from .regions import inside

VIEWS = ("slice", "permute", "reshape", "broadcast_to", "alias")
# What cannot fail, so that it may be done even if there is no round.
SAFE = (*VIEWS, "contract", "sum", "max", "min", "prod", "cast", "concatenate")


def do_once(program: Program) -> Program:
    """Inner loops first: what leaves them may leave the outer ones, too."""
    given = program
    program = inside(program, do_once)
    constants = list(program.constants)
    equations: list[Equation] = []
    for e in program.equations:
        if isinstance(e.params.get("region"), Loop):
            equations += _Opened(e, constants).moved()
        else:
            equations.append(e)
    same = len(equations) == len(given.equations)
    if same and all(x is y for x, y in zip(equations, given.equations, strict=True)):
        return given
    return replace(program, constants=tuple(constants), equations=tuple(equations))


class _Opened:
    """A loop taken to pieces."""

    def __init__(self, e: Equation, outer_constants: list[tuple[Var, Any]]):
        self.e, self.outer_constants = e, outer_constants
        self.loop: Loop = e.params["region"]
        body, a = self.loop.body, 1 + self.loop.carried
        fixed = self.loop.split(e.inputs)[2]
        self.fixed: dict[Var, Any] = dict(zip(body.inputs[a : a + len(fixed)], fixed, strict=True))
        self.equations = list(body.equations)
        self.constants = dict(body.constants)
        self.copied: dict[Var, Var] = {}  # constants of the body that are needed outside
        self.before: list[Equation] = []

    def moved(self) -> list[Equation]:
        more = self._invariant()
        return [*self.before, self._closed(more)] if self.before else [self.e]

    def _closed(self, more: dict[Var, Var]) -> Equation:
        """The loop with what is left, and with `more` fixed values."""
        loop, body = self.loop, self.loop.body
        a = 1 + loop.carried + loop.fixed
        inputs = (*body.inputs[:a], *more, *body.inputs[a:])
        goes_on = loop.goes_on
        if goes_on is not None:
            unread = [Var(v.type) for v in more]
            goes_on = replace(goes_on, inputs=(*goes_on.inputs, *unread))
        region = replace(
            loop,
            body=replace(body, inputs=inputs, equations=tuple(self.equations)),
            goes_on=goes_on,
            fixed=loop.fixed + len(more),
            extends=None,
        )
        b = int(loop.counted) + loop.carried + loop.fixed
        atoms = (*self.e.inputs[:b], *more.values(), *self.e.inputs[b:])
        return replace(self.e, inputs=atoms, params={"region": region})

    def _invariant(self) -> dict[Var, Var]:
        """Move equations out; what the rest still reads of their results, inside -> outside."""
        runs = bool(self.loop.count) and self.loop.goes_on is None and not self.loop.counted
        stay: list[Equation] = []
        known: dict[Var, Var] = {}  # of the body -> of the Program around
        for e in self.equations:
            variables = [a for a in e.inputs if type(a) is Var]
            still = all(a in self.fixed or a in self.constants or a in known for a in variables)
            from_outside = any(a in self.fixed or a in known for a in variables)
            if still and from_outside and self._may_leave(e, runs):
                self._before(e, known)
            else:
                stay.append(e)
        read = {a for e in stay for a in e.inputs if type(a) is Var}
        read |= {a for a in self.loop.body.outputs if type(a) is Var}
        self.equations = stay
        return {v: outer for v, outer in known.items() if v in read}

    def _may_leave(self, e: Equation, runs: bool) -> bool:
        if e.primitive.holds_regions or any(v.type.weak for v in e.outputs):
            return False
        size = sum(type_of(a).size for a in e.inputs)
        larger = e.primitive.name not in VIEWS and e.outputs[0].type.size > max(size, 1)
        floats = all(type_of(a).dtype.kind in "fcb" for a in (*e.inputs, *e.outputs))
        safe = e.primitive.name in SAFE or (e.primitive.elementwise and floats)
        return not larger and (runs or safe)

    def _before(self, e: Equation, known: dict[Var, Var]) -> None:
        atoms = tuple(self._outer(a, known) for a in e.inputs)
        outs = tuple(Var(v.type) for v in e.outputs)
        known.update(zip(e.outputs, outs, strict=True))
        self.before.append(Equation(outs, e.primitive, atoms, e.params, e.where))

    def _outer(self, a: Any, known: dict[Var, Var]) -> Any:
        if type(a) is not Var:
            return a
        if a in self.constants:
            return self._constant(a)
        return known[a] if a in known else self.fixed[a]

    def _constant(self, v: Var) -> Var:
        if v not in self.copied:
            self.copied[v] = Var(v.type)
            self.outer_constants.append((self.copied[v], self.constants[v]))
        return self.copied[v]
