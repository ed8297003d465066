"""The instructions that statements of a kernel become."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ...ir import Equation, Var
from .elementwise import LONG, is_cube
from .rates import FUNCTIONS

if TYPE_CHECKING:
    from .kernel import Kernel

SLOW = {"divide", "sqrt", "reciprocal", "remainder", "floor_divide"}
WITHIN = {
    "operation": 1,
    "factor": 1,
    "division": 4,
    "function": 25,
}  # operations, one after the other


def instructions_of(e: Equation) -> tuple[str, float]:
    """What a statement becomes, and how many of them; of functions, in times of an exponential."""
    name = e.primitive.name
    if is_cube(e):
        return "operation", 2.0
    if name in LONG:
        return "function", FUNCTIONS.get(name, 1.0)
    return "division" if name in SLOW else "operation", 1.0


def is_function(e: Equation) -> bool:
    return instructions_of(e)[0] == "function"


def fused_products(kernel: Kernel) -> set[Var]:
    """Those that are only added to what varies, or to 0: one instruction multiplies and adds.

    To another number it would add in a copy of that, which takes as long as to multiply.
    """
    products = {
        e.outputs[0]
        for e in kernel.statements
        if e.primitive.name == "multiply" and e.outputs[0].dtype.kind == "f"
    }
    varies = kernel.made | kernel.loads.keys()
    read = [a for e in kernel.statements for a in e.inputs]
    read += [a for a, _ in kernel.stores] + [w.value for w in kernel.writes]
    read += [a for _, a, _ in kernel.reductions]
    uses = Counter[Var](a for a in read if type(a) is Var)
    added = [a for how, a, _ in kernel.reductions if how == "add"]
    for e in kernel.statements:
        if e.primitive.name not in ("add", "subtract"):
            continue
        if all(a in varies or _is_zero(a) for a in e.inputs):  # of two products one
            added += [a for a in e.inputs if type(a) is Var and a in products][:1]
    return {a for a in added if type(a) is Var and a in products and uses[a] == 1}


def dropped_sums(kernel: Kernel) -> set[Var]:
    """Sums with 0 of what is one already: only -0 would change, and LLVM leaves them out."""
    with_zero: set[Var] = set()
    dropped: set[Var] = set()
    for e in kernel.statements:
        if e.primitive.name == "add" and any(_is_zero(a) for a in e.inputs):
            dropped.update(e.outputs if any(a in with_zero for a in e.inputs) else ())
            with_zero.update(e.outputs)
        elif e.primitive.name == "subtract" and _is_zero(e.inputs[0]):
            with_zero.update(e.outputs)
    return dropped


def _is_zero(a: Any) -> bool:
    return type(a) is float and a == 0
