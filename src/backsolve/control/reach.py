"""Which results vary smoothly with which inputs: what needs a derivative at all."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ..ir import Program, Var, type_of
from ..regions import Box, Branches, Callee, Empty, Length, Loop, Unbox


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
    elif isinstance(region, Box):
        found = [any(varying)]
    elif isinstance(region, Unbox):
        found = [varying[0]] * len(types)
    else:
        assert isinstance(region, Empty | Length), name
        found = [False]
    return [flag and t.dtype.kind in "fc" for flag, t in zip(found, types, strict=True)]


def _reach_call(callee: Callee, varying: tuple[bool, ...]) -> list[bool]:
    if callee.program is None or callee.own is not None:
        return [any(varying)] * len(callee.types)
    key = ("reach", varying)  # asked for at each of many calls
    if key in callee.derivatives:
        found: list[bool] = callee.derivatives[key]
        return found
    if _open.now is None:
        for c, flags, found in _settled(callee, varying):
            c.derivatives["reach", flags] = found
        return _reach_call(callee, varying)
    mine = id(callee), varying
    if mine not in _open.now:
        _open.now[mine] = callee, varying, _open.before.get(mine, [False] * len(callee.types))
        _open.now[mine] = callee, varying, reach(callee.program, varying)
    return _open.now[mine][2]


class _Open(threading.local):
    """While it is found what calls that lead to each other reach: as far as known, now and one try before."""

    now: dict[Any, tuple[Callee, tuple[bool, ...], list[bool]]] | None = None
    before: dict[Any, list[bool]]


_open = _Open()


def _settled(callee: Callee, varying: tuple[bool, ...]) -> Any:
    """From nothing upwards, until nothing more is reached."""
    _open.before = {}
    try:
        while True:
            _open.now = {}
            _reach_call(callee, varying)
            found = {mine: flags for mine, (_, _, flags) in _open.now.items()}
            if found == _open.before:
                return list(_open.now.values())
            _open.before = found
    finally:
        _open.now = None


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
