"""Sums that adjoints run up: parts are added to one total, which goes through loops and branches.

Each place where an array is read gives its adjoint a part among zeros, and each loop or branch that reads it
gives a whole array, most of it zeros. Summed up as recorded, every round of an outer loop would make and add
arrays of full size. Here such a sum becomes a chain,

    a + (part + part)                  (a + part) + part
    a + loop(…, 0, …)                  loop(…, a, …)         where the rounds only add to what is carried
    a + branch(…) -> (…, y, …)         branch(…, a) -> (…, a + y, …)

so that backends add each part where it belongs, in place. Sums are taken in another order by this.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..ir import Equation, Program, Type, Var, is_uniform, type_of
from ..primitive import P
from ..regions import Branches, Loop
from .clean import drop_unused
from .plain_parts import PARTS, with_plain_parts
from .regions import in_order, inside

LARGE = 16  # entries above which an array is worth it


def chain_sums(program: Program) -> Program:
    return inside(_Sums(with_plain_parts(program)).run(), chain_sums)


class _Sums:
    def __init__(self, program: Program):
        self.program = program
        self.equations = list(program.equations)
        self.makers = {v: e for e in self.equations for v in e.outputs}
        self.zeros = {v for v, c in program.constants if _is_zero(c)}
        self.uses: dict[Any, int] = {}
        for a in [a for e in self.equations for a in e.inputs] + list(program.outputs):
            if type(a) is Var:
                self.uses[a] = self.uses.get(a, 0) + 1

    def run(self) -> Program:
        absorbed: set[int] = set()
        for e in reversed(self.program.equations):
            if id(e) in absorbed or not _is_sum(e):
                continue
            leaves = [x for a in e.inputs for x in self._leaves(a, absorbed)]
            if any(self._kind(a) for a in leaves):
                self._chain(e, leaves)
        if len(self.equations) == len(self.program.equations) and not absorbed:
            changed = any(
                x is not y for x, y in zip(self.equations, self.program.equations, strict=True)
            )
            if not changed:
                return self.program
        p = self.program
        ordered = tuple(in_order(self.equations))
        return drop_unused(Program(p.inputs, p.constants, ordered, p.outputs))

    def _leaves(self, a: Any, absorbed: set[int]) -> list[Any]:
        """The terms of a sum."""
        e = self.makers.get(a)
        if e is None or not _is_sum(e) or not (self.uses[a] == 1 or self._is_sparse(a)):
            return [a]
        if self.uses[a] == 1:
            absorbed.add(id(e))
        return [x for b in e.inputs for x in self._leaves(b, absorbed)]

    def _is_sparse(self, a: Any) -> bool:
        """Parts, and sums of nothing but parts: cheap enough to be added more than once."""
        e = self.makers.get(a)
        if e is None:
            return False
        return _is_part(e) or (_is_sum(e) and all(self._is_sparse(x) for x in e.inputs))

    def _kind(self, a: Any) -> str:
        """What to do with a term: it is a "part", out of a "loop" or a "branch", or just a term."""
        e = self.makers.get(a)
        if e is None:
            return ""
        if _is_part(e):
            return "part"
        region = e.params.get("region")
        if self.uses[a] != 1:
            return ""
        if isinstance(region, Branches):
            return "branch"
        if isinstance(region, Loop):
            c = e.outputs.index(a)
            start = e.inputs[int(region.counted) + c] if c < region.carried else None
            if self._is_nothing(start) and _only_adds(region, c):
                return "loop"
        return ""

    def _is_nothing(self, a: Any) -> bool:
        if type(a) is not Var:
            return a is not None and a == 0
        e = self.makers.get(a)
        if e is None or e.primitive.name != "broadcast_to":
            return a in self.zeros
        return a in self.zeros or self._is_nothing(e.inputs[0])

    def _chain(self, e: Equation, leaves: list[Any]) -> None:
        first = [a for a in leaves if not self._kind(a)] or leaves[:1]
        rest = list(leaves)
        for a in first:
            rest.remove(a)
        self.equations.remove(e)
        total, *more = first
        left = [(a, "") for a in more] + [(a, self._kind(a)) for a in rest]
        for at, (a, kind) in enumerate(left):
            out = e.outputs[0] if at == len(left) - 1 else Var(e.outputs[0].type)
            if kind in ("loop", "branch") and not self._rests_on(total, self.makers[a]):
                self._put(*self._through(self.makers[a], a, total, out))
            else:
                if kind == "part":  # of its own, so that it can be added in place
                    part = self.makers[a]
                    a = Var(a.type)
                    self._put(None, replace(part, outputs=(a,)))
                self._put(None, Equation((out,), P.add, (total, a), {}, e.where))
            total = out

    def _put(self, old: Equation | None, new: Equation) -> None:
        if old is not None:
            self.equations = [x for x in self.equations if x is not old]
        self.equations.append(new)
        self.makers.update({v: new for v in new.outputs})

    def _rests_on(self, a: Any, e: Equation) -> bool:
        left, seen = [a], set()
        while left:
            maker = self.makers.get(left.pop())
            if maker is e:
                return True
            if maker is not None and id(maker) not in seen:
                seen.add(id(maker))
                left += [x for x in maker.inputs if type(x) is Var]
        return False

    def _through(self, e: Equation, a: Var, total: Any, out: Var) -> tuple[Equation, Equation]:
        """The region with the total going through it."""
        j = e.outputs.index(a)
        outputs = (*e.outputs[:j], out, *e.outputs[j + 1 :])
        region = e.params["region"]
        if isinstance(region, Loop):
            at = int(region.counted) + j
            inputs = (*e.inputs[:at], total, *e.inputs[at + 1 :])
            changed: Any = replace(region, extends=None)
        else:
            inputs = (*e.inputs, total)
            changed = Branches(tuple(_adding(p, j, a.type) for p in region.branches))
        return e, replace(e, outputs=outputs, inputs=inputs, params={"region": changed})


def _is_zero(c: Any) -> bool:
    raw = getattr(c, "_v", c)
    return type(raw) is not Var and is_uniform(raw) and bool(raw.flat[0] == 0)


def _is_sum(e: Equation) -> bool:
    t = e.outputs[0].type if e.outputs else None
    if e.primitive.name != "add" or t is None or t.is_stack or t.size <= LARGE:
        return False
    return all(type(a) is Var and _same(a.type, t) for a in e.inputs)


def _same(a: Type, b: Type) -> bool:
    return (a.shape, a.dtype, a.weak) == (b.shape, b.dtype, b.weak)


def _is_part(e: Equation) -> bool:
    return e.primitive.name in PARTS and 2 * type_of(e.inputs[0]).size <= e.outputs[0].type.size


def _only_adds(loop: Loop, c: int) -> bool:
    """Whether rounds do nothing with carried value c but add to it."""
    body = loop.body
    carried = body.inputs[1 + c]
    if not _same(carried.type, type_of(body.outputs[c])):
        return False
    atoms = [a for e in body.equations for a in e.inputs] + list(body.outputs)
    uses: dict[Any, int] = {}
    for a in atoms:
        if type(a) is Var:
            uses[a] = uses.get(a, 0) + 1
    if loop.goes_on is not None:
        asked = loop.goes_on.inputs[1 + c]
        if any(asked is a for e in loop.goes_on.equations for a in e.inputs):
            return False
    makers = {v: e for e in body.equations for v in e.outputs}
    left = [body.outputs[c]]
    while left:
        a = left.pop()
        if uses.get(a) != 1:
            continue
        if a is carried:
            return True
        e = makers.get(a)
        if e is not None and _is_sum(e):
            left += e.inputs
    return False


def _adding(p: Program, j: int, t: Type) -> Program:
    """A branch that adds its output j to a further input."""
    total = Var(Type(t.shape, t.dtype))
    y, zeros = p.outputs[j], {v for v, c in p.constants if _is_zero(c)}
    equations, out = p.equations, total
    if y not in zeros:
        out = Var(total.type)
        equations = (*equations, Equation((out,), P.add, (total, y), {}))
    outputs = (*p.outputs[:j], out, *p.outputs[j + 1 :])
    return Program((*p.inputs, total), p.constants, equations, outputs)
