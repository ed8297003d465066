"""Recompute or store: a cheap value that two kernels need is computed in both.

One kernel would write it and the other read it, and memory is what large arrays wait for. An addition, a
product of two numbers, a comparison or a cast costs less, if what it needs is read by the second kernel
anyway, or is small: then nothing is written and less is read. exp, division, a sum are stored. (To read
something else of the same size instead spares a write only; in a sweep, where intermediate values stay in
the cache, that was measured to cost more than it brings.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import Equation, Var

if TYPE_CHECKING:
    from .kernel import Kernel
    from .schedule import Schedule

CHEAP = {"add", "subtract", "multiply", "negative", "square", "absolute", "where", "cast"}
CHEAP |= {"maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater"}
CHEAP |= {"greater_equal", "logical_and", "logical_or", "logical_not", "isnan", "isfinite"}
MOST = 3  # statements for one value
SMALL = 0.25  # of the value's size: operands that the kernel would have to read for it alone
TINY = 0.03  # the same if it reads none of them anyway: then the value is an outer one of a few numbers


def compute_again(s: Schedule, a: Var, kernel: Kernel, at: int) -> bool:
    """Put the statements that make `a` into kernel `at`, if that spares its store; tells whether."""
    if a in s.views or a.shape != kernel.domain or not _is_only_for_kernels(s, a):
        return False
    statements: list[Equation] = []
    leaves: list[Var] = []
    if not _collect(s, a, kernel, at, statements, leaves):
        return False
    new = [x for x in leaves if x not in kernel.loads]
    most = SMALL if len(new) < len(leaves) else TINY
    if sum(s.views[x].buffer.size for x in new) > most * a.type.size:
        return False
    for x in new:
        kernel.loads[x] = s.views[x].broadcast(kernel.domain)
    kernel.statements.extend(statements)
    kernel.made.update(e.outputs[0] for e in statements)
    return True


def _is_only_for_kernels(s: Schedule, a: Var) -> bool:
    """A value that is a result, or that another kind of step reads, is stored in any case."""
    if a in s.program.outputs:
        return False
    return all(e.primitive.elementwise or e.primitive.name == "sum" for e in s.readers[a])


def _collect(
    s: Schedule, a: Var, kernel: Kernel, at: int, statements: list[Equation], leaves: list[Var]
) -> bool:
    """The statements that make `a`, in order, from `leaves` in memory; False if they are too many."""
    if a in kernel.made or a in s.numbers or any(a is e.outputs[0] for e in statements):
        return True
    if a in s.views:
        buffer = s.views[a].buffer
        if a not in leaves:
            leaves.append(a)
        return s.ready[buffer] < at and buffer not in s.overwritten
    e = s.makers.get(a)
    if e is None or e.primitive.name not in CHEAP or a not in s.home or s.home[a] >= at:
        return False
    for x in e.inputs:
        if type(x) is Var and not _collect(s, x, kernel, at, statements, leaves):
            return False
    statements.append(e)
    return len(statements) <= MOST
