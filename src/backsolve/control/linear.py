"""The differential of a region: its Program with tangents, or with adjoints, beside the values.

`with_adjoints` gives one Program for values and adjoints together. `cut` parts it where adjoints come in: what
does not rest on them can run ahead (the first pass), the rest runs later (the second), and what crosses the cut
is kept in between. Of that, `keep` stores only what cannot be had again for little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir import Equation, Program, Type, Var, type_of
from ..primitive import wrap
from ..primitives.control import NO_ENTRIES
from ..regions import Empty
from ..rewrite import rewrite
from ..row import ancestors
from ..solve import back_substitute, forward_substitute
from ..tensor import Tensor, leaf_row
from ..trace import evaluate, stage_region


def _vary(values: Sequence[Any], varying: Sequence[bool]) -> tuple[list[Any], list[Any]]:
    """The values, those that vary with fresh rows; and these rows."""
    out, rows = [], []
    for x, flag in zip(values, varying, strict=True):
        if flag:
            x = wrap(x._v, leaf_row(x._v))
            rows.append(x.row)
        out.append(x)
    return out, rows


def zeros_like(x: Any) -> Any:
    """Zeros of the type of a value, or of a type."""
    t = x if isinstance(x, Type) else type_of(x)
    assert not t.is_stack, "a stack has no zeros: who reads it must not"
    return np.zeros(t.shape, t.dtype)


def blank(t: Type) -> Any:
    """A differential that is zero by structure; of a stack, which has none, one that nobody will read."""
    return NO_ENTRIES(region=Empty(t))[0] if t.is_stack else zeros_like(t)


def strong(t: Type) -> Type:
    return Type(t.shape, t.dtype)


def _row(y: Any) -> Any:
    return y.row if isinstance(y, Tensor) else None


def with_tangents(
    program: Program, varying: Sequence[bool], wanted: Sequence[bool], values: bool = True
) -> Program:
    """(inputs…, tangents of those that vary…) -> (outputs…, tangents of the wanted ones…)."""
    types = [v.type for v in program.inputs]
    ahead = [strong(t) for t, flag in zip(types, varying, strict=True) if flag]

    def both(*args: Any) -> list[Any]:
        xs, rows = _vary(args[: len(types)], varying)
        outputs = evaluate(program, xs)
        targets = [_row(y) if flag else None for y, flag in zip(outputs, wanted, strict=True)]
        between, _ = ancestors(
            [r for r in targets if r is not None], min([r.index for r in rows], default=0)
        )
        seeds = list(zip(rows, args[len(types) :], strict=True))
        found = forward_substitute(between, seeds, targets, record=True)
        tangents = [
            blank(type_of(a)) if t is None else t
            for a, t, flag in zip(program.outputs, found, wanted, strict=True)
            if flag
        ]
        return [*(outputs if values else ()), *tangents]

    return stage_region(both, [*types, *ahead], None)


@dataclass(frozen=True)
class Adjoints:
    """(inputs…, adjoints of some outputs…) -> (outputs…, adjoints of some inputs…)."""

    program: Program
    received: list[bool]  # which of the inputs that vary get an adjoint at all


def with_adjoints(
    program: Program,
    varying: Sequence[bool],
    given: Sequence[bool],
    at_hand: Sequence[bool] | None = None,
) -> Adjoints:
    """`at_hand` says of a loop's body which of its inputs both passes can read."""
    types = [v.type for v in program.inputs]
    back = [strong(type_of(a)) for a, flag in zip(program.outputs, given, strict=True) if flag]
    received: list[bool] = []

    def both(*args: Any) -> list[Any]:
        if at_hand is not None:
            hand = {x._v for x, flag in zip(args, at_hand, strict=False) if flag}
            args[0]._v.recorder.at_hand = hand
        xs, rows = _vary(args[: len(types)], varying)
        outputs = evaluate(program, xs)
        sources = [y for y, flag in zip(outputs, given, strict=True) if flag]
        seeds = [
            (y.row, s)
            for y, s in zip(sources, args[len(types) :], strict=True)
            if _row(y) is not None
        ]
        oldest = min([r.index for r in rows], default=0)
        adjoints = back_substitute(seeds, rows, oldest=oldest, record=True)
        received.extend(g is not None for g in adjoints)
        return [*outputs, *[g for g in adjoints if g is not None]]

    made = stage_region(both, [*types, *back], None)
    return Adjoints(rewrite(made), received)


