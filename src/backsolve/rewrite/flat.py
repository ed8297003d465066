"""What is computed entry by entry from views, and read flat alone, is computed flat.

    reshape(x[0] * x[1], (n,))   is   reshape(x[0], (n,)) * reshape(x[1], (n,))

The numbers of a sparse matrix are flat, whatever shape the arrays have that they come from: so loops over both
are one. A product of matrices, or a sum, keeps the shape that it is computed in, and what follows it there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import Equation, Program, Type, Var
from ..primitive import P

_VIEWS = frozenset({"slice", "reshape"})


def compute_flat(program: Program) -> Program:
    if not any(_is_flattening(e) for e in program.equations):
        return program
    moved = _moved(program)
    if not moved:
        return program
    flat: dict[Var, Var] = {}
    kept: list[Equation] = []

    def read(a: Any, e: Equation) -> Any:
        """An input of one that has moved: flat as well."""
        if type(a) is not Var or not a.shape:
            return a
        if a not in flat:
            flat[a] = Var(Type((a.type.size,), a.dtype))
            params = {"shape": flat[a].shape}
            kept.append(Equation((flat[a],), P.reshape, (a,), params, e.where))
        return flat[a]

    for e in program.equations:
        y = e.outputs[0]
        if y in moved:
            inputs = tuple([read(a, e) for a in e.inputs])
            flat[y] = Var(Type((y.type.size,), y.dtype, y.type.weak))
            kept.append(Equation((flat[y],), e.primitive, inputs, e.params, e.where))
        elif _is_flattening(e) and e.inputs[0] in moved:
            kept.append(e.reading((flat[e.inputs[0]],)))  # of its own shape: it is dropped later
        else:
            kept.append(e)
    return Program(program.inputs, program.constants, tuple(kept), program.outputs)


def _is_flattening(e: Equation) -> bool:
    a = e.inputs[0] if e.primitive.name == "reshape" else None
    return type(a) is Var and a.type.ndim > 1 and e.outputs[0].type.ndim == 1


def _moved(program: Program) -> set[Var]:
    """Results that may be flat: all who read them do so flat, and all they read is flat, or a view."""
    readers: dict[Any, list[Equation]] = {}
    for e in program.equations:
        for a in e.inputs:
            if type(a) is Var:
                readers.setdefault(a, []).append(e)
    is_view = {v for v in (*program.inputs, *[v for v, _ in program.constants])}
    is_view |= {e.outputs[0] for e in program.equations if e.primitive.name in _VIEWS}
    made = {e.outputs[0]: e for e in program.equations if _is_by_entries(e)}
    found = set(made).difference(program.outputs)

    def stays(test: Callable[[Equation], bool]) -> bool:
        gone = {y for y in found if not test(made[y])}
        found.difference_update(gone)
        return bool(gone)

    def is_read_flat(e: Equation) -> bool:
        return all(
            r.outputs[0] in found or _is_flattening(r) for r in readers.get(e.outputs[0], ())
        )

    def reads_views(e: Equation) -> bool:
        return all(a in is_view or a in found for a in e.inputs if type(a) is Var and a.shape)

    while stays(is_read_flat) | stays(reads_views):
        pass
    return found


def _is_by_entries(e: Equation) -> bool:
    """Entry by entry, of arrays of one shape and of numbers."""
    y = e.outputs[0]
    if not e.primitive.elementwise or e.primitive.has_effect or y.type.ndim < 2 or y.type.is_stack:
        return False
    return all(type(a) is not Var or a.shape in ((), y.shape) for a in e.inputs)
