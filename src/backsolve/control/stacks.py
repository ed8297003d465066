"""What else is done with stacks: entry by entry, by loops of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import Type, Var
from ..primitive import FUNCTIONS
from ..primitives.batching import spread
from ..primitives.control import LENGTH, LOOP
from ..regions import INDEX, Length, Loop
from ..tensor import is_stack
from ..trace import stage_region


def type_of_stack(x: Any) -> Type:
    found: Type = x._v.type if type(getattr(x, "_v", None)) is Var else x.type
    return found


def each(f: Callable[..., Any], *stacks: Any) -> Any:
    """The stack of f(entries…)."""
    entries = [Type(t.shape[1:], t.dtype) for t in map(type_of_stack, stacks)]
    body = stage_region(lambda k, *xs: [f(*xs)], [INDEX, *entries], None)
    loop = Loop(body, carried=0, fixed=0, sequences=len(stacks), counted=True)
    (count,) = LENGTH(stacks[0], region=Length())
    return LOOP(count, *stacks, region=loop)[0]


def add_stacks(a: Any, b: Any) -> Any:
    if type_of_stack(a).is_box:
        from .boxes import add_boxes

        return add_boxes(a, b)
    return each(lambda x, y: x + y, a, b)


def spread_stack(a: Any, size: int) -> Any:
    """Each entry for every example of a batch."""
    if type_of_stack(a).is_box:
        from .boxes import spread_box

        return spread_box(a, size)
    return each(lambda x: spread_entry(x, size), a)


def spread_entry(x: Any, size: int) -> Any:
    return spread_stack(x, size) if is_stack(x) else spread(x, size)


FUNCTIONS["add_stacks"] = add_stacks
FUNCTIONS["spread_stack"] = spread_stack
