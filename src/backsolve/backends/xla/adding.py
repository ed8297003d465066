"""Arrays that are written entry by entry: in place, as far as XLA sees that it may.

    add(a, scatter_add(t, i, j))      a with t added at (i, j)

Adjoints of loops that read an array entry by entry are made of such sums; adding a whole array that is zero but
for an entry would touch all of it in every round. And XLA overwrites an array only if it is not read any more.
Reads are so cheap that it repeats them wherever the entry is needed, after the writing too, and copies the
whole array for that. So what is read of an array that the same program writes comes first, from a conditional,
which is not repeated, and the place to write to follows from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from ...ir import Equation, Program, Var, type_of
from .rows.index import add_at, checked
from .search import Joined

Step = Equation | Joined


def with_sums_in_place(program: Program, steps: Sequence[Step]) -> Sequence[Step]:
    """The steps, with sums of an array and what stands in one place in one."""
    spread = {
        e.outputs[0]: e
        for e in steps
        if isinstance(e, Equation)
        and e.primitive.name == "scatter_add"
        and all(not type_of(index).shape for index in e.inputs[1:])
    }
    if not spread:
        return steps
    readers = Counter([a for step in steps for a in step.inputs if type(a) is Var])
    readers.update([a for a in program.outputs if type(a) is Var])
    found: dict[Var, Joined] = {}
    gone: set[Var] = set()
    for e in steps:
        if isinstance(e, Equation) and e.primitive.name in ("add", "logical_or"):
            for a, part in (e.inputs, e.inputs[::-1]):
                maker = spread.get(part) if readers[part] == 1 else None
                if (
                    maker is not None
                    and type(a) is Var
                    and a.type == e.outputs[0].type == part.type
                ):
                    run = partial(_added, maker, a)
                    found[e.outputs[0]] = Joined((a, *maker.inputs), e.outputs[0], run)
                    gone.add(part)
                    break
    kept = [e for e in steps if isinstance(e, Joined) or e.outputs[0] not in gone]
    return [e if isinstance(e, Joined) else found.get(e.outputs[0], e) for e in kept]


def _added(spread: Equation, whole: Var, m: Any, a: Any, t: Any, *indices: Any) -> Any:
    return add_at(m, whole, a, t, checked(m, spread, indices, 1, a.shape))


def written(steps: Sequence[Step]) -> set[Var]:
    """The arrays that are overwritten, or added to, in some places."""
    return {s.inputs[0] for s in steps if _writes(s) and type(s.inputs[0]) is Var}


def with_reads_first(steps: Sequence[Step], arrays: set[Var]) -> Sequence[Step]:
    """The steps, with entries of `arrays` read before these are written, if it is known where."""
    reads: dict[Var, list[Equation]] = {}
    for s in steps:
        if isinstance(s, Equation) and s.primitive.name == "gather" and s.inputs[0] in arrays:
            reads.setdefault(s.inputs[0], []).append(s)
    made_here = {v for s in steps for v in _outputs(s)}
    made: set[Var] = set()
    order: dict[int, Step] = {}
    for s in steps:
        sooner = reads.get(s.inputs[0], []) if _writes(s) else []
        for step in [*[r for r in sooner if not (made_here & set(_variables(r))) - made], s]:
            order.setdefault(id(step), step)
            made.update(_outputs(step))
    return list(order.values())


def _writes(s: Step) -> bool:
    if isinstance(s, Joined):
        return isinstance(s.run, partial) and s.run.func is _added
    return s.primitive.name == "scatter_set"


def _variables(s: Step) -> list[Var]:
    return [a for a in s.inputs if type(a) is Var]


def _outputs(s: Step) -> Sequence[Var]:
    return [s.output] if isinstance(s, Joined) else s.outputs
