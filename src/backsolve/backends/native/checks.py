"""`check`: leave with a failure if a number is not 0; and indices where there is nothing to be read."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from llvmlite import ir

from ...ir import Equation
from ...primitives.checks import exception_of
from .failure import fail_if
from .numbers.registers import BOOL, convert, load
from .repeat import loop_with
from .steps import INT, Site, Step
from .views import Buffer, View

if TYPE_CHECKING:
    from .schedule import Schedule


@dataclass(eq=False)
class Check(Step):
    code: View
    failures: dict[int, int]  # by the value of `code`

    def buffers(self) -> list[Buffer]:
        return [self.code.buffer]

    def describe(self) -> str:
        return f"check {len(self.failures)}"

    def emit(self, site: Site) -> None:
        b = site.b
        code = load(b, site.address(self.code), self.code.dtype)
        for value, failure in self.failures.items():
            fail_if(b, b.icmp_signed("==", code, INT(value)), failure)


@dataclass(eq=False)
class Bounds(Step):
    """Leave with `code` if an index leaves an axis of this size."""

    places: View  # contiguous
    size: int
    code: int

    def buffers(self) -> list[Buffer]:
        return [self.places.buffer]

    def describe(self) -> str:
        return f"indices of {self.size}"

    def emit(self, site: Site) -> None:
        view, size = self.places, INT(self.size)

        def body(b: ir.IRBuilder, pointers: dict[Buffer, ir.Value]) -> None:
            first = b.gep(pointers[view.buffer], [INT(view.offset)])

            def look(b: ir.IRBuilder, k: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
                i = convert(b, load(b, b.gep(first, [k]), view.dtype), view.dtype, np.dtype("i8"))
                i = b.select(b.icmp_signed("<", i, INT(0)), b.add(i, size), i)
                return [b.or_(state[0], b.icmp_unsigned(">=", i, size))]

            (outside,) = loop_with(b, prod(view.shape), [BOOL(0)], look)
            fail_if(b, outside, self.code)

        site.in_function([view.buffer], body)


def lower_check(schedule: Schedule, e: Equation) -> None:
    (code,) = e.inputs
    failures = {
        k: schedule.fail(exception_of(kind), message) for k, (kind, message) in e.params["messages"]
    }
    schedule.steps.append(Check(schedule.in_memory(code), failures))
    schedule.barrier = len(schedule.steps) - 1  # what may fail later is not moved ahead of it


LOWER = {"check": lower_check}
