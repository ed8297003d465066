"""Boxes: what calls of recursive functions store for their derivatives, one box a call (regions.py).

The differential of a box is a box of the same layout, with zeros where something does not vary; an empty box is
all zeros, whatever it should hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..ir import Equation, Program, Type, Var
from ..primitives.control import BOX, BRANCH, CALL, LENGTH, NO_ENTRIES, UNBOX
from ..regions import Box, Branches, Callee, Empty, Layout, Length, Unbox
from ..trace import stage_region
from .batch import batched_layout
from .linear import blank
from .stacks import add_stacks, each, spread_entry, type_of_stack

Pair = tuple[Callable[[Sequence[Any]], tuple[Any, ...]], Callable[[Sequence[Any]], tuple[Any, ...]]]


# ---- Programs that make and read them


def boxed(program: Program, outputs: int, layout: Layout) -> Program:
    """Outputs beyond the first ones, in a box."""
    layout.types = [v.type for v in program.outputs[outputs:]]
    box = Var(layout.type)
    made = Equation((box,), BOX, program.outputs[outputs:], {"region": Box(layout)})
    shown = (*program.outputs[:outputs], box)
    return replace(program, equations=(*program.equations, made), outputs=shown)


def unboxed(program: Program, first: int, layout: Layout) -> Program:
    """Inputs from the given one on, as many as a box holds, out of a box."""
    behind = first + len(layout.types)
    box = Var(layout.type)
    opened = Equation(program.inputs[first:behind], UNBOX, (box,), {"region": Unbox(layout)})
    inputs = (*program.inputs[:first], box, *program.inputs[behind:])
    return replace(program, inputs=inputs, equations=(opened, *program.equations))


# ---- derivatives


def derive_box(region: Box, args: list[Any], places: list[int], varies: list[bool]) -> Pair:
    types = region.layout.types

    def push(ts: Sequence[Any]) -> tuple[Any, ...]:
        given = dict(zip(places, ts, strict=True))
        return tuple(BOX(*_contents(given, types), region=region))

    def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
        found = _opened(cts[0], region.layout)
        return tuple(_as_long_as(found[k], args[k], types[k]) for k in places)

    return push, pull


def derive_unbox(region: Unbox, args: list[Any], places: list[int], varies: list[bool]) -> Pair:
    layout = region.layout

    def push(ts: Sequence[Any]) -> tuple[Any, ...]:
        found, values = _opened(ts[0], layout), UNBOX(*args, region=region)
        columns = zip(found, values, layout.types, varies, strict=True)
        return tuple(_as_long_as(x, y, t) if flag else None for x, y, t, flag in columns)

    def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(BOX(*_contents(dict(enumerate(cts)), layout.types), region=Box(layout)))

    return push, pull


def _contents(given: dict[int, Any], types: list[Type]) -> list[Any]:
    return [blank(t) if given.get(k) is None else given[k] for k, t in enumerate(types)]


def _opened(box: Any, layout: Layout) -> list[Any]:
    """What a differential holds. That of a bare number is an array."""
    found = UNBOX(box, region=Unbox(layout))
    return [x.astype(t.dtype) if t.weak else x for x, t in zip(found, layout.types, strict=True)]


def _as_long_as(x: Any, like: Any, t: Type) -> Any:
    """The differential of a stack: with zeros for all entries where it was given as none."""
    if not t.is_stack or t.is_box:
        return x
    entry = Type(t.shape[1:], t.dtype)
    zeros = stage_region(lambda x, like: [each(lambda y: blank(entry), like)], [t, t], None)
    given = stage_region(lambda x, like: [x], [t, t], None)
    return BRANCH(_count(x) > 0, x, like, region=Branches((zeros, given)))[0]


def _count(x: Any) -> Any:
    return LENGTH(x, region=Length())[0]


# ---- sums, and boxes that are the same for all examples of a batch


def add_boxes(a: Any, b: Any) -> Any:
    """The sum of two differentials."""
    t = type_of_stack(a)
    layout = Layout.of(t)

    def both(a: Any, b: Any) -> list[Any]:
        columns = zip(_opened(a, layout), _opened(b, layout), layout.types, strict=True)
        return BOX(*[_sum(x, y, u) for x, y, u in columns], region=Box(layout))

    def total(a: Any, b: Any) -> list[Any]:
        which = (_count(a) > 0) * 1 + (_count(b) > 0) * 2
        arms = [lambda a, b: [b], lambda a, b: [a], lambda a, b: [b], both]
        programs = tuple(stage_region(arm, [t, t], None) for arm in arms)
        return BRANCH(which, a, b, region=Branches(programs))

    return CALL(a, b, region=_made(layout, "add", layout, total, 2))[0]


def _sum(x: Any, y: Any, t: Type) -> Any:
    if t.is_box:
        return add_boxes(x, y)
    if not t.is_stack:
        return x + y
    given = (_count(x) > 0) * 1 + (_count(y) > 0) * 2
    arms = [lambda x, y: [y], lambda x, y: [x], lambda x, y: [y], lambda x, y: [add_stacks(x, y)]]
    programs = tuple(stage_region(arm, [t, t], None) for arm in arms)
    return BRANCH(given, x, y, region=Branches(programs))[0]


def spread_box(a: Any, size: int) -> Any:
    t = type_of_stack(a)
    layout = Layout.of(t)
    wider = batched_layout(layout, size)

    def full(a: Any) -> list[Any]:
        found = UNBOX(a, region=Unbox(layout))
        return BOX(*[spread_entry(x, size) for x in found], region=Box(wider))

    def all_of_it(a: Any) -> list[Any]:
        empty = stage_region(lambda a: NO_ENTRIES(region=Empty(wider.type)), [t], None)
        programs = (empty, stage_region(full, [t], None))
        return BRANCH(_count(a) > 0, a, region=Branches(programs))

    return CALL(a, region=_made(layout, ("spread", size), wider, all_of_it, 1))[0]


def _made(layout: Layout, key: Any, result: Layout, f: Any, inputs: int) -> Callee:
    """A function of boxes of one layout, which goes down into those that they hold."""
    found: Callee | None = layout.derived.get(key)
    if found is None:
        name = key if isinstance(key, str) else key[0]
        found = layout.derived[key] = Callee(f"{name} boxes", [result.type], None, True)
        found.program = stage_region(f, [layout.type] * inputs, None)
    return found
