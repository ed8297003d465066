"""Pieces of an array that is put together are written where they belong in it, through reshapes and joints.

    concatenate(reshape(concatenate(a, b)), c)      a, b and c are written into the one result

Without this, each joint would be an array of its own, copied into the next. An equation whose result is such a
piece, and nothing else, is not lowered by itself: the joint around it does that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir import Equation, Var
from .views import View

if TYPE_CHECKING:
    from .schedule import Schedule

_WRAPS = ("reshape", "concatenate")


def find_pieces(schedule: Schedule) -> dict[Var, Equation]:
    """The results that are only pieces of others, and what makes them."""
    equations = schedule.program.equations
    joined: dict[Var, int] = {}  # and when the array around them is put together
    when = {id(e): k for k, e in enumerate(equations)}
    outputs = {a for a in schedule.program.outputs if type(a) is Var}
    for e in reversed(equations):
        out = e.outputs[0]
        readers = schedule.readers.get(out, []) if _is_plain(e) and out not in outputs else []
        if readers and all(_is_around(r, joined) for r in readers):
            joined[out] = max(joined.get(r.outputs[0], when[id(r)]) for r in readers)
            for a in e.inputs:  # they must stay until then
                schedule.last_use[a] = max(schedule.last_use[a], joined[out])
    return {v: schedule.makers[v] for v in joined}


def _is_around(e: Equation, joined: dict[Var, int]) -> bool:
    return _is_plain(e) and (e.primitive.name == "concatenate" or e.outputs[0] in joined)


def _is_plain(e: Equation) -> bool:
    """A joint, or another shape, of arrays of one dtype."""
    if e.primitive.name not in ("reshape", "concatenate") or not e.outputs[0].type.size:
        return False
    return all(type(a) is Var and a.dtype == e.outputs[0].dtype for a in e.inputs)


def lay(schedule: Schedule, e: Equation, target: View) -> None:
    """Write the result of a joint, or another shape of an array, into new memory."""
    if e.primitive.name == "concatenate":
        full = (slice(None),) * e.params["axis"]
        starts = e.params["starts"]
        for k, a in enumerate(e.inputs):
            part = target.imaginary[(*full, slice(starts[k], starts[k + 1]))]
            _lay_atom(schedule, a, target.with_(part))
        return
    view = target.reshape(e.inputs[0].shape)
    if view is not None:
        _lay_atom(schedule, e.inputs[0], view)
    else:
        _make(schedule, e.outputs[0])
        schedule.put(e.outputs[0], target)


def _lay_atom(schedule: Schedule, a: Any, target: View) -> None:
    if type(a) is Var and a in schedule.pieces:
        lay(schedule, schedule.pieces[a], target)
    else:
        schedule.put(a, target)


def _make(schedule: Schedule, a: Any) -> None:
    """A piece as an array of its own after all."""
    e = schedule.pieces.pop(a, None)
    if e is not None:
        for x in e.inputs:
            _make(schedule, x)
        schedule.lower_now(e)
