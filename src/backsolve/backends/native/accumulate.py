"""Adjoints of parts, added in place: y + scatter_add(t, i) and y + unslice(t) without the array of zeros.

An array that is read in T places gets T adjoints, each of them one part among zeros. Such a part waits
(`defer`) for the sum that is its only reader, and is then added into the other term's own memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir import Equation, Shape, Type, Var
from ...operators.slice import key_of
from ...primitive import P
from .indexing import add_at
from .views import View

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
    if part.primitive is P.unslice and _sum_apart(schedule, e, part, other):
        return True
    target = schedule.own(other, part.inputs)
    schedule.views[e.outputs[0]] = target
    after = schedule.last_touch(target.buffer)
    if part.primitive is P.scatter_add:
        t, *indices = part.inputs
        add_at(schedule, t, indices, target, after, part.where)
        return True
    (t,) = part.inputs
    place = target.with_(target.imaginary[(*key_of(part.params["spec"]), ...)])
    schedule.ready[target.buffer] = _add(schedule, place, t, place, after)
    return True


def _add(schedule: Schedule, source: View, t: Any, target: View, after: int) -> int:
    """target = source + t in a kernel behind step `after`; which one."""
    at = schedule.join(target.shape, [t], after=after)
    kernel = schedule.kernel(at)
    old, new = (Var(Type(target.shape, target.dtype)) for _ in range(2))
    kernel.loads[old] = source
    kernel.statements.append(Equation((new,), P.add, (old, t), {}))
    kernel.made.add(new)
    kernel.stores.append((new, target))
    return at


def _sum_apart(schedule: Schedule, e: Equation, part: Equation, other: Any) -> bool:
    """A sum in new memory, each entry written once: that with the part, and the rest as it was.

    So where the other term is still needed; the part must be a piece along one axis.
    """
    (t,), shape = part.inputs, e.outputs[0].shape
    if type(other) is not Var or other in schedule.numbers:
        return False
    cut = _piece(shape, part.params["spec"])
    if cut is None or schedule.ownable(other, part.inputs) is not None:
        return False
    axis, start, stop = cut
    source = schedule.view_of(other)
    target = schedule.views[e.outputs[0]] = schedule.new_buffer(shape, e.outputs[0].dtype)

    def between(view: View, low: int, high: int) -> View:
        return view.with_(view.imaginary[(*[slice(None)] * axis, slice(low, high))])

    pieces = [between(v, start, stop) for v in (source, target)]
    at = _add(schedule, pieces[0], t, pieces[1], schedule.ready[source.buffer])
    schedule.ready[target.buffer] = at
    for low, high in ((0, start), (stop, shape[axis])):
        if low < high:
            schedule.copy(between(source, low, high), between(target, low, high))
    return True


def _piece(shape: Shape, spec: Any) -> tuple[int, int, int] | None:
    """(axis, start, stop) of a slice that is whole along all axes but one, and has no gaps."""
    if len(spec) > len(shape) or not all(isinstance(x, tuple) for x in spec):
        return None
    bounds = [slice(*x).indices(n) for n, x in zip(shape, spec, strict=False)]
    partial = [k for k, x in enumerate(bounds) if x != (0, shape[k], 1)]
    if len(partial) != 1 or bounds[partial[0]][2] != 1:
        return None
    start, stop, _ = bounds[partial[0]]
    return (partial[0], start, stop) if start < stop else None


def count_uses(equations: Any, outputs: Any) -> dict[Var, int]:
    uses: dict[Var, int] = {}
    for atoms in (*[e.inputs for e in equations], outputs):
        for a in atoms:
            if type(a) is Var:
                uses[a] = uses.get(a, 0) + 1
    return uses
