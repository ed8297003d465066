"""Stored values side by side in one array for each dtype: a tree of calls would hand up thousands of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..ir import Equation, Program, Type, Var
from ..primitive import P

FEW = 3  # values that are handed over one by one


def can_share(t: Type) -> bool:
    """Stacks and boxes are not of one length; an entry of an array is no Python number."""
    return not (t.is_stack or t.weak)


def _groups(variables: Sequence[Var]) -> list[list[Var]]:
    """Those that share an array; what cannot, and what is alone in its dtype, stays as it is."""
    found: dict[object, list[Var]] = {}
    for v in variables:
        found.setdefault(v.dtype if can_share(v.type) else v, []).append(v)
    return [
        g if len(g) > FEW else [v] for g in found.values() for v in (g[:1] if len(g) > FEW else g)
    ]


def _starts(group: Sequence[Var]) -> tuple[int, ...]:
    return (0, *[int(n) for n in np.cumsum([v.type.size for v in group])])


def packed(program: Program, outputs: int) -> Program:
    """Outputs beyond the first ones, packed."""
    equations, found = list(program.equations), []
    for group in _groups(program.outputs[outputs:]):
        if len(group) == 1:
            found.append(group[0])
            continue
        flat = []
        for v in group:
            flat.append(Var(Type((v.type.size,), v.dtype)))
            shape = {"shape": (v.type.size,)}
            equations.append(Equation((flat[-1],), P.reshape, (v,), shape))
        starts = _starts(group)
        whole = Var(Type((starts[-1],), group[0].dtype))
        params = {"axis": 0, "starts": starts}
        equations.append(Equation((whole,), P.concatenate, tuple(flat), params))
        found.append(whole)
    shown = (*program.outputs[:outputs], *found)
    return replace(program, equations=tuple(equations), outputs=shown)


def unpacked(program: Program, first: int, count: int) -> Program:
    """The inputs at first, …, first + count − 1, given packed."""
    equations: list[Equation] = []
    given = []
    for group in _groups(program.inputs[first : first + count]):
        if len(group) == 1:
            given.append(group[0])
            continue
        starts = _starts(group)
        whole = Var(Type((starts[-1],), group[0].dtype))
        given.append(whole)
        for v, start, stop in zip(group, starts, starts[1:], strict=False):
            part = Var(Type((v.type.size,), v.dtype))
            equations.append(Equation((part,), P.slice, (whole,), {"spec": ((start, stop, None),)}))
            equations.append(Equation((v,), P.reshape, (part,), {"shape": v.shape}))
    inputs = (*program.inputs[:first], *given, *program.inputs[first + count :])
    return replace(program, inputs=inputs, equations=(*equations, *program.equations))
