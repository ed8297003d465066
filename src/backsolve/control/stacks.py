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


def _each(f: Callable[..., Any], *stacks: Any) -> Any:
    """The stack of f(entries…)."""
    types = [x._v.type if type(getattr(x, "_v", None)) is Var else x.type for x in stacks]
    entries = [Type(t.shape[1:], t.dtype) for t in types]
    body = stage_region(lambda k, *xs: [f(*xs)], [INDEX, *entries], None)
    loop = Loop(body, carried=0, fixed=0, sequences=len(stacks), counted=True)
    (count,) = LENGTH(stacks[0], region=Length())
    return LOOP(count, *stacks, region=loop)[0]


def add_stacks(a: Any, b: Any) -> Any:
    return _each(lambda x, y: x + y, a, b)


def spread_stack(a: Any, size: int) -> Any:
    """Each entry for every example of a batch."""
    return _each(lambda x: spread_stack(x, size) if is_stack(x) else spread(x, size), a)


FUNCTIONS["add_stacks"] = add_stacks
FUNCTIONS["spread_stack"] = spread_stack
