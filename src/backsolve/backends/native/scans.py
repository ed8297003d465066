"""Running sums and products, and linear recurrences, along an axis.

    cumsum      y_j = y_{j−1} + a_j
    cumprod     y_j = y_{j−1} · a_j
    recurrence  y_j = t_j + a_j y_{j−1},   from the other end when reversed; block_recurrence with matrices

Along the last axis the running values of a few lines stay in registers: each waits for itself, not for the
others. Along another axis all lines behind it run side by side, which vectorises. Sums are taken in order, as
NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ...ir import Equation
from .nests import merge_axes, nest, offset
from .numbers.complex import RULES as COMPLEX
from .numbers.registers import convert, load, store
from .repeat import loop_with
from .steps import Site, Step
from .views import Buffer, View

if TYPE_CHECKING:
    from .schedule import Schedule

INT = ir.IntType(64)
ABREAST = 4  # lines whose running values wait side by side
Rule = Callable[..., ir.Value]
# From the running value and the entries at j; the first entry of all starts it.
_FLOAT: dict[str, Rule] = {
    "cumsum": lambda b, y, a: b.fadd(y, a),
    "cumprod": lambda b, y, a: b.fmul(y, a),
    "recurrence": lambda b, y, t, a: b.fadd(t, b.fmul(a, y, flags=("contract",)), flags=("contract",)),
}  # fmt: skip
_INT: dict[str, Rule] = {
    "cumsum": lambda b, y, a: b.add(y, a),
    "cumprod": lambda b, y, a: b.mul(y, a),
    "recurrence": lambda b, y, t, a: b.add(t, b.mul(a, y)),
}
_COMPLEX: dict[str, Rule] = {
    "cumsum": COMPLEX["add"],
    "cumprod": COMPLEX["multiply"],
    "recurrence": lambda b, y, t, a: COMPLEX["add"](b, t, COMPLEX["multiply"](b, a, y)),
}
_STEPS = {"f": _FLOAT, "c": _COMPLEX}


@dataclass(eq=False)
class Scan(Step):
    name: str
    axis: int
    sources: list[View]
    out: View

    def buffers(self) -> list[Buffer]:
        return [v.buffer for v in (*self.sources, self.out)]

    @property
    def flops(self) -> int:
        return 4 * self.out.buffer.size  # one waits for the other

    def describe(self) -> str:
        return f"{self.name} of {list(self.out.shape)} along {self.axis}"

    def emit(self, site: Site) -> None:
        if 0 not in self.out.shape:
            site.in_function(self.buffers(), self._emit)

    def _emit(self, b: ir.IRBuilder, pointers: dict[Buffer, Any]) -> None:
        k, shape, dtype = self.axis, self.out.shape, self.out.dtype
        n = shape[k]
        views = [*self.sources, self.out]
        outer, before = merge_axes(shape[:k], [v.strides[:k] for v in views])
        inner, behind = merge_axes(shape[k + 1 :], [v.strides[k + 1 :] for v in views])
        along = [v.strides[k] for v in views]
        step = _STEPS.get(dtype.kind, _INT)[self.name]

        def address(b: ir.IRBuilder, which: int, place: list[Any], j: Any, rest: list[Any]) -> Any:
            strides = (*before[which], along[which], *behind[which])
            view = views[which]
            return b.gep(
                pointers[view.buffer], [offset(b, view.offset, strides, [*place, j, *rest])]
            )

        def entries(b: ir.IRBuilder, place: list[Any], j: Any, rest: list[Any]) -> list[ir.Value]:
            found = [address(b, w, place, j, rest) for w in range(len(self.sources))]
            return [
                convert(b, load(b, at, v.dtype), v.dtype, dtype)
                for at, v in zip(found, self.sources, strict=True)
            ]

        def write(b: ir.IRBuilder, y: Any, place: list[Any], j: Any, rest: list[Any]) -> None:
            store(b, y, address(b, -1, place, j, rest), dtype)

        def abreast(b: ir.IRBuilder, places: list[list[Any]]) -> None:
            """Some lines, entry by entry."""
            rest = [INT(0)] * len(inner)
            first = [entries(b, place, INT(0), rest)[0] for place in places]
            for y, place in zip(first, places, strict=True):
                write(b, y, place, INT(0), rest)

            def body(b: ir.IRBuilder, i: Any, state: list[Any]) -> list[Any]:
                j = b.add(i, INT(1))
                read = [entries(b, place, j, rest) for place in places]
                found = [step(b, y, *x) for y, x in zip(state, read, strict=True)]
                for y, place in zip(found, places, strict=True):
                    write(b, y, place, j, rest)
                return found

            loop_with(b, n - 1, first, body)

        def side_by_side(b: ir.IRBuilder, place: list[Any]) -> None:
            def start(b: ir.IRBuilder, rest: list[Any]) -> None:
                write(b, entries(b, place, INT(0), rest)[0], place, INT(0), rest)

            def advance(b: ir.IRBuilder, i: Any, _: list[Any]) -> list[Any]:
                def one(b: ir.IRBuilder, rest: list[Any]) -> None:
                    j = b.add(i, INT(1))
                    y = load(b, address(b, -1, place, i, rest), dtype)
                    write(b, step(b, y, *entries(b, place, j, rest)), place, j, rest)

                nest(b, inner, one)
                return []

            nest(b, inner, start)
            loop_with(b, n - 1, [], advance)

        if prod(inner) != 1:
            nest(b, outer, side_by_side)
        elif len(outer) == 1 and outer[0] >= ABREAST:
            groups = outer[0] // ABREAST

            def group(b: ir.IRBuilder, place: list[Any]) -> None:
                first = b.mul(place[0], INT(ABREAST))
                abreast(b, [[b.add(first, INT(m))] for m in range(ABREAST)])

            nest(b, (groups,), group)
            if left := outer[0] - groups * ABREAST:
                abreast(b, [[INT(groups * ABREAST + m)] for m in range(left)])
        else:
            nest(b, outer, lambda b, place: abreast(b, [place]))


@dataclass(eq=False)
class Chain(Step):
    """block_recurrence: vectors t (…, steps, n) and matrices A (…, steps, n, n), one step after the other."""

    terms: View
    factors: View
    out: View

    def buffers(self) -> list[Buffer]:
        return [v.buffer for v in (self.terms, self.factors, self.out)]

    @property
    def flops(self) -> int:
        return 2 * self.out.buffer.size * self.out.shape[-1]

    def describe(self) -> str:
        return f"block_recurrence of {list(self.out.shape)}"

    def emit(self, site: Site) -> None:
        if 0 not in self.out.shape:
            site.in_function(self.buffers(), self._emit)

    def _emit(self, b: ir.IRBuilder, pointers: dict[Buffer, Any]) -> None:
        *lead, steps, n = self.out.shape
        dtype = self.out.dtype
        step = _STEPS.get(dtype.kind, _INT)["recurrence"]

        def address(b: ir.IRBuilder, v: View, place: list[Any]) -> Any:
            return b.gep(pointers[v.buffer], [offset(b, v.offset, v.strides, place)])

        def read(b: ir.IRBuilder, v: View, place: list[Any]) -> Any:
            return convert(b, load(b, address(b, v, place), v.dtype), v.dtype, dtype)

        def line(b: ir.IRBuilder, place: list[Any]) -> None:
            def first(b: ir.IRBuilder, rest: list[Any]) -> None:
                at = [*place, INT(0), *rest]
                store(b, read(b, self.terms, at), address(b, self.out, at), dtype)

            def advance(b: ir.IRBuilder, before: Any, _: list[Any]) -> list[Any]:
                j = b.add(before, INT(1))

                def entry(b: ir.IRBuilder, rest: list[Any]) -> None:
                    at = [*place, j, *rest]

                    def add(b: ir.IRBuilder, k: Any, state: list[Any]) -> list[Any]:
                        y = read(b, self.out, [*place, before, k])
                        return [step(b, y, state[0], read(b, self.factors, [*at, k]))]

                    (total,) = loop_with(b, n, [read(b, self.terms, at)], add)
                    store(b, total, address(b, self.out, at), dtype)

                nest(b, (n,), entry)
                return []

            nest(b, (n,), first)
            loop_with(b, steps - 1, [], advance)

        nest(b, tuple(lead), line)


def lower_chain(schedule: Schedule, e: Equation) -> None:
    out = e.outputs[0]
    factors, terms = [schedule.in_memory(a) for a in e.inputs]
    view = schedule.new_buffer(out.shape, out.dtype)
    turned = [terms, factors, view]
    if e.params["reverse"]:
        turned = [v.with_(np.flip(v.imaginary, len(out.shape) - 2)) for v in turned]
    schedule.steps.append(Chain(*turned))
    schedule.views[out] = view
    schedule.ready[view.buffer] = len(schedule.steps) - 1


def lower_scan(schedule: Schedule, e: Equation) -> None:
    out = e.outputs[0]
    axis = e.params["axis"]
    # The entry that a running value starts from comes first: t of a recurrence.
    sources = [schedule.in_memory(a).broadcast(out.shape) for a in reversed(e.inputs)]
    view = schedule.new_buffer(out.shape, out.dtype)
    turned = [*sources, view]
    if e.params.get("reverse"):
        turned = [v.with_(np.flip(v.imaginary, axis)) for v in turned]
    schedule.steps.append(Scan(e.primitive.name, axis, turned[:-1], turned[-1]))
    schedule.views[out] = view
    schedule.ready[view.buffer] = len(schedule.steps) - 1


LOWER = {
    **dict.fromkeys(("cumsum", "cumprod", "recurrence"), lower_scan),
    "block_recurrence": lower_chain,
}
