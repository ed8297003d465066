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

from ....ir import Equation, Program, Type, Var, type_of
from ....regions import Callee
from ..boxes import makes_boxes
from ..numbers.registers import DTYPES
from ..support import REDUCTIONS, fits, is_native_elementwise
from .order import Effect, NotSmall, find_parts, indexed, is_sum, last_uses, ordered, reads
from .values import is_large

Home = tuple[
    Any, ...
]  # ("input", j), ("constant", var), or the key of memory that an equation makes
REGIONS = ("loop", "branch", "call", "no_entries", "length", "box", "unbox")
_VIEWS = ("slice", "permute", "reshape", "broadcast_to", "alias")
_OF_FEW = (*_VIEWS, "concatenate", "contract", "unslice", "slice_update")
_INDEXED = ("gather", "scatter_add", "scatter_set")


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
        self.refused: dict[int, str] = {}  # callees that are not of our kind, and why
        self._called: dict[Plan, set[int]] = {}

    def plan_alone(self, program: Program) -> Plan:
        """Of the Program of a single equation, whose inputs may all be overwritten."""
        known = set(self.callees)
        try:
            return self.plan(program, range(len(program.inputs)))
        except NotSmall:
            for c in set(self.callees) - known:  # they may call one that was refused
                del self.callees[c]
            raise

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
        plan.parts = find_parts(program)
        effects = [self._effects(plan, e) for e in program.equations]
        order = ordered(plan, effects)
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
            return indexed(e, large, result)
        if name == "slice_update" and result:
            return [Effect(0, 0, True)]
        if name == "unslice" and result:
            return []
        if is_sum(e) and any(a in plan.parts for a in e.inputs):
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
        if id(callee) in self.refused:
            raise NotSmall(self.refused[id(callee)])
        if callee.program is None:
            raise NotSmall(f"a call of {callee.name}, which is not recorded yet")
        self.callees[id(callee)] = Plan(callee.program)  # known from here on to its own calls
        try:
            self.callees[id(callee)] = self.plan(callee.program)
        except NotSmall as reason:
            self.refused[id(callee)] = str(reason)
            raise

    # ---- calls and stacks

    def called(self, plan: Plan) -> set[int]:
        """All callees that a plan may call, those that they call included."""
        if plan in self._called:
            return self._called[plan]
        found: set[int] = set()
        left = [plan]
        while left:
            for e in (e for p in left.pop().all_plans() for e in p.order):
                if e.primitive.name == "call" and (c := id(e.params["region"])) not in found:
                    found.add(c)
                    left.append(self.callees[c])
        self._called[plan] = found
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

    def makes_boxes(self, plan: Plan) -> bool:
        return makes_boxes(plan.order)

    def hands_on_nodes(self, plan: Plan) -> bool:
        """Whether a result may hold a stack of the pool."""
        types = [type_of(a) for a in plan.program.outputs]
        if not any(t.is_stack for t in types):
            return False
        if any(t.is_stack and not t.is_box for t in types):
            return True
        plans = [plan, *[self.callees[c] for c in self.called(plan)]]
        return any(q.stacks() for p in plans for q in p.all_plans())

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
        last = last_uses(plan)
        for at, (e, found) in enumerate(zip(plan.order, effects, strict=True)):
            for x in found:
                a = e.inputs[x.position]
                home = plan.homes[a]
                if x.writes:
                    owned = home in plan.scratch or (home[0] == "input" and home[1] in ownable)
                    others = [v for v, h in plan.homes.items() if h == home]
                    again = [y for y in reads(plan, e) if y in others]
                    read_again = any(last.get(v, -1) > at for v in others)
                    if a not in plan.whole or not owned or read_again or len(again) > 1:
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
