"""Which output of a region is an input with something written into it: the two should share their memory.

Updates of entries, loops that carry an array and branches on the way hand it on. An array that a branch or a
call changes here and there is then changed where it lies.
"""

from __future__ import annotations

from typing import Any

from ....ir import Equation, Program, Var, type_of
from ....regions import Branches, Callee, Loop
from .inside import in_memory

# Callees that were asked about on the way; of those under way nothing is known yet.
Asked = dict[Callee, dict[int, int]]
UPDATES = ("scatter_set", "slice_update")
PARTS = ("scatter_add", "unslice")


def heirs(programs: Any, asked: Asked | None = None) -> dict[int, int]:
    """Output -> input, as any of the programs of the same types has it; each input once."""
    asked = {} if asked is None else asked
    found: dict[int, int] = {}
    for program in programs:
        for k, i in _heirs(program, asked).items():
            same = in_memory(type_of(program.outputs[k])) == in_memory(program.inputs[i].type)
            if k not in found and i not in found.values() and same:
                found[k] = i
    return found


def _heirs(program: Program, asked: Asked) -> dict[int, int]:
    makers = {v: e for e in program.equations for v in e.outputs}
    inputs = {v: i for i, v in enumerate(program.inputs)}
    found: dict[int, int] = {}
    for k, a in enumerate(program.outputs):
        if not type_of(a).shape or type_of(a).is_stack:
            continue
        while type(a) is Var and a not in inputs:
            a = _ancestor(makers[a], a, makers, asked) if a in makers else None
        if type(a) is Var and a.shape and not a.type.is_stack:
            found.setdefault(k, inputs[a])
    return found


def _ancestor(e: Equation, a: Var, makers: dict[Var, Equation], asked: Asked) -> Any:
    """What `a` was before this equation wrote into it, or None."""
    region, name = e.params.get("region"), e.primitive.name
    k = e.outputs.index(a)
    if name in UPDATES:
        return e.inputs[0]
    if name == "add":  # a part is added in place (accumulate.py)
        whole = [x for x in e.inputs if not _is_part(x, makers)]
        return whole[0] if len(whole) == 1 and len(e.inputs) == 2 else None
    if isinstance(region, Loop) and k < region.carried:
        return region.split(e.inputs)[1][k]
    if isinstance(region, Branches):
        i = heirs(region.branches, asked).get(k)
        return None if i is None else e.inputs[1 + i]
    if isinstance(region, Callee):
        i = pairs_of(region, asked).get(k)
        return None if i is None else e.inputs[i]
    return None


def _is_part(a: Any, makers: dict[Var, Equation]) -> bool:
    return type(a) is Var and a in makers and makers[a].primitive.name in PARTS


def pairs_of(callee: Callee, asked: Asked | None = None) -> dict[int, int]:
    """The outputs of a callee that replace inputs. A call inside of itself tells nothing."""
    asked = {} if asked is None else asked
    if callee.program is None:
        return {}
    if callee not in asked:
        asked[callee] = {}
        asked[callee] = heirs([callee.program], asked)
    return asked[callee]
