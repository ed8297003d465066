"""Batching without a Program: a function of one example, whose calls run on all examples as they are met.

For what runs but once, on numbers: nothing is written down, and no value is held here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .batch import spread_any
from .hooks import hooks
from .ir import Type, Var
from .primitive import Primitive, coerce
from .primitives.batching import one_by_one
from .trace import BARE, Recorder


class NeedsProgram(BaseException):
    """A loop, a branch or a call was met, or a value that varies. Not an Exception: users catch those."""


def run_at_once(
    f: Callable[..., Sequence[Any]], stacks: Sequence[Any], size: int
) -> list[Any] | None:
    """f of each example, stacked; None if that needs a Program."""
    by = _Examples(size)
    try:
        found = f(*[by.staged(s) for s in stacks])
    except NeedsProgram:
        return None
    results = [(y, by.stack(y)) for y in found]
    return [spread_any(y, size) if stack is None else stack for y, stack in results]


class _Examples(Recorder):
    """Stands where a function is staged on one example; what is staged holds the stack of all."""

    def __init__(self, size: int):
        super().__init__()
        self.size, self.is_checked = size, True

    def staged(self, stack: Any) -> Any:
        var = Var(Type(stack.shape[1:], stack.dtype), self)
        var.stack = stack
        return hooks.wrap_var(var, None)

    def stack(self, a: Any) -> Any:
        """None if `a` is the same for all examples."""
        v = getattr(a, "_v", None)
        return v.stack if type(v) is Var and v.recorder is self else None

    def at_once(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if prim.holds_regions:
            raise NeedsProgram
        values, flags = [], []
        for a in args:
            v, is_stack = a, False
            if isinstance(a, hooks.Tensor):
                if a.row is not None:
                    raise NeedsProgram
                v = a._v
                is_stack = type(v) is Var and v.recorder is self
                if is_stack:
                    v = v.stack
            elif type(a) not in BARE:
                v = coerce(a)
            values.append(v)
            flags.append(is_stack)
        rule = prim.batch_rule or one_by_one
        return self.staged(rule(prim, self.size, values, flags, params))
