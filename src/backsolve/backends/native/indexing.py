"""Reading and writing where index arrays point, as parts of a kernel.

    gather       y[i…, r…] = a[i₁[i…], …, r…]          a statement: one more load
    scatter_set  y[i₁[i…], …, r…] = v[i…, r…]          a store, into `a` itself if nobody reads it again
    scatter_add  y[i₁[i…], …, r…] += t[i…, r…]         a store into zeros

The loops run over (i…, r…). A negative index counts from the end; one out of range reads (or writes) at
0 instead and raises a flag, which is looked at behind the loops: no branch in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Equation, Shape, Type, Var, type_of
from ...operators.gather import gathered_shape
from .checks import Bounds
from .elementwise import FUNCTIONS
from .failure import placed
from .steps import Zero
from .views import View

if TYPE_CHECKING:
    from .entries import Entries
    from .schedule import Schedule

INT = ir.IntType(64)
LONG = 64  # entries from which on vectors matter


@dataclass(eq=False)
class Axis:
    """An axis that an index walks; `code` is the failure if it leaves it, None if it cannot."""

    index: Any  # an atom of the kernel
    size: int
    stride: int
    wraps: bool  # it may be negative
    code: int | None

    def position(self, b: ir.IRBuilder, i: ir.Value, flag: Any) -> ir.Value:
        """Where index `i` points, in entries; `flag(code)` is a place for a boolean."""
        if self.wraps:
            below = b.icmp_signed("<", i, INT(0))
            i = b.select(below, b.add(i, INT(self.size)), i)
        if self.code is not None:
            outside = b.icmp_unsigned(">=", i, INT(self.size))
            slot = flag(self.code)
            b.store(b.or_(b.load(slot), outside), slot)
            i = b.select(outside, INT(0), i)
        return b.mul(i, INT(self.stride))


@dataclass(eq=False)
class Place:
    """Entries that indices point at: `view`, spread over the domain, is what all indices 0 mean."""

    view: View
    axes: list[Axis]

    def read(self, emitter: Entries, b: ir.IRBuilder, values: Any, place: list[Any]) -> ir.Value:
        return emitter.entry(b, self.view.buffer, emitter.indexed(b, self, values, place))


@dataclass(eq=False)
class Write:
    how: str  # "set", or the way a reduction combines
    value: Any
    place: Place
    fresh: bool  # the kernel first fills the buffer with zeros


def lower_gather(schedule: Schedule, e: Equation) -> None:
    a, *indices = e.inputs
    out = e.outputs[0]
    if out in schedule.views:  # it was sorted, not read in an order (sorting.py)
        return
    source = schedule.view_of(a)
    if 0 in (*out.shape, *source.shape):
        _check_indices(schedule, indices, source.shape, e.where)
        schedule.views[out] = schedule.new_buffer(out.shape, out.dtype)
        schedule.ready[schedule.views[out].buffer] = len(schedule.steps) - 1
        return
    atoms = _spread(schedule, indices, out.shape, source.shape)
    after = max(schedule.ready[source.buffer], atoms.ready(schedule))
    at = schedule.join(out.shape, atoms.variables, after=after)
    kernel = schedule.kernel(at)
    kernel.loads.update(atoms.loads)
    kernel.reads[out] = _place(schedule, source, atoms.all, indices, out.shape, e.where)
    kernel.statements.append(e)
    kernel.made.add(out)
    schedule.home[out] = at
    if source.buffer.kind == "ramp":
        schedule.ranges[out] = schedule.range_of(a)


def lower_scatter_add(schedule: Schedule, e: Equation) -> None:
    t, *indices = e.inputs
    out = e.outputs[0]
    target = schedule.views[out] = schedule.new_buffer(out.shape, out.dtype)
    _scatter(schedule, t, indices, target, _adding(out.dtype), -1, e.where, fresh=True)


def lower_scatter_set(schedule: Schedule, e: Equation) -> None:
    a, v, *indices = e.inputs
    target = schedule.views[e.outputs[0]] = schedule.own(a, (v, *indices))
    after = schedule.last_touch(target.buffer)
    _scatter(schedule, v, indices, target, "set", after, e.where)


def add_at(schedule: Schedule, t: Any, indices: Any, target: View, after: int, where: str) -> None:
    """target[indices] += t, in a kernel behind step `after`."""
    _scatter(schedule, t, indices, target, _adding(target.dtype), after, where)


def _adding(dtype: np.dtype[Any]) -> str:
    return "or" if dtype == np.bool_ else "add"


def _scatter(
    schedule: Schedule,
    v: Any,
    indices: Any,
    target: View,
    how: str,
    after: int,
    where: str,
    fresh: bool = False,
) -> None:
    domain = gathered_shape(target.shape, tuple(indices))
    if 0 in (*domain, *target.shape):
        _check_indices(schedule, indices, target.shape, where)
        if fresh:
            schedule.steps.append(Zero(target.buffer))
            schedule.ready[target.buffer] = len(schedule.steps) - 1
        return
    atoms = _spread(schedule, indices, domain, target.shape)
    after = max(after, atoms.ready(schedule), _last_functions(schedule, [v, *atoms.variables]))
    at = schedule.join(domain, [v, *atoms.variables], after=after)
    kernel = schedule.kernel(at)
    kernel.loads.update(atoms.loads)
    place = _place(schedule, target, atoms.all, indices, domain, where)
    kernel.writes.append(Write(how, v, place, fresh))
    schedule.ready[target.buffer] = at


def _last_functions(schedule: Schedule, atoms: Any) -> int:
    """The last kernel that computes functions for a write: loops that write at indices are none of vectors."""
    homes = [schedule.home[a] for a in atoms if type(a) is Var and a in schedule.home]
    kernels = [(at, schedule.kernel(at)) for at in homes]
    is_slow = lambda k: any(e.primitive.name in FUNCTIONS for e in k.statements)
    return max([at for at, k in kernels if prod(k.domain) >= LONG and is_slow(k)], default=-1)


def _check_indices(schedule: Schedule, indices: Any, shape: Shape, where: str) -> None:
    """Where no entry is read or written, indices may be out of range all the same."""
    if 0 in _common(indices):
        return
    for k, (i, size) in enumerate(zip(indices, shape, strict=False)):
        low, high = schedule.range_of(i)
        code = 0
        if not (-size <= low and high < size):
            code = schedule.fail(IndexError, _out_of_bounds(k, size, where), may_go=True)
        if not code:
            continue
        places = schedule.contiguous(schedule.in_memory(i))
        schedule.steps.append(Bounds(places, size, code))
        schedule.barrier = len(schedule.steps) - 1  # what may fail later is not moved ahead of it


def _out_of_bounds(axis: int, size: int, where: str) -> str:
    return placed(f"an index is out of bounds for axis {axis} with size {size}", where)


def _common(indices: Any) -> Shape:
    return np.broadcast_shapes(*[type_of(i).shape for i in indices])


@dataclass(eq=False)
class _Atoms:
    all: list[Any]
    variables: list[Any]  # those that the kernel computes or loads as they are
    loads: dict[Var, View]  # those that are spread over trailing axes

    def ready(self, schedule: Schedule) -> int:
        """The step after which the index arrays in `loads` are there."""
        return max([schedule.ready[v.buffer] for v in self.loads.values()], default=-1)


def _spread(schedule: Schedule, indices: Any, domain: Shape, shape: Shape) -> _Atoms:
    """Index arrays lie along the first axes of the domain, where plain broadcasting takes the last."""
    rest = len(shape) - len(indices)
    atoms = _Atoms([], [], {})
    for i in indices:
        known = type(i) is not Var or i in schedule.numbers
        if known or not rest or not type_of(i).shape:
            atoms.variables.append(i)
        else:
            view = schedule.view_of(i)
            column = view.with_(view.imaginary[(..., *[None] * rest)])
            i = Var(Type(domain, view.dtype))
            atoms.loads[i] = column.broadcast(domain)
        atoms.all.append(i)
    return atoms


def _place(
    schedule: Schedule, view: View, atoms: Any, indices: Any, domain: Shape, where: str
) -> Place:
    n = len(indices)
    origin: tuple[Any, ...] = (*[0] * n, ...)
    first = view.with_(view.imaginary[origin])
    axes = []
    for k, (atom, i) in enumerate(zip(atoms, indices, strict=True)):
        size = view.shape[k]
        low, high = schedule.range_of(i)
        inside = -size <= low and high < size
        message = _out_of_bounds(k, size, where)
        code = None if inside else schedule.fail(IndexError, message, may_go=True) or None
        axes.append(Axis(atom, size, view.strides[k], low < 0, code))
    return Place(first.broadcast(domain), axes)


LOWER = {
    "gather": lower_gather,
    "scatter_add": lower_scatter_add,
    "scatter_set": lower_scatter_set,
}
