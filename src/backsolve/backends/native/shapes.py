"""Shapes and parts: another look at memory is a view; parts are written where they belong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import Equation, Var
from ...operators.slice import key_of
from .contraction import lower_contraction, lower_outer
from .convolving import leave_to_fold
from .pieces import lay
from .steps import Zero
from .views import View, around

if TYPE_CHECKING:
    from .schedule import Schedule


def _set_view(schedule: Schedule, e: Equation, view: View) -> None:
    schedule.views[e.outputs[0]] = view
    if e.inputs[0] in schedule.ranges:
        schedule.ranges[e.outputs[0]] = schedule.ranges[e.inputs[0]]


def _reshape(schedule: Schedule, e: Equation) -> None:
    if _pass_number(schedule, e):
        return
    view, shape = schedule.view_of(e.inputs[0]), e.params["shape"]
    reshaped = view.reshape(shape)
    if reshaped is None:
        reshaped = schedule.contiguous(view).reshape(shape)
    assert reshaped is not None
    _set_view(schedule, e, reshaped)


def _broadcast_to(schedule: Schedule, e: Equation) -> None:
    if not _pass_number(schedule, e):
        _set_view(schedule, e, schedule.view_of(e.inputs[0]).broadcast(e.params["shape"]))


def _permute(schedule: Schedule, e: Equation) -> None:
    _set_view(schedule, e, schedule.view_of(e.inputs[0]).permute(e.params["axes"]))


def _slice(schedule: Schedule, e: Equation) -> None:
    view = schedule.view_of(e.inputs[0])
    part = view.imaginary[(*key_of(e.params["spec"]), ...)]
    _set_view(schedule, e, view.with_(part))


def _pass_number(schedule: Schedule, e: Equation) -> bool:
    """A known number stays one under any shape."""
    a = e.inputs[0]
    if type(a) is Var and a not in schedule.numbers:
        return False
    schedule.numbers[e.outputs[0]] = (
        schedule.numbers[a] if type(a) is Var else e.outputs[0].dtype.type(a)
    )
    return True


# ---- writes into parts


def _unslice(schedule: Schedule, e: Equation) -> None:
    out = e.outputs[0]
    view = schedule.new_buffer(out.shape, out.dtype)
    source = e.inputs[0]
    part = view.with_(view.imaginary[(*key_of(e.params["spec"]), ...)])
    rest = around(view, e.params["spec"])
    if rest is None:
        if type(source) is Var and source not in schedule.numbers:
            schedule.view_of(source)
        schedule.steps.append(Zero(view.buffer))
        schedule.copy(source, part)
    else:
        for key in rest:
            schedule.copy(out.dtype.type(0), view.with_(view.imaginary[key]))
        schedule.put(source, part)
    schedule.views[e.outputs[0]] = view


def _slice_update(schedule: Schedule, e: Equation) -> None:
    a, v = e.inputs
    spec = e.params["spec"]
    view = schedule.ownable(a, (v,)) if type(a) is Var else None
    rest = around(schedule.view_of(a), spec) if view is None and type(a) is Var else None
    if view is not None:
        schedule.overwritten.add(view.buffer)
        schedule.copy(v, view.with_(view.imaginary[(*key_of(spec), ...)]))
    elif rest is not None:  # what is overwritten need not be copied first
        old, view = schedule.view_of(a), schedule.new_buffer(e.outputs[0].shape, e.outputs[0].dtype)
        for key in rest:
            schedule.copy(old.with_(old.imaginary[key]), view.with_(view.imaginary[key]))
        schedule.put(v, view.with_(view.imaginary[(*key_of(spec), ...)]))
    else:
        view = schedule.own(a, (v,))
        schedule.copy(v, view.with_(view.imaginary[(*key_of(spec), ...)]))
    schedule.views[e.outputs[0]] = view


def _concatenate(schedule: Schedule, e: Equation) -> None:
    out = e.outputs[0]
    view = schedule.new_buffer(out.shape, out.dtype)
    lay(schedule, e, view)
    schedule.views[out] = view


def _contract(schedule: Schedule, e: Equation) -> None:
    if not leave_to_fold(schedule, e) and not lower_outer(schedule, e):
        schedule.views[e.outputs[0]] = lower_contraction(schedule, e)


LOWER = {
    "reshape": _reshape,
    "broadcast_to": _broadcast_to,
    "permute": _permute,
    "slice": _slice,
    "unslice": _unslice,
    "slice_update": _slice_update,
    "concatenate": _concatenate,
    "contract": _contract,
}
