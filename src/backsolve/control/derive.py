"""The blocks of branches and calls: again branches and calls. Those of loops stand in derive_loop.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from ..ir import Equation, Program, Type, Var, type_of
from ..primitives.control import BOX, BRANCH, CALL, LOOP, NO_ENTRIES, UNBOX, RegionPrimitive
from ..regions import Branches, Callee, Empty, Extends, Layout
from ..rewrite import rewrite
from ..solve.cuts import keeping_step
from ..solve.reversal import raw
from ..solve.reversed_row import Pairs, bare, reversed_row
from .boxes import boxed, derive_box, derive_unbox, unboxed
from .derive_loop import chosen, derive_loop, pick
from .linear import Cut, cut, keep, strong, with_adjoints, with_tangents, zeros_like
from .packing import FEW, can_share, packed, unpacked
from .pieces import LITTLE, least_budget, room_of
from .reach import reach, reach_region
from .regions import varies_outside
from .reversed_call import reversed_call
from .segments import SegmentedCall

Pair = tuple[Callable[[Sequence[Any]], tuple[Any, ...]], Callable[[Sequence[Any]], tuple[Any, ...]]]


def derive_branch(region: Branches, args: list[Any], places: list[int], varies: list[bool]) -> Pair:
    which, *operands = args
    n, m = len(operands), len(varies)
    extends = Extends(region, tuple(range(len(args))), tuple(range(m)))

    def at(values: Sequence[Any]) -> list[Any]:
        """The operands, with these values at `places`."""
        found = dict(zip(places, values, strict=True))
        return [found.get(k + 1, x) for k, x in enumerate(operands)]

    def pairs_at(values: Sequence[Any], ts: Sequence[Any]) -> tuple[list[Any], tuple[Any, ...]]:
        given = {k: t for k, t in zip(places, ts, strict=True) if t is not None}
        varying = [k + 1 in given for k in range(n)]
        each = [reach(p, varying) for p in region.branches]
        wanted = [any(flags) for flags in zip(*each, strict=True)]
        both = [with_tangents(p, varying, wanted) for p in region.branches]
        if memory < inf:  # a loop that makes tangents beside its values then stands for both
            both = [rewrite(p) for p in both]
        wider = Branches(tuple(both), extends)
        found = BRANCH(which, *at(values), *[given[k] for k in sorted(given)], region=wider)
        images = iter(found[m:])
        return found[:m], tuple([next(images) if flag else None for flag in wanted])

    def pulled(values: Sequence[Any], cts: Sequence[Any]) -> tuple[Any, ...]:
        varying = [k + 1 in places for k in range(n)]
        given = [g is not None for g in cts]
        joints = [with_adjoints(p, varying, given) for p in region.branches]
        received = [chosen(j.received, varying) for j in joints]
        gets = [any(flags) for flags in zip(*received, strict=True)]
        kept = [_Kept.of(j.program, n, m) for j in joints]
        slots = _slots([x.stored for x in kept])
        room = max(room_of(x.parts.second) for x in kept)
        if not slots.fit_into(memory, room):
            kept = [x.again_as_a_whole() for x in kept]
            slots = _slots([x.stored for x in kept])
        firsts = [x.first(slots, own) for x, own in zip(kept, slots.places, strict=True)]
        now = at(values)
        results = BRANCH(which, *now, region=Branches(tuple(firsts), extends))
        seconds = [
            x.second(slots, own, flags, gets)
            for x, own, flags in zip(kept, slots.places, received, strict=True)
        ]
        back = BRANCH(which, *now, *results[m:], *pick(cts, given), region=Branches(tuple(seconds)))
        found = iter(back)
        answers = [None, *[next(found) if flag else None for flag in gets]]
        return tuple(answers[k] for k in places)

    def push(ts: Sequence[Any]) -> tuple[Any, ...]:
        return pairs_at(values, ts)[1]

    def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
        if memory == inf or varies_outside([*values, *cts]):
            return pulled(values, cts)
        found = [*map(raw, pulled([*map(bare, values)], [*map(bare, cts)]))]
        return reversed_row("branch, reversed", values, (), cts, found, pairs_at)

    values = [args[k] for k in places]
    memory = least_budget(region.branches)
    return push, pull


@dataclass
class _Slots:
    """Room for what branches store, shared among them: one branch runs at a time.

    Not if there are stacks: in a batch all branches may run, and stacks of two cannot be told apart by example.
    """

    types: list[Type]
    places: list[list[int]]  # for each branch: where what it stores lies

    def fit_into(self, memory: float, room: int) -> bool:
        """Beside the room that is needed on the way back.

        The stacks of one branch keep to its own budget; nobody knows what those of two take together.
        """
        growing = [any(self.types[k].is_stack for k in own) for own in self.places]
        fixed = sum(t.nbytes for t in self.types if not t.is_stack)
        return sum(growing) < 2 and (fixed <= memory / LITTLE or fixed + room <= memory)


def _slots(stored: list[list[Var]]) -> _Slots:
    types: list[Type] = []
    places = []
    shares = not any(v.type.is_stack for variables in stored for v in variables)
    for variables in stored:
        free = list(range(len(types))) if shares else []
        mine = []
        for v in variables:
            found = next((k for k in free if types[k] == v.type), None)
            if found is None:
                found = len(types)
                types.append(v.type)
            else:
                free.remove(found)
            mine.append(found)
        places.append(mine)
    return _Slots(types, places)


@dataclass(frozen=True)
class _Kept:
    """One branch, parted where its adjoints come in."""

    program: Program
    n: int
    m: int
    parts: Cut
    stored: list[Var]
    again: list[Equation]  # that are run once more

    @staticmethod
    def of(program: Program, n: int, m: int) -> _Kept:
        parts = cut(program, n, m)
        free = {*program.inputs[:n], *[v for v, _ in program.constants]}
        return _Kept(program, n, m, parts, *keep(parts.crossing, parts.first, free))

    def again_as_a_whole(self) -> _Kept:
        """Nothing is stored: what a budget has no room for, as branches lie side by side."""
        return replace(self, stored=[], again=self.parts.first)

    def first(self, slots: _Slots, own: list[int]) -> Program:
        held = dict(zip(own, self.stored, strict=True))
        equations, constants = list(self.parts.first), list(self.program.constants)
        atoms = [
            held[k] if k in held else _blank(t, equations, constants)
            for k, t in enumerate(slots.types)
        ]
        outputs = (*self.program.outputs[: self.m], *atoms)
        return Program(self.program.inputs[: self.n], tuple(constants), tuple(equations), outputs)

    def second(
        self, slots: _Slots, own: list[int], received: list[bool], gets: list[bool]
    ) -> Program:
        held = dict(zip(own, self.stored, strict=True))
        entering = [held[k] if k in held else Var(t) for k, t in enumerate(slots.types)]
        equations = [*self.again, *self.parts.second]
        constants = list(self.program.constants)
        outs = iter(self.program.outputs[self.m :])
        outputs = []
        for v, mine, wanted in zip(self.program.inputs, received, gets, strict=False):
            if mine:
                outputs.append(next(outs))
            elif wanted:
                outputs.append(_blank(strong(v.type), equations, constants))
        inputs = (*self.program.inputs[: self.n], *entering, *self.program.inputs[self.n :])
        return Program(inputs, tuple(constants), tuple(equations), tuple(outputs))


def _blank(t: Type, equations: list[Equation], constants: list[Any]) -> Var:
    """A value that nobody looks at: zeros, or an empty stack."""
    v = Var(t)
    if t.is_stack:
        equations.append(Equation((v,), NO_ENTRIES, (), {"region": Empty(t)}))
    else:
        constants.append((v, zeros_like(t)))
    return v


def derive_call(callee: Callee, args: list[Any], places: list[int], varies: list[bool]) -> Pair:
    if callee.own is not None:
        return callee.own(args, places)
    m = len(varies)

    def push(ts: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(pairs_of(callee, args, places)([args[k] for k in places], ts)[1])

    def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
        varying = tuple(k in places for k in range(len(args)))
        given = tuple(g is not None for g in cts)
        if callee.memory is not None:
            found = SegmentedCall(callee, args, places, given).pull(cts)
            pairs = pairs_of(callee, args, places)
            values = [args[k] for k in places]
            return reversed_call(f"{callee.name}, reversed", values, cts, found, pairs)
        if callee.recompute:
            back = _pulled(callee, varying, given)
            found = iter(CALL(*args, *pick(cts, given), region=back))
        else:
            first, back = _two_passes(callee, varying, given)
            results = CALL(*args, region=first)
            found = iter(CALL(*args, *results[m:], *pick(cts, given), region=back))
        answers = [next(found) if flag else None for flag in back.flags]
        return tuple(answers[k] for k in places)

    return push, pull


def pairs_of(callee: Callee, args: Sequence[Any], places: Sequence[int]) -> Pairs:
    """(inputs at `places`, their tangents) -> (outputs, their tangents), by one call."""

    def run(values: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        xs = dict(enumerate(args)) | dict(zip(places, values, strict=True))
        given = {k: t for k, t in zip(places, tangents, strict=True) if t is not None}
        ahead = _pushed(callee, tuple(k in given for k in xs))
        found = CALL(*xs.values(), *[given[k] for k in sorted(given)], region=ahead)
        m = len(callee.types)
        images = iter(found[m:])
        return found[:m], [next(images) if flag else None for flag in ahead.flags]

    return run


def _pushed(callee: Callee, varying: tuple[bool, ...]) -> Any:
    """(inputs, tangents) -> (outputs, tangents), made once; it may call itself."""
    key = ("push", varying)
    found = callee.derivatives.get(key)
    if found is None:
        assert callee.program is not None
        types = callee.outputs()
        flags = (
            [t.dtype.kind in "fc" for t in types]
            if callee.is_recursive
            else reach(callee.program, varying)
        )
        ahead = [strong(t) for t in pick(types, flags)]
        extends = Extends(callee, tuple(range(len(varying))), tuple(range(len(types))))
        found = callee.derivatives[key] = Callee(
            f"{callee.name}'",
            [*types, *ahead],
            None,
            callee.is_recursive,
            recompute=callee.recompute,
            memory=callee.memory,
            report=callee.report,
            extends=extends,
            flags=flags,
            where=callee.where,
        )
        found.program = with_tangents(callee.program, varying, flags)
        if callee.memory is not None:
            found.program = keeping_step(rewrite(found.program), len(types))
    return found


def _two_passes(
    callee: Callee, varying: tuple[bool, ...], given: tuple[bool, ...]
) -> tuple[Callee, Callee]:
    """inputs -> (outputs, stored), and (inputs, stored, adjoints of outputs) -> adjoints of inputs."""
    key = ("passes", varying, given)
    if key not in callee.derivatives:
        program = callee.program
        assert program is not None
        n, m = len(program.inputs), len(program.outputs)
        extends = Extends(callee, tuple(range(n)), tuple(range(m)))
        if callee.is_recursive:
            layout = Layout()
            flags = [flag and _receives(callee, j, given) for j, flag in enumerate(varying)]
            # Both are known before they are recorded, since they call themselves.
            first, second = _passes(callee, program, [layout.type], flags, extends)
            callee.derivatives[key] = first, second
            joint = with_adjoints(program, varying, given)
            received = chosen(joint.received, varying)
            assert all(flag or not got for flag, got in zip(flags, received, strict=True))
            ahead, back, _ = _split(joint.program, n, m, received, flags)
            first.program, second.program = boxed(ahead, m, layout), unboxed(back, n, layout)
        else:
            joint = with_adjoints(program, varying, given)
            flags = chosen(joint.received, varying)
            ahead, back, stored = _split(joint.program, n, m, flags, flags)
            if sum(not can_share(t) for t in stored) > FEW:
                layout = Layout()
                ahead, back = boxed(ahead, m, layout), unboxed(back, n, layout)
            else:
                ahead, back = packed(ahead, m), unpacked(back, n, len(stored))
            kinds = [type_of(a) for a in ahead.outputs[m:]]
            first, second = _passes(callee, program, kinds, flags, extends)
            first.program, second.program = ahead, back
            callee.derivatives[key] = first, second
    found: tuple[Callee, Callee] = callee.derivatives[key]
    return found


def _passes(
    callee: Callee, program: Program, stored: list[Type], flags: list[bool], extends: Extends
) -> tuple[Callee, Callee]:
    """The two of them, without their Programs."""
    types = [strong(v.type) for v in pick(program.inputs, flags)]
    made, recurs, where = [*callee.types, *stored], callee.is_recursive, callee.where
    first = Callee(f"{callee.name}+", made, None, recurs, extends=extends, where=where)
    return first, Callee(f"{callee.name}ᵀ", types, None, recurs, flags=flags, where=where)


def _split(
    joint: Program, n: int, m: int, received: list[bool], flags: list[bool]
) -> tuple[Program, Program, list[Type]]:
    """What comes before the adjoints, what comes after, and the types of what the one stores for the other."""
    kept = _Kept.of(joint, n, m)
    slots = _slots([kept.stored])
    places = slots.places[0]
    return kept.first(slots, places), kept.second(slots, places, received, flags), slots.types


def _receives(callee: Callee, j: int, given: Sequence[bool]) -> bool:
    """Whether input j gets an adjoint if these outputs have one."""
    assert callee.program is not None
    alone = [k == j for k in range(len(callee.program.inputs))]
    return any(pick(reach_region("call", callee, alone), given))


def _pulled(callee: Callee, varying: tuple[bool, ...], given: tuple[bool, ...]) -> Callee:
    """(inputs, adjoints of outputs) -> adjoints of inputs, computing again what it needs of the values."""
    key = ("pull", varying, given)
    found = callee.derivatives.get(key)
    if found is None:
        program = callee.program
        assert program is not None
        m = len(program.outputs)
        flags = list(varying)
        types = [strong(v.type) for v in pick(program.inputs, flags)]
        found = callee.derivatives[key] = Callee(
            f"{callee.name}ᵀ", types, None, callee.is_recursive, flags=flags, where=callee.where
        )
        joint = with_adjoints(program, varying, given)
        outs = iter(joint.program.outputs[m:])
        equations, constants = list(joint.program.equations), list(joint.program.constants)
        outputs = [
            next(outs) if got else _blank(t, equations, constants)
            for t, got in zip(types, joint.received, strict=True)
        ]
        found.program = Program(
            joint.program.inputs, tuple(constants), tuple(equations), tuple(outputs)
        )
    return found


DERIVE: dict[RegionPrimitive, Callable[..., Pair]] = {
    LOOP: derive_loop,
    BRANCH: derive_branch,
    CALL: derive_call,
    BOX: derive_box,
    UNBOX: derive_unbox,
}