# ---- the cut


@dataclass(frozen=True)
class Cut:
    first: list[Equation]  # do not rest on the adjoints
    second: list[Equation]
    crossing: list[Var]  # made or given ahead of the cut, read behind it
    constants: tuple[tuple[Var, Any], ...]


def cut(program: Program, ahead: int, outputs: int) -> Cut:
    """Part a Program: its first `ahead` inputs are there, its first `outputs` wanted, before the others."""
    late = set(program.inputs[ahead:])
    first, second = [], []
    for e in program.equations:
        if any(type(a) is Var and a in late for a in e.inputs):
            late.update(e.outputs)
            second.append(e)
        else:
            first.append(e)
    known = {v for v, _ in program.constants} | late
    atoms = [*[a for e in second for a in e.inputs], *program.outputs[outputs:]]
    crossing = {a: None for a in atoms if type(a) is Var and a not in known}
    return Cut(first, second, list(crossing), program.constants)


# Of the equations that cost less to repeat than to write down and read again.
LIGHT = frozenset(
    [
        *("add", "subtract", "multiply", "negative", "absolute", "square", "maximum", "minimum", "where"),
        *("cast", "cast_discrete", "alias"),
        *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
        *("logical_and", "logical_or", "logical_not", "logical_xor", "floor_divide", "remainder", "sign"),
        *("slice", "permute", "reshape", "broadcast_to", "gather", "real", "imag", "conjugate", "reciprocal"),
    ]
)  # fmt: skip


def must_be_stored(x: Any) -> bool:
    """Whether the loop around has to store this value in each of its rounds for a second pass to read it."""
    var = getattr(x, "_v", None)
    recorder = var.recorder if type(var) is Var else None
    if recorder is None or recorder.at_hand is None:
        return False
    makers = {v: e for e in recorder.equations for v in e.outputs}
    return not _is_there(var, recorder.at_hand, makers)


def _is_there(a: Any, at_hand: Any, makers: dict[Var, Equation]) -> bool:
    if type(a) is not Var or a in at_hand:
        return True
    e = makers.get(a)
    if e is None or e.primitive.name not in LIGHT:
        return False
    return all(_is_there(x, at_hand, makers) for x in e.inputs)


def keep(
    crossing: Sequence[Var], first: Sequence[Equation], free: set[Var]
) -> tuple[list[Var], list[Equation]]:
    """What to store so that `crossing` can be had again, and the equations that then make it.

    `free` values are there in both passes. A value is made again if its equation is light and needs no more
    than one stored value in its place, none larger than itself.
    """
    makers = {v: e for e in first for v in e.outputs}
    stored: dict[Var, None] = {v: None for v in crossing if v not in free}
    again: dict[Var, Equation] = {}
    changed = True
    while changed:
        changed = False
        for v in list(stored):
            e = makers.get(v)
            if e is None or e.primitive.name not in LIGHT:
                continue
            missing = {
                a: None
                for a in e.inputs
                if type(a) is Var
                and a not in free
                and a not in again
                and (a not in stored or a is v)
            }
            if len(missing) > 1 or any(a.type.size > v.type.size for a in missing):
                continue
            del stored[v]
            stored.update({a: None for a in missing if a in makers or a not in free})
            again[v] = e
            changed = True
    # Those that are made again on the way to others, too.
    order = [e for e in first if any(v in again for v in e.outputs)]
    return list(stored), order
