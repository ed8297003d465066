"""Windows are another look at memory; Fold adds them back, one place in the window after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Equation, Shape
from ...operators.windows import Cut
from .convolving import fold_product
from .cutting import Put, slice_view
from .elementwise import combine
from .nests import INT, nest, offset
from .numbers.registers import load, number, store
from .row_sums import NUMBERS, add_row
from .steps import Site, Step
from .views import Buffer, View

if TYPE_CHECKING:
    from .schedule import Schedule


def _windows(schedule: Schedule, e: Equation) -> None:
    view = schedule.in_memory(e.inputs[0])
    schedule.views[e.outputs[0]] = view.with_(e.params["cut"].view(view.imaginary))


def _fold(schedule: Schedule, e: Equation) -> None:
    if fold_product(schedule, e):
        return
    out, cut = e.outputs[0], e.params["cut"]
    view = schedule.new_buffer(out.shape, out.dtype)
    if _are_apart(cut):
        places = view.with_(cut.view(view.imaginary))
        if prod(places.shape) == prod(view.shape):  # no entry is left out
            schedule.put(e.inputs[0], places)
        else:
            source = schedule.in_memory(e.inputs[0])
            schedule.copy(out.dtype.type(0), view)
            schedule.copy(source, places)
        schedule.views[out] = view
        return
    source = schedule.in_memory(e.inputs[0])
    schedule.steps.append(Fold(source, view, cut.view(view.imaginary), _lead(cut)))
    schedule.views[out] = view
    schedule.ready[view.buffer] = len(schedule.steps) - 1


def _lead(cut: Cut) -> int:
    """How many leading axes are not cut."""
    return min(cut.axes, default=0)


def _are_apart(cut: Cut) -> bool:
    """Whether no entry stands in two windows."""
    apart = (d * (n - 1) < s for n, s, d in zip(*cut[1:], strict=True))
    return all(apart)


@dataclass(eq=False)
class Fold(Step):
    """y = 0, then y[places] += t: `places` are the windows of y, of the shape of t."""

    t: View
    y: View
    places: np.ndarray[Any, Any] = field(repr=False)
    free: int  # leading axes along which no window reaches beyond its own part

    def buffers(self) -> list[Buffer]:
        return [self.t.buffer, self.y.buffer]

    @property
    def flops(self) -> int:
        return self.t.imaginary.size + self.y.imaginary.size

    def leads(self) -> list[Shape]:
        return [self.y.shape[:d] for d in range(1, self.free + 1)]

    def cut(self, lead: Shape, chunk: int, put: Put) -> Fold:
        depth = len(lead)
        windows = self.y.with_(self.places)
        t, y = (
            put(*slice_view(v, depth, chunk), r) for v, r in ((self.t, "read"), (self.y, "write"))
        )
        return Fold(t, y, slice_view(windows, depth, chunk)[0].imaginary, self.free - depth + 1)

    def describe(self) -> str:
        return f"fold {list(self.t.shape)} into {list(self.y.shape)}"

    def emit(self, site: Site) -> None:
        if 0 not in self.y.shape:
            site.in_function(self.buffers(), self._emit)

    def _emit(self, b: ir.IRBuilder, pointers: dict[Buffer, Any]) -> None:
        free, rank, dtype = self.free, len(self.y.shape), self.y.dtype
        places = self.y.with_(self.places)
        counts, inside = self.t.shape[free:rank], self.t.shape[rank:]
        how = "or" if dtype == np.bool_ else "add"
        step = places.strides[rank - 1]
        in_rows = dtype in NUMBERS and self.t.strides[rank - 1] == 1 and 1 <= step <= 2

        def address(b: ir.IRBuilder, view: View, place: list[Any]) -> ir.Value:
            return b.gep(pointers[view.buffer], [offset(b, view.offset, view.strides, place)])

        def part(b: ir.IRBuilder, lead: list[Any]) -> None:
            """One part of y: the windows' entries number k are added for one k after the other."""

            def clear(b: ir.IRBuilder, place: list[Any]) -> None:
                store(b, number(0, dtype), address(b, self.y, [*lead, *place]), dtype)

            def add_all(b: ir.IRBuilder, k: list[Any]) -> None:
                def add(b: ir.IRBuilder, place: list[Any]) -> None:
                    to = address(b, places, [*lead, *place, *k])
                    new = load(b, address(b, self.t, [*lead, *place, *k]), dtype)
                    store(b, combine(b, how, load(b, to, dtype), new, dtype), to, dtype)

                def add_one_row(b: ir.IRBuilder, place: list[Any]) -> None:
                    first = [*lead, *place, INT(0), *k]
                    add_row(
                        b, address(b, places, first), step, address(b, self.t, first), counts[-1]
                    )

                if in_rows:
                    nest(b, counts[:-1], add_one_row)
                else:
                    nest(b, counts, add)

            nest(b, self.y.shape[free:], clear)
            nest(b, inside, add_all)

        nest(b, self.y.shape[:free], part)


LOWER = {"windows": _windows, "fold": _fold}
