"""Passes over equations that hold regions: the same passes inside, less to carry, nothing computed twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ..ir import Equation, Program, Var, type_of
from ..regions import Branches, Callee, Loop
from .clean import drop_unused


def inside(program: Program, f: Callable[[Program], Program]) -> Program:
    """Apply a pass to the Programs of all regions, and of all callees, once each."""
    if not any(e.primitive.holds_regions for e in program.equations):
        return program
    equations = []
    changed = False
    for e in program.equations:
        region = e.params.get("region") if e.primitive.holds_regions else None
        if isinstance(region, Callee):
            changed |= _callee(region, f)
        elif region is not None and region.programs():
            before = region.programs()
            after = tuple(_of_same_types(p, f(p)) for p in before)
            if any(p is not q for p, q in zip(before, after, strict=True)):
                e = replace(e, params={"region": region.with_programs(after)})
                changed = True
        equations.append(e)
    return replace(program, equations=tuple(equations)) if changed else program


def _of_same_types(before: Program, after: Program) -> Program:
    """A pass may make a weak number a strong one; around a region nobody knows."""
    types = [[type_of(a) for a in p.outputs] for p in (before, after)]
    return after if types[0] == types[1] else before


_busy: set[int] = set()  # callees that are being rewritten


def _callee(callee: Callee, f: Callable[[Program], Program]) -> bool:
    """A Program that is called is rewritten in its place: it means the same to all who call it."""
    before = callee.program
    if before is None or id(callee) in _busy or f in callee.seen:
        return False
    _busy.add(id(callee))
    try:
        callee.program = f(before)
        callee.seen.append(f)
    finally:
        _busy.discard(id(callee))
    return callee.program is not before


def with_own_callees(program: Program, own: dict[int, Callee] | None = None) -> Program:
    """Callees of its own, to be put in words that have no derivatives: others call them, too."""
    own = {} if own is None else own

    def of_region(region: Any) -> Any:
        if isinstance(region, Callee):
            made = own.get(id(region))
            if made is None:
                made = own[id(region)] = replace(region, derivatives={}, seen=[*region.seen])
                if made.program is not None:
                    made.program = with_own_callees(made.program, own)
            return made
        before = region.programs()
        after = tuple(with_own_callees(p, own) for p in before)
        same = all(p is q for p, q in zip(before, after, strict=True))
        return region if same else region.with_programs(after)

    equations = []
    for e in program.equations:
        region = e.params.get("region") if e.primitive.holds_regions else None
        made = None if region is None else of_region(region)
        equations.append(e if made is region else replace(e, params={"region": made}))
    same = all(a is b for a, b in zip(equations, program.equations, strict=True))
    return program if same else replace(program, equations=tuple(equations))


# ---- an equation that computes all that another does


def merge_extended(program: Program) -> Program:
    """Where a loop was run again to store more, or with tangents, the first run is not needed."""
    for wide in program.equations:
        extends = (
            getattr(wide.params["region"], "extends", None)
            if wide.primitive.holds_regions
            else None
        )
        if extends is None:
            continue
        for narrow in program.equations:
            if narrow is wide or narrow.params.get("region") is not extends.region:
                continue
            same = all(
                _equal(a, wide.inputs[k])
                for a, k in zip(narrow.inputs, extends.inputs, strict=True)
            )
            if same:
                merged = _without(program, narrow, wide, extends.outputs)
                if merged is not None:
                    return merge_extended(merged)
    return program


def _equal(a: Any, b: Any) -> bool:
    return a is b if type(a) is Var or type(b) is Var else (type(a), repr(a)) == (type(b), repr(b))


def _without(
    program: Program, narrow: Equation, wide: Equation, places: tuple[int, ...]
) -> Program | None:
    """The Program with `wide` in the place of `narrow`; None if `wide` rests on what `narrow` gives."""
    makers = {v: e for e in program.equations for v in e.outputs}
    stack, seen = [wide], {id(wide)}
    while stack:
        e = stack.pop()
        if e is narrow:
            return None
        for a in e.inputs:
            maker = makers.get(a) if type(a) is Var else None
            if maker is not None and id(maker) not in seen:
                seen.add(id(maker))
                stack.append(maker)
    same = {v: wide.outputs[k] for v, k in zip(narrow.outputs, places, strict=True)}
    now = lambda a: same.get(a, a) if type(a) is Var else a
    kept = [
        replace(e, inputs=tuple(map(now, e.inputs))) for e in program.equations if e is not narrow
    ]
    outputs = tuple(map(now, program.outputs))
    return Program(program.inputs, program.constants, tuple(in_order(kept)), outputs)


def in_order(equations: list[Equation]) -> list[Equation]:
    """The equations with each behind what it reads, otherwise as they stand."""
    makers = {v: k for k, e in enumerate(equations) for v in e.outputs}
    done = [False] * len(equations)
    out: list[Equation] = []
    for start in range(len(equations)):
        stack = [start]
        while stack:
            k = stack[-1]
            if done[k]:
                stack.pop()
                continue
            needs = [
                makers[a]
                for a in equations[k].inputs
                if type(a) is Var and a in makers and not done[makers[a]]
            ]
            if needs:
                stack.extend(needs)
                continue
            done[k] = True
            out.append(equations[k])
            stack.pop()
    return out


# ---- less to carry


def prune_regions(program: Program, deep: bool = False) -> Program:
    """Regions make only what is read, and read only what they use; `deep`: seen through loops within loops."""
    if not any(e.primitive.holds_regions for e in program.equations):
        return program
    used = {a for a in program.outputs if type(a) is Var}
    constants = {v: c for v, c in program.constants}
    kept: list[Equation] = []
    same: dict[Var, Any] = {}
    for e in reversed(program.equations):
        if not e.primitive.has_effect and not any(v in used for v in e.outputs):
            continue
        region = e.params.get("region")
        if isinstance(region, Loop):
            # Pieces within pieces: what they carry along would be stored at each level.
            e = _prune_loop(e, region, used, constants, same, deep or region.recompute)
        elif isinstance(region, Branches):
            e = _prune_branches(e, region, used)
        used.update(a for a in e.inputs if type(a) is Var)
        used.update(a for a in same.values() if type(a) is Var)
        kept.append(e)

    def now(a: Any) -> Any:
        while type(a) is Var and a in same:
            a = same[a]
        return a

    equations = [replace(e, inputs=tuple(map(now, e.inputs))) for e in reversed(kept)]
    return Program(
        program.inputs, program.constants, tuple(equations), tuple(map(now, program.outputs))
    )


def _prune_loop(
    e: Equation,
    loop: Loop,
    used: set[Var],
    constants: dict[Var, Any],
    same: dict[Var, Any],
    deep: bool,
) -> Equation:
    a, f = loop.carried, loop.fixed
    body, goes_on = loop.body, loop.goes_on
    head = list(e.inputs[:1]) if loop.counted else []
    _, c_in, f_in, s_in = loop.split(e.inputs)
    k, *rest = body.inputs
    c_vars, f_vars, s_vars = rest[:a], rest[a : a + f], rest[a + f :]
    made_used = [v in used for v in e.outputs[a:-1]]
    g_vars = list(goes_on.inputs) if goes_on is not None else []
    needed, read, asked = _needed_by_loop(e, loop, used, {} if deep else None)
    # What every round leaves as it is, is fixed.
    stays = [
        n and body.outputs[i] is c_vars[i] and _same_type(c_vars[i], c_in[i])
        for i, n in enumerate(needed)
    ]
    inline: list[tuple[Var, Any]] = []
    in_goes_on: list[tuple[Var, Any]] = []
    c_keep = [n and not t for n, t in zip(needed, stays, strict=True)]
    fixed = [
        (v, x, g_vars[1 + i] if g_vars else None)
        for i, (v, x) in enumerate(zip(c_vars, c_in, strict=True))
        if stays[i]
    ]
    fixed += [
        (v, x, g_vars[1 + a + i] if g_vars else None)
        for i, (v, x) in enumerate(zip(f_vars, f_in, strict=True))
    ]
    for i, stay in enumerate(stays):
        if stay and e.outputs[i] in used:
            same[e.outputs[i]] = c_in[i]
    kept_fixed: list[tuple[Var, Any, Any]] = []
    known: dict[Any, tuple[Var, Any]] = {}
    rename: dict[Var, Var] = {}
    for v, x, g in fixed:
        if v not in read and (g is None or g not in asked):
            continue
        number = _number(x, v, constants)
        if number is not None:
            inline.append((v, number))
            if g is not None:
                in_goes_on.append((g, number))
            continue
        twin = known.get(x) if type(x) is Var else None
        if twin is not None:
            rename[v] = twin[0]
            if g is not None:
                rename[g] = twin[1]
            continue
        if type(x) is Var:
            known[x] = (v, g)
        kept_fixed.append((v, x, g))
    s_keep = [v in read for v in s_vars]
    less = Program(
        (k, *_pick(c_vars, c_keep), *[v for v, _, _ in kept_fixed], *_pick(s_vars, s_keep)),
        (*body.constants, *inline),
        body.equations,
        tuple(_pick(body.outputs, [*c_keep, *made_used])),
    )
    new_body = _renamed(less, rename)
    new_body = drop_unused(prune_regions(new_body, deep) if deep else new_body)
    new_goes_on = None
    if goes_on is not None:
        inputs = (
            g_vars[0],
            *[g_vars[1 + i] for i in range(a) if c_keep[i]],
            *[g for _, _, g in kept_fixed],
        )
        new_goes_on = drop_unused(
            _renamed(
                Program(
                    inputs, (*goes_on.constants, *in_goes_on), goes_on.equations, goes_on.outputs
                ),
                rename,
            )
        )
    unchanged = (
        all(c_keep) and all(made_used) and all(s_keep) and len(kept_fixed) == f and not inline
    )
    if unchanged:
        return e
    region = replace(
        loop,
        body=new_body,
        goes_on=new_goes_on,
        carried=sum(c_keep),
        fixed=len(kept_fixed),
        sequences=sum(s_keep),
        extends=None,
    )
    flags = [*c_keep, *made_used, True]
    outputs = tuple(v for v, flag in zip(e.outputs, flags, strict=True) if flag)
    inputs = (*head, *_pick(c_in, c_keep), *[x for _, x, _ in kept_fixed], *_pick(s_in, s_keep))
    return Equation(outputs, e.primitive, inputs, {"region": region}, e.where)


def _number(x: Any, v: Var, constants: dict[Var, Any]) -> Any:
    """A fixed input that is one known number: a constant of the region."""
    if type(x) is not Var:
        return np.asarray(x, v.dtype) if not v.type.weak else None
    c = constants.get(x)
    if isinstance(c, np.ndarray | np.generic) and np.size(c) == 1 and not v.type.weak:
        return np.reshape(np.asarray(c, v.dtype), v.shape)
    return None


def _prune_branches(e: Equation, region: Branches, used: set[Var]) -> Equation:
    outs = [v in used for v in e.outputs]
    read = [_needs(p, _pick(p.outputs, outs)) for p in region.branches]
    n = len(e.inputs) - 1
    reads = [
        any(p.inputs[i] in r for p, r in zip(region.branches, read, strict=True)) for i in range(n)
    ]
    if all(outs) and all(reads):
        return e
    branches = tuple(
        drop_unused(
            Program(
                tuple(_pick(p.inputs, reads)),
                p.constants,
                p.equations,
                tuple(_pick(p.outputs, outs)),
            )
        )
        for p in region.branches
    )
    inputs = (e.inputs[0], *_pick(e.inputs[1:], reads))
    outputs = tuple(_pick(e.outputs, outs))
    return Equation(outputs, e.primitive, inputs, {"region": Branches(branches)}, e.where)


def _pick(items: Any, flags: Any) -> list[Any]:
    return [x for x, flag in zip(items, flags, strict=True) if flag]


def _same_type(v: Var, x: Any) -> bool:
    return v.type == type_of(x)


def _needs(program: Program, outputs: Any, known: dict[Any, Any] | None = None) -> set[Var]:
    """All variables that some outputs rest on; with `known`, of loops that were looked into, through loops."""
    needed = {a for a in outputs if type(a) is Var}
    for e in reversed(program.equations):
        if any(v in needed for v in e.outputs):
            region = e.params.get("region")
            inputs = e.inputs
            if known is not None and isinstance(region, Loop):
                inputs = _read_by_loop(e, region, needed, known)
            needed.update(a for a in inputs if type(a) is Var)
    return needed


def _read_by_loop(
    e: Equation, loop: Loop, used: set[Var], known: dict[Any, Any]
) -> tuple[Any, ...]:
    """The inputs that those of its results rest on that are used."""
    key = id(e), tuple(v in used for v in e.outputs)
    if key not in known:
        needed, read, asked = _needed_by_loop(e, loop, used, known)
        counted = int(loop.counted)
        inside = loop.body.inputs[1:]
        tested = loop.goes_on.inputs[1:] if loop.goes_on is not None else ()
        flags = [v in read for v in inside]
        flags[: loop.carried] = needed
        flags[: len(tested)] = [
            a or v in asked for a, v in zip(flags[: len(tested)], tested, strict=True)
        ]
        known[key] = (*e.inputs[:counted], *_pick(e.inputs[counted:], flags))
    return cast(tuple[Any, ...], known[key])


def _needed_by_loop(
    e: Equation, loop: Loop, used: set[Var], known: dict[Any, Any] | None
) -> tuple[list[bool], set[Var], set[Var]]:
    """Which carried values are needed; what its rounds read for that; and what its condition reads."""
    a, goes_on = loop.carried, loop.goes_on
    made_used = [v in used for v in e.outputs[a:-1]]
    asked = set() if goes_on is None else _needs(goes_on, goes_on.outputs, known)
    needed = [v in used for v in e.outputs[:a]]
    if goes_on is not None:
        needed = [n or v in asked for n, v in zip(needed, goes_on.inputs[1 : 1 + a], strict=True)]
    while True:
        read = _needs(loop.body, _pick(loop.body.outputs, [*needed, *made_used]), known)
        wider = [n or v in read for n, v in zip(needed, loop.body.inputs[1 : 1 + a], strict=True)]
        if wider == needed:
            return needed, read, asked
        needed = wider


def _renamed(program: Program, rename: dict[Var, Var]) -> Program:
    if not rename:
        return program
    now = lambda a: rename.get(a, a) if type(a) is Var else a
    equations = tuple(replace(e, inputs=tuple(map(now, e.inputs))) for e in program.equations)
    return Program(program.inputs, program.constants, equations, tuple(map(now, program.outputs)))
