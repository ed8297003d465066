"""What a region needs before it is emitted: whether it is of our kind, an order, and which arrays are
overwritten where they lie.

Every large array has a *home*: an input, a constant, or memory that an equation makes. A slice or a
permutation lives in the home of what it was taken from; an update lives in the home of the array that it
updates if that is ours and nobody reads the old entries afterwards, else it gets a copy. To have few of
those, equations that read an array are moved before the one that overwrites it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....ir import Equation, Program, Type, Var, type_of
from ....regions import Callee
from ..accumulate import PARTS, count_uses
from ..numbers.registers import DTYPES
from ..support import REDUCTIONS, fits, is_native_elementwise
from .values import is_large

Home = tuple[
    Any, ...
]  # ("input", j), ("constant", var), or the key of memory that an equation makes
REGIONS = ("loop", "branch", "call", "no_entries", "length")
_VIEWS = ("slice", "permute", "reshape", "broadcast_to", "alias")
_OF_FEW = (*_VIEWS, "concatenate", "contract", "unslice", "slice_update")
_INDEXED = ("gather", "scatter_add", "scatter_set")


class NotSmall(Exception):  # noqa: N818 - a signal: the region is not one of registers
    """Something in a region that is not of our kind."""


@dataclass(eq=False)
class Plan:
    program: Program
    order: list[Equation] = field(default_factory=list)
    parts: dict[Var, Equation] = field(default_factory=dict)  # that their sums add in place
    homes: dict[Var, Home] = field(default_factory=dict)
    whole: set[Var] = field(default_factory=set)  # that are all of their home
    copied: set[Home] = field(default_factory=set)  # inputs of equations, by key
    wants: set[int] = field(default_factory=set)  # inputs whose memory is overwritten
    scratch: dict[Home, Type] = field(default_factory=dict)
    inner: dict[int, list[Plan]] = field(default_factory=dict)  # by equation

    def result(self, k: int) -> Home | None:
        """The home of output k if it is all of it."""
        a = self.program.outputs[k]
        return self.homes[a] if a in self.whole else None

    def leaves_once(self, home: Home | None) -> bool:
        return [self.homes.get(a) for a in self.program.outputs].count(home) == 1

    def stacks(self) -> list[Home]:
        """The stacks that its own loops make."""
        return [
            key(e, "out", o)
            for e in self.order
            if e.primitive.name == "loop"
            for o, v in enumerate(e.outputs)
            if v.type.is_stack and o >= e.params["region"].carried
        ]

    def unneeded(self, planner: Planner) -> list[Home]:
        """The stacks made in here that no output holds."""
        needed = {a for a in self.program.outputs if type(a) is Var and a.type.is_stack}
        found: list[Home] = []
        for e in reversed(self.order):
            if any(v in needed for v in e.outputs):
                needed.update(a for a in e.inputs if type(a) is Var and a.type.is_stack)
            else:
                found += _made_by(self, e, planner)
        return found

    def all_plans(self) -> list[Plan]:
        return [self, *[q for ps in self.inner.values() for p in ps for q in p.all_plans()]]


def key(e: Equation, *slot: Any) -> Home:
    return (id(e), *slot)


class Planner:
    """Plans of a region and all within it; those of callees apart, since they may call each other."""

    def __init__(self) -> None:
        self.callees: dict[int, Plan] = {}

    def plan(self, program: Program, ownable: Sequence[int] = ()) -> Plan:
        plan = Plan(program)
        for v, _ in program.constants:
            _check_type(v.type)
            if is_large(v.type):
                plan.homes[v] = ("constant", v)
        for j, v in enumerate(program.inputs):
            _check_type(v.type)
            if is_large(v.type):
                plan.homes[v] = ("input", j)
                plan.whole.add(v)
        uses = count_uses(program.equations, program.outputs)
        readers = {a: e for e in program.equations for a in e.inputs if type(a) is Var}
        for e in program.equations:
            if e.primitive.name in PARTS and is_large(e.outputs[0].type):
                (out,) = e.outputs
                user = readers.get(out) if uses.get(out) == 1 else None
                alone = user is not None and not any(a in plan.parts for a in user.inputs)
                if alone and _is_sum(user):
                    plan.parts[out] = e
        effects = [self._effects(plan, e) for e in program.equations]
        order = _ordered(plan, effects)
        plan.order = [program.equations[k] for k in order]
        self._settle(plan, [effects[k] for k in order], set(ownable))
        return plan

    # ---- what an equation does with large arrays

    def _effects(self, plan: Plan, e: Equation) -> list[Effect]:
        """Checks it too."""
        name = e.primitive.name
        for t in map(type_of, (*e.inputs, *e.outputs)):
            _check_type(t)
        if name not in REGIONS and not all(fits(a, e) for a in e.inputs):
            raise NotSmall(f"{name} with a Python number that its dtype cannot hold")
        if name == "loop":
            return self._loop(plan, e)
        if name == "branch":
            return self._branch(plan, e)
        if name == "call":
            self._callee(e.params["region"])
        if name in REGIONS:
            return []
        large = [is_large(type_of(a)) for a in e.inputs]
        result = is_large(e.outputs[0].type)
        if name in _INDEXED:
            return _indexed(e, large, result)
        if name == "slice_update" and result:
            return [Effect(0, 0, True)]
        if name == "unslice" and result:
            return []
        if _is_sum(e) and any(a in plan.parts for a in e.inputs):
            return [Effect(1 if e.inputs[0] in plan.parts else 0, 0, True)]
        if name in _VIEWS or (name == "cast" and e.outputs[0].dtype == type_of(e.inputs[0]).dtype):
            return [Effect(0, 0, False)] if result and large[0] else []
        if result or any(large):
            raise NotSmall(
                f"{name} of {max(type_of(a).size for a in (*e.inputs, *e.outputs))} entries"
            )
        if name in _OF_FEW or name in REDUCTIONS or is_native_elementwise(e):
            return []
        raise NotSmall(name)

    def _loop(self, plan: Plan, e: Equation) -> list[Effect]:
        loop = e.params["region"]
        if loop.reverse and loop.goes_on is not None and len(loop.body.outputs) > loop.carried:
            raise NotSmall("a sequence made from its end by a loop that may stop")
        body = self.plan(loop.body, range(1, 1 + loop.carried))
        inner = [body, *([self.plan(loop.goes_on)] if loop.goes_on is not None else [])]
        plan.inner[id(e)] = inner
        found = []
        for c in range(loop.carried):
            if is_large(loop.body.inputs[1 + c].type):
                stays = body.result(c) == ("input", 1 + c)
                found.append(Effect(int(loop.counted) + c, c, not stays or 1 + c in body.wants))
        return found

    def _branch(self, plan: Plan, e: Equation) -> list[Effect]:
        programs = e.params["region"].branches
        arms = [self.plan(p, range(len(p.inputs))) for p in programs]
        plan.inner[id(e)] = arms
        wanted = set().union(*[p.wants for p in arms])
        found = []
        for o, v in enumerate(e.outputs):
            homes = {p.result(o) for p in arms} if is_large(v.type) else set()
            if len(homes) == 1 and (home := homes.pop()) is not None and home[0] == "input":
                found.append(Effect(1 + home[1], o, home[1] in wanted))
        aliased = {x.position - 1 for x in found}
        return [*found, *[Effect(1 + j, None, True) for j in sorted(wanted - aliased)]]

    def _callee(self, callee: Callee) -> None:
        if id(callee) in self.callees:
            return
        if callee.program is None:
            raise NotSmall(f"a call of {callee.name}, which is not recorded yet")
        self.callees[id(callee)] = Plan(callee.program)  # known from here on to its own calls
        self.callees[id(callee)] = self.plan(callee.program)

    # ---- calls and stacks

    def called(self, plan: Plan) -> set[int]:
        """All callees that a plan may call, those that they call included."""
        found: set[int] = set()
        left = [plan]
        while left:
            for e in (e for p in left.pop().all_plans() for e in p.order):
                if e.primitive.name == "call" and (c := id(e.params["region"])) not in found:
                    found.add(c)
                    left.append(self.callees[c])
        return found

    def is_recursive(self, callee: Callee) -> bool:
        return id(callee) in self.called(self.callees[id(callee)])

    def takes_nodes(self, plan: Plan, in_recursion: bool) -> bool:
        """Whether it leaves something of the pool in use, or its callees do."""
        found = in_recursion and any(p.stacks() for p in plan.all_plans())
        return found or any(
            self.has_scratch(p) or any(q.stacks() for q in p.all_plans())
            for p in (self.callees[c] for c in self.called(plan))
        )

    def has_scratch(self, plan: Plan) -> bool:
        return any(p.scratch for p in plan.all_plans())

    def uses_table(self, plan: Plan) -> bool:
        """Whether it has anything to do with stacks, or its callees with the pool."""
        callees = [self.callees[c] for c in self.called(plan)]
        types = [
            v.type
            for p in (plan, *callees)
            for q in p.all_plans()
            for v in (*q.program.inputs, *[v for e in q.order for v in e.outputs])
        ]
        return any(t.is_stack for t in types) or any(map(self.has_scratch, callees))

    # ---- in place or by copy

    def _settle(self, plan: Plan, effects: list[list[Effect]], ownable: set[int]) -> None:
        """In the order of emission: the final home of every large array."""
        last = _last_uses(plan)
        for at, (e, found) in enumerate(zip(plan.order, effects, strict=True)):
            for x in found:
                a = e.inputs[x.position]
                home = plan.homes[a]
                if x.writes:
                    owned = home in plan.scratch or (home[0] == "input" and home[1] in ownable)
                    others = [v for v, h in plan.homes.items() if h == home]
                    reads = [y for y in _reads(plan, e) if y in others]
                    read_again = any(last.get(v, -1) > at for v in others)
                    if a not in plan.whole or not owned or read_again or len(reads) > 1:
                        home = key(e, "copy", x.position)
                        plan.copied.add(home)
                        plan.scratch[home] = type_of(a)
                    elif home[0] == "input":
                        plan.wants.add(home[1])
                if x.output is not None:
                    out = e.outputs[x.output]
                    plan.homes[out] = home
                    if x.writes or (e.primitive.name in REGIONS and a in plan.whole):
                        plan.whole.add(out)
            self._make(plan, e)

    def _make(self, plan: Plan, e: Equation) -> None:
        """Memory for what has no home yet, and for what is copied at the end of a round."""
        name = e.primitive.name
        for o, v in enumerate(e.outputs):
            if not is_large(v.type):
                continue
            if v not in plan.homes:
                home = plan.homes[v] = key(e, "out", o)
                if v not in plan.parts and name not in _VIEWS:
                    plan.scratch[home] = v.type
                    plan.whole.add(v)
        if name == "call":
            for j, a in enumerate(e.inputs):
                if is_large(type_of(a)):
                    plan.scratch[key(e, "copy", j)] = type_of(a)
        if name == "reshape" and is_large(e.outputs[0].type):
            plan.scratch[key(e, "copy", 0)] = e.outputs[0].type
        if name == "loop":
            body = plan.inner[id(e)][0]
            for c in range(e.params["region"].carried):
                t = e.outputs[c].type
                if is_large(t) and body.result(c) != ("input", 1 + c):
                    plan.scratch[key(e, "round", c)] = t


@dataclass(frozen=True)
class Effect:
    """An output that lives where an input does, and whether that is overwritten."""

    position: int
    output: int | None
    writes: bool


def _made_by(plan: Plan, e: Equation, planner: Planner) -> list[Home]:
    """The stacks that are still there when an equation is done."""
    name = e.primitive.name
    found = [key(e, "out", o) for o, v in enumerate(e.outputs) if v.type.is_stack]
    if name == "call":
        callee = e.params["region"]
        if planner.is_recursive(callee):
            return []  # its stacks are of the pool
        within = planner.callees[id(callee)]
        return [x for q in within.order for x in _made_by(within, q, planner)]
    for p in plan.inner.get(id(e), ()):
        gone = set(p.unneeded(planner)) if name == "loop" else set()
        found += [x for q in p.order for x in _made_by(p, q, planner) if x not in gone]
    return found


def calls(plan: Plan) -> bool:
    return any(e.primitive.name == "call" for p in plan.all_plans() for e in p.order)


def size_of(plan: Plan) -> int:
    """About how much code it is."""
    return len(plan.order) + sum(size_of(p) for ps in plan.inner.values() for p in ps) * 4


def _check_type(t: Type) -> None:
    if t.dtype not in DTYPES:
        raise NotSmall(f"dtype {t.dtype}")


def _is_sum(e: Equation | None) -> bool:
    return (
        e is not None
        and e.primitive.name == "add"
        and all(type(a) is Var and a.type == e.outputs[0].type for a in e.inputs)
    )


def _indexed(e: Equation, large: list[bool], result: bool) -> list[Effect]:
    name = e.primitive.name
    indices = e.inputs[2 if name == "scatter_set" else 1 :]
    common = np.broadcast_shapes(*[type_of(i).shape for i in indices])
    if any(large[-len(indices) :]):
        raise NotSmall(f"{name} at {int(np.prod(common))} places")
    if name == "scatter_add":
        return []
    if name == "gather":
        if result and common:
            raise NotSmall(f"gather of {e.outputs[0].type.size} entries")
        return [Effect(0, 0, False)] if result else []
    return [Effect(0, 0, True)] if result else []


def _reads(plan: Plan, e: Equation) -> list[Var]:
    """Also what the part reads that a sum adds."""
    found = [a for a in e.inputs if type(a) is Var and a not in plan.parts]
    for a in e.inputs:
        if type(a) is Var and a in plan.parts:
            found += [x for x in plan.parts[a].inputs if type(x) is Var]
    return found


def _last_uses(plan: Plan) -> dict[Var, int]:
    last = {a: at for at, e in enumerate(plan.order) for a in _reads(plan, e)}
    last.update({a: len(plan.order) for a in plan.program.outputs if type(a) is Var})
    return last


def _ordered(plan: Plan, effects: list[list[Effect]]) -> list[int]:
    """The equations, by number: readers of an array before the one that overwrites it, where possible."""
    equations = plan.program.equations
    maker = {v: k for k, e in enumerate(equations) for v in e.outputs}
    if not any(x.writes for found in effects for x in found):
        return list(range(len(equations)))
    homes: dict[Var, Any] = dict(plan.homes)
    before: list[int] = []  # of each equation, as bits: all that it rests on
    readers: dict[Any, list[tuple[int, Var]]] = {}  # of a home: who reads which of its states
    for k, e in enumerate(equations):
        bits = 0
        for a in _reads(plan, e):
            if a in maker:
                bits |= before[maker[a]] | 1 << maker[a]
            if a in homes:
                readers.setdefault(homes[a], []).append((k, a))
        before.append(bits)
        for x in effects[k]:
            if x.output is not None:
                homes[e.outputs[x.output]] = homes[e.inputs[x.position]]
        for v in e.outputs:
            if is_large(v.type):
                homes.setdefault(v, v)
    done: list[int] = []
    seen = under_way = 0  # as bits

    def take(k: int) -> None:
        nonlocal seen, under_way
        if seen >> k & 1:
            return
        seen |= 1 << k
        under_way |= 1 << k
        e = equations[k]
        for a in _reads(plan, e):
            if a in maker:
                take(maker[a])
        for x in effects[k]:
            for r, a in readers.get(homes[e.inputs[x.position]], ()) if x.writes else ():
                is_old = a not in maker or not (before[maker[a]] | 1 << maker[a]) >> k & 1
                if is_old and not (before[r] | 1 << r) & under_way:
                    take(r)
        done.append(k)
        under_way &= ~(1 << k)

    for k in range(len(equations)):
        take(k)
    return done
