"""What equations do with large arrays, and an order in which few of them must be copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....ir import Equation, Program, Var, type_of
from ..accumulate import PARTS, count_uses
from .values import is_large

if TYPE_CHECKING:
    from .plan import Plan


class NotSmall(Exception):  # noqa: N818 - a signal: the region is not one of registers
    """Something in a region that is not of our kind."""


@dataclass(frozen=True)
class Effect:
    """An output that lives where an input does, and whether that is overwritten."""

    position: int
    output: int | None
    writes: bool


def find_parts(program: Program) -> dict[Var, Equation]:
    """Entries among zeros that only one sum reads, which adds (or subtracts) them in place."""
    parts: dict[Var, Equation] = {}
    uses = count_uses(program.equations, program.outputs)
    readers = {a: e for e in program.equations for a in e.inputs if type(a) is Var}
    for e in program.equations:
        if e.primitive.name not in PARTS or not is_large(e.outputs[0].type):
            continue
        (out,) = e.outputs
        user = readers.get(out) if uses.get(out) == 1 else None
        if user is None or not is_sum(user) or any(a in parts for a in user.inputs):
            continue
        if user.primitive.name == "add" or user.inputs[1] is out:
            parts[out] = e
    return parts


def is_sum(e: Equation) -> bool:
    return e.primitive.name in ("add", "subtract") and all(
        type(a) is Var and a.type == e.outputs[0].type for a in e.inputs
    )


def indexed(e: Equation, large: list[bool], result: bool) -> list[Effect]:
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


def reads(plan: Plan, e: Equation) -> list[Var]:
    """Also what the part reads that a sum adds."""
    found = [a for a in e.inputs if type(a) is Var and a not in plan.parts]
    for a in e.inputs:
        if type(a) is Var and a in plan.parts:
            found += [x for x in plan.parts[a].inputs if type(x) is Var]
    return found


def last_uses(plan: Plan) -> dict[Var, int]:
    last = {a: at for at, e in enumerate(plan.order) for a in reads(plan, e)}
    last.update({a: len(plan.order) for a in plan.program.outputs if type(a) is Var})
    return last


def ordered(plan: Plan, effects: list[list[Effect]]) -> list[int]:
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
        for a in reads(plan, e):
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
        for a in reads(plan, e):
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
