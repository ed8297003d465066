"""`check`: leave with a failure if a number is not 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir import Equation
from ...primitives.checks import exception_of
from .failure import fail_if
from .numbers.registers import load
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


def lower_check(schedule: Schedule, e: Equation) -> None:
    (code,) = e.inputs
    failures = {
        k: schedule.fail(exception_of(kind), message) for k, (kind, message) in e.params["messages"]
    }
    schedule.steps.append(Check(schedule.in_memory(code), failures))
    schedule.barrier = len(schedule.steps) - 1  # what may fail later is not moved ahead of it


LOWER = {"check": lower_check}
