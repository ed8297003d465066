"""Adjoints of parts, added in place: y + scatter_add(t, i) and y + unslice(t) without the array of zeros.

An array that is read in T places gets T adjoints, each of them one part among zeros. Such a part waits
(`defer`) for the sum that is its only reader, and is then added into the other term's own memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir import Equation, Type, Var
from ...operators.slice import key_of
from ...primitive import P
from .indexing import add_at

if TYPE_CHECKING:
    from .schedule import Schedule

PARTS = ("scatter_add", "unslice")


def defer(schedule: Schedule, e: Equation) -> bool:
    """Leave a part to the sum that reads it; False if somebody else does."""
    out = e.outputs[0]
    if e.primitive.name not in PARTS or schedule.uses[out] != 1:
        return False
    place = schedule.last_use[out]
    if place >= len(schedule.program.equations):
        return False
    user = schedule.program.equations[place]
    same = all(type(a) is Var and a.type == out.type for a in (*user.inputs, *user.outputs))
    if user.primitive is not P.add or not same:
        return False
    for a in e.inputs:
        if type(a) is Var:  # what it reads must stay
            schedule.last_use[a] = max(schedule.last_use[a], place)
    schedule.deferred[out] = e
    return True


def lower_sum(schedule: Schedule, e: Equation) -> bool:
    """Lower a sum that a part waits for; False if none does."""
    parts = [a for a in e.inputs if a in schedule.deferred]
    if not parts:
        return False
    part = schedule.deferred.pop(parts[-1])
    for a in parts[:-1]:
        schedule.lower_now(schedule.deferred.pop(a))
    (other,) = [a for a in e.inputs if a is not parts[-1]]
    target = schedule.own(other, part.inputs)
    schedule.views[e.outputs[0]] = target
    after = schedule.last_touch(target.buffer)
    if part.primitive is P.scatter_add:
        t, *indices = part.inputs
        add_at(schedule, t, indices, target, after)
        return True
    (t,) = part.inputs
    place = target.with_(target.imaginary[(*key_of(part.params["spec"]), ...)])
    at = schedule.join(place.shape, [t], after=after)
    kernel = schedule.kernel(at)
    old, new = (Var(Type(place.shape, place.dtype)) for _ in range(2))
    kernel.loads[old] = place
    kernel.statements.append(Equation((new,), P.add, (old, t), {}))
    kernel.made.add(new)
    kernel.stores.append((new, place))
    schedule.ready[target.buffer] = at
    return True


def count_uses(equations: Any, outputs: Any) -> dict[Var, int]:
    uses: dict[Var, int] = {}
    for atoms in (*[e.inputs for e in equations], outputs):
        for a in atoms:
            if type(a) is Var:
                uses[a] = uses.get(a, 0) + 1
    return uses
