"""Element-wise equations that raise on what some entries are, told by their inputs; kernels look at it."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ....ir import Equation
from ....primitives.eigen import CLOSED_GAP
from . import complex as complex_number
from .integer import REFUSED as INTEGERS
from .real import Rule
from .registers import Complex

Refusal = tuple[type[Exception], str, Rule]


def refusal(e: Equation) -> Refusal | None:
    """The exception, its message, and when to raise it."""
    known = INTEGERS if e.outputs[0].dtype.kind in "iu" else _NUMBERS
    return known.get(e.primitive.name)


def is_possible(refused: Refusal, low: float, high: float) -> bool:
    """Whether the last input, which is in these bounds, can be one that is refused."""
    return low < 0 if refused[0] is ValueError else low <= 0 <= high


def _moves_by_a_closed_gap(b: ir.IRBuilder, t: Any, gap: Any) -> Any:
    if isinstance(t, Complex):
        zero = complex_number.zero(t)
        return b.and_(complex_number.equal(b, gap, zero), b.not_(complex_number.equal(b, t, zero)))
    zero = ir.Constant(t.type, 0.0)
    return b.and_(b.fcmp_ordered("==", gap, zero), b.fcmp_unordered("!=", t, zero))


_NUMBERS: dict[str, Refusal] = {"over_gaps": (*CLOSED_GAP, _moves_by_a_closed_gap)}
