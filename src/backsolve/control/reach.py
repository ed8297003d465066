"""Which results vary smoothly with which inputs: what needs a derivative at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir import Program, Var, type_of
from ..regions import Branches, Callee, Empty, Length, Loop


def reach(program: Program, varying: Sequence[bool]) -> list[bool]:
    """Which outputs of a Program vary if these inputs do."""
    known = {v for v, flag in zip(program.inputs, varying, strict=True) if flag}
    for e in program.equations:
        flags = [type(a) is Var and a in known for a in e.inputs]
        if not any(flags):
            continue
        if e.primitive.holds_regions:
            found = reach_region(e.primitive.name, e.params["region"], flags)
            known.update(v for v, flag in zip(e.outputs, found, strict=True) if flag)
        elif e.outputs[0].dtype.kind in "fc" and any(
            flag and e.primitive.has_block(i) for i, flag in enumerate(flags)
        ):
            known.add(e.outputs[0])
    return [type(a) is Var and a in known for a in program.outputs]


def reach_region(name: str, region: Any, varying: Sequence[bool]) -> list[bool]:
    """The same of an equation that holds regions."""
    types = region.outputs()
    if isinstance(region, Loop):
        _, carried, fixed, entries = region.split(varying)
        carried = carried_that_vary(region, carried, fixed, entries)
        found = reach(region.body, [False, *carried, *fixed, *entries])
        found = [*map(bool, carried), *found[region.carried :], False]
    elif isinstance(region, Branches):
        each = [reach(p, varying[1:]) for p in region.branches]
        found = [any(flags) for flags in zip(*each, strict=True)]
    elif isinstance(region, Callee):
        found = _reach_call(region, tuple(varying))
    else:
        assert isinstance(region, Empty | Length), name
        found = [False]
    return [flag and t.dtype.kind in "fc" for flag, t in zip(found, types, strict=True)]


def _reach_call(callee: Callee, varying: tuple[bool, ...]) -> list[bool]:
    if callee.program is None or callee.is_recursive or callee.own is not None:
        return [any(varying)] * len(callee.types)
    key = ("reach", varying)  # asked for at each of many calls
    if key not in callee.derivatives:
        callee.derivatives[key] = reach(callee.program, varying)
    found: list[bool] = callee.derivatives[key]
    return found


def carried_that_vary(loop: Loop, carried: Any, fixed: Any, entries: Any) -> list[bool]:
    """Which carried values vary in some round."""
    kinds = [type_of(a).dtype.kind in "fc" for a in loop.body.outputs[: loop.carried]]
    flags = [bool(a) and k for a, k in zip(carried, kinds, strict=True)]
    while True:
        found = reach(loop.body, [False, *flags, *fixed, *entries])[: loop.carried]
        wider = [a or (b and k) for a, b, k in zip(flags, found, kinds, strict=True)]
        if wider == flags:
            return flags
        flags = wider


__all__ = ["carried_that_vary", "reach", "reach_region"]
